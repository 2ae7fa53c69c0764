// SPDX-License-Identifier: Apache-2.0
// Reads, locks, merges and writes the plan file.
#include "plan/plan_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_writer.h"
#include "base/log.h"

#define PAUSE_NS 10000000

static const char lock_suffix[] = ".lock";

static berth_status no_memory(void) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "there is no host memory for it");
}

// ---- Reading.

/// Reads up to `size` bytes, and says how many there were.
static bool read_all(const berth_plan_store* self,
                     int descriptor,
                     unsigned char* bytes,
                     size_t size,
                     size_t* out_size) {
    *out_size = 0;
    while (*out_size < size) {
        const ssize_t got = self->ops->read(descriptor, bytes + *out_size, size - *out_size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if (got == 0) break;
        *out_size += (size_t)got;
    }
    return true;
}

static berth_status read_open(const berth_plan_store* self,
                              int descriptor,
                              unsigned char** out_bytes,
                              size_t* out_size) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return berth_fail(BERTH_ERR_IO, "it cannot be read: %s", strerror(errno));
    if (!S_ISREG(info.st_mode)) return berth_fail(BERTH_ERR_IO, "it is not a regular file");
    if ((uint64_t)info.st_size > self->limits.file_bytes)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "it has %llu bytes, and a plan file no more than %llu",
                          (unsigned long long)info.st_size,
                          (unsigned long long)self->limits.file_bytes);
    const size_t size = (size_t)info.st_size;
    *out_bytes = berth_host_alloc(self->host, size);
    if (*out_bytes == NULL) return no_memory();
    if (read_all(self, descriptor, *out_bytes, size, out_size)) return BERTH_OK;
    const int error = errno;
    berth_host_free(self->host, *out_bytes);
    *out_bytes = NULL;
    return berth_fail(BERTH_ERR_IO, "it cannot be read: %s", strerror(error));
}

/// The file's bytes, to be freed; none if there is no file or nothing in it.
static berth_status read_bytes(const berth_plan_store* self,
                               unsigned char** out_bytes,
                               size_t* out_size) {
    *out_bytes = NULL;
    *out_size = 0;
    // whoever has put a pipe there must not make us wait
    const int descriptor = self->ops->open(self->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (descriptor < 0 && errno == ENOENT) return BERTH_OK;
    if (descriptor < 0) return berth_fail(BERTH_ERR_IO, "it cannot be read: %s", strerror(errno));
    const berth_status status = read_open(self, descriptor, out_bytes, out_size);
    (void)close(descriptor);
    return status;
}

void berth_plan_store_load(berth_plan_store* self) {
    if (self->path == NULL) return;
    size_t size;
    berth_status status = read_bytes(self, &self->bytes, &size);
    if (status == BERTH_OK && size > 0) {
        self->is_foreign = !berth_plan_file_is_ours(self->bytes, size);
        status = berth_plan_file_parse(&self->file, self->host, self->bytes, size, self->config);
    }
    if (status == BERTH_OK) return;
    berth_log_line(
        BERTH_LOG_WARN, "plan file '%s' is not used: %s", self->path, berth_last_error());
    berth_host_free(self->host, self->bytes);
    self->bytes = NULL;
}

/// Keeps the path, whole: the program may change its folder.
static berth_status name_file(berth_plan_store* self, const char* path) {
    char folder[PATH_MAX];
    const bool is_whole = path[0] == '/';
    if (!is_whole && getcwd(folder, sizeof folder) == NULL)
        return berth_fail(BERTH_ERR_IO, "there is no current folder: %s", strerror(errno));
    const size_t size = strlen(path) + (is_whole ? 0 : strlen(folder) + 1) + 1;
    self->path = berth_host_alloc(self->host, size);
    if (self->path == NULL) return no_memory();
    (void)snprintf(self->path, size, "%s%s%s", is_whole ? "" : folder, is_whole ? "" : "/", path);
    return BERTH_OK;
}

berth_status berth_plan_store_init(berth_plan_store* self,
                                   const berth_host* host,
                                   const berth_file_ops* ops,
                                   const char* path,
                                   const char* config,
                                   const berth_plan_file_limits* limits) {
    *self = (berth_plan_store){
        .host = host, .ops = ops, .limits = *limits, .tries = BERTH_PLAN_STORE_TRIES};
    self->config = berth_host_strdup(host, config);
    berth_status status = self->config != NULL ? name_file(self, path) : no_memory();
    if (status == BERTH_OK) return status;
    berth_plan_store_fini(self);
    return berth_fail_prefix(status, "plan file '%s'", path);
}

void berth_plan_store_fini(berth_plan_store* self) {
    if (self->host == NULL) return;
    berth_plan_file_fini(&self->file, self->host);
    berth_host_free(self->host, self->bytes);
    berth_host_free(self->host, self->path);
    berth_host_free(self->host, self->config);
    *self = (berth_plan_store){.host = self->host};
}

// ---- Locking. The lock is another file's, as this one is replaced; it goes with its holder.

static berth_status wait_for_lock(const berth_plan_store* self, int descriptor) {
    for (uint32_t left = self->tries;; left--) {
        if (self->ops->flock(descriptor, LOCK_EX | LOCK_NB) == 0) return BERTH_OK;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return berth_fail(BERTH_ERR_IO, "it cannot be locked: %s", strerror(errno));
        if (left == 0) return berth_fail(BERTH_ERR_STATE, "another process keeps it locked");
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        (void)nanosleep(&pause, NULL);
    }
}

static berth_status take_lock(const berth_plan_store* self, int* out_descriptor) {
    const size_t length = strlen(self->path);
    char* path = berth_host_alloc(self->host, length + sizeof lock_suffix);
    if (path == NULL) return no_memory();
    memcpy(path, self->path, length);
    memcpy(path + length, lock_suffix, sizeof lock_suffix);
    *out_descriptor = self->ops->open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    const int error = errno;
    berth_host_free(self->host, path);
    if (*out_descriptor < 0)
        return berth_fail(berth_file_status(error), "it cannot be locked: %s", strerror(error));
    const berth_status status = wait_for_lock(self, *out_descriptor);
    if (status != BERTH_OK) (void)close(*out_descriptor);
    return status;
}

// ---- Writing.

/// Reads what others have put into the file. What is damaged or of another version or
/// configuration counts for nothing; what is not ours stays.
static berth_status read_theirs(const berth_plan_store* self,
                                berth_plan_file* theirs,
                                unsigned char** out_bytes) {
    size_t size;
    BERTH_TRY(read_bytes(self, out_bytes, &size));
    if (size == 0) return BERTH_OK;
    if (!berth_plan_file_is_ours(*out_bytes, size))
        return berth_fail(BERTH_ERR_CORRUPT, "what is there is no plan file");
    const berth_status status =
        berth_plan_file_parse(theirs, self->host, *out_bytes, size, self->config);
    return status == BERTH_ERR_OUT_OF_MEMORY ? status : BERTH_OK;
}

static berth_status write_merged(const berth_plan_store* self, const berth_plan_file* ours) {
    berth_plan_file theirs = {0};
    unsigned char* bytes = NULL;
    berth_byte_writer merged = {.host = self->host};
    berth_status status = read_theirs(self, &theirs, &bytes);
    if (status == BERTH_OK)
        status = berth_plan_file_merge(ours, &theirs, self->config, &self->limits, &merged);
    berth_file_writer writer;
    if (status == BERTH_OK)
        status = berth_file_writer_init(&writer, self->host, self->ops, self->path);
    if (status == BERTH_OK) {
        status = berth_file_writer_add(&writer, merged.data, merged.count);
        status = berth_file_writer_finish(&writer, status);
    }
    berth_byte_writer_fini(&merged);
    berth_plan_file_fini(&theirs, self->host);
    berth_host_free(self->host, bytes);
    return status;
}

/// Our own steps as a file, so that one reader serves for both sides.
static berth_status frame(const berth_plan_store* self,
                          const berth_byte_writer* sections,
                          size_t count,
                          berth_byte_writer* out) {
    berth_plan_file_begin(out, self->config);
    for (size_t i = 0; i < count; i++)
        berth_plan_file_add_section(out, (uint32_t)i, sections[i].data, sections[i].count);
    berth_plan_file_end(out, 0, (uint32_t)count);
    return out->failed ? no_memory() : BERTH_OK;
}

static berth_status save_locked(const berth_plan_store* self, const berth_plan_file* ours) {
    int lock = -1;
    BERTH_TRY(take_lock(self, &lock));
    const berth_status status = write_merged(self, ours);
    (void)close(lock);
    return status;
}

berth_status berth_plan_store_save(const berth_plan_store* self,
                                   const berth_byte_writer* sections,
                                   size_t count) {
    berth_byte_writer framed = {.host = self->host};
    berth_plan_file ours = {0};
    berth_status status = frame(self, sections, count, &framed);
    if (status == BERTH_OK)
        status = berth_plan_file_parse(&ours, self->host, framed.data, framed.count, self->config);
    if (status == BERTH_OK) status = save_locked(self, &ours);
    berth_plan_file_fini(&ours, self->host);
    berth_byte_writer_fini(&framed);
    if (status == BERTH_OK) return status;
    return berth_fail_prefix(status, "plan file '%s' is not written", self->path);
}
