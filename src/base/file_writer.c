// SPDX-License-Identifier: Apache-2.0
// Writing beside the place and renaming.
#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/// Enough for the name of a temporary file: a point, a word, two numbers.
enum { NAME_BYTES = 64, TRIES = 100 };

static berth_status fail_errno(const char* path) {
    const int error = errno;
    return berth_fail(
        berth_file_status(error), "'%s' cannot be written: %s", path, strerror(error));
}

/// Creates the temporary file under a name that nobody has; its bytes are set aside already.
static berth_status create_temporary(berth_file_writer* writer) {
    static atomic_uint_least32_t next;
    for (int i = 0; i < TRIES; ++i) {
        const uint32_t number = (uint32_t)atomic_fetch_add(&next, 1);
        snprintf(writer->temporary + writer->folder_bytes,
                 NAME_BYTES,
                 ".berth-%ld-%" PRIu32 ".tmp",
                 (long)getpid(),
                 number);
        writer->descriptor =
            writer->ops->open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor >= 0) return BERTH_OK;
        if (errno != EEXIST) break;
    }
    return fail_errno(writer->path);
}

/// Decides where the file goes: through links, as they belong to somebody. False without memory.
static bool find_place(berth_file_writer* writer) {
    char target[PATH_MAX];
    struct stat info;
    const bool leads = lstat(writer->path, &info) == 0 && S_ISLNK(info.st_mode) &&
                       realpath(writer->path, target) != NULL;
    writer->place = berth_host_strdup(writer->host, leads ? target : writer->path);
    if (writer->place == NULL) return false;
    const char* slash = strrchr(writer->place, '/');
    writer->folder_bytes = slash == NULL ? 0 : (size_t)(slash + 1 - writer->place);
    writer->temporary = berth_host_alloc(writer->host, writer->folder_bytes + NAME_BYTES);
    if (writer->temporary == NULL) return false;
    memcpy(writer->temporary, writer->place, writer->folder_bytes);
    return true;
}

static void free_names(berth_file_writer* writer) {
    berth_host_free(writer->host, writer->temporary);
    berth_host_free(writer->host, writer->place);
}

berth_status berth_file_writer_init(berth_file_writer* writer,
                                    const berth_host* host,
                                    const berth_file_ops* ops,
                                    const char* path) {
    *writer = (berth_file_writer){.host = host, .ops = ops, .path = path, .descriptor = -1};
    if (path == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the path is NULL");
    struct stat info;
    // a device or a folder must not be replaced by a file
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return berth_fail(BERTH_ERR_IO, "'%s' cannot be written: it is not a regular file", path);
    const berth_status status =
        find_place(writer)
            ? create_temporary(writer)
            : berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to write '%s'", path);
    if (status != BERTH_OK) free_names(writer);
    return status;
}

berth_status berth_file_writer_add(berth_file_writer* writer, const void* data, uint64_t bytes) {
    const unsigned char* from = data;
    while (bytes > 0) {
        const ssize_t written = writer->ops->write(writer->descriptor, from, (size_t)bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail_errno(writer->path);
        from += written;
        bytes -= (uint64_t)written;
    }
    return BERTH_OK;
}

/// Makes the file's new name safe. Where folders cannot be, nothing more can be done.
static berth_status sync_folder(berth_file_writer* writer) {
    writer->temporary[writer->folder_bytes] = '\0';
    const char* folder = writer->folder_bytes > 0 ? writer->temporary : ".";
    const int descriptor = writer->ops->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (descriptor < 0) return errno == EACCES ? BERTH_OK : fail_errno(writer->path);
    const bool is_synced = writer->ops->fsync(descriptor) == 0 || errno == EINVAL;
    const berth_status status = is_synced ? BERTH_OK : fail_errno(writer->path);
    (void)close(descriptor);
    return status;
}

berth_status berth_file_writer_finish(berth_file_writer* writer, berth_status status) {
    // what the system has not stored yet can still fail, and would be found half written
    if (status == BERTH_OK && writer->ops->fsync(writer->descriptor) != 0)
        status = fail_errno(writer->path);
    if (close(writer->descriptor) != 0 && status == BERTH_OK) status = fail_errno(writer->path);
    if (status == BERTH_OK && writer->ops->rename(writer->temporary, writer->place) != 0)
        status = fail_errno(writer->path);
    if (status == BERTH_OK)
        status = sync_folder(writer);
    else
        (void)unlink(writer->temporary);
    free_names(writer);
    return status;
}
