// SPDX-License-Identifier: Apache-2.0
// Files as read-only memory.
#include "tensor/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_ops.h"

static berth_status fail_errno(const char* what, const char* path) {
    const int error = errno;
    const berth_status status =
        error == ENOMEM ? BERTH_ERR_OUT_OF_MEMORY : berth_file_status(error);
    return berth_fail(status, "'%s' cannot be %s: %s", path, what, strerror(error));
}

static berth_status map_descriptor(int descriptor, const char* path, berth_file_map* map) {
    struct stat info;
    if (fstat(descriptor, &info) != 0) return fail_errno("examined", path);
    if (!S_ISREG(info.st_mode)) return berth_fail(BERTH_ERR_IO, "'%s' is not a regular file", path);
    if (info.st_size == 0) return BERTH_OK;
    void* data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) return fail_errno("mapped", path);
    map->data = data;
    map->size = (uint64_t)info.st_size;
    return BERTH_OK;
}

berth_status berth_file_map_open(const berth_host* host,
                                 const char* path,
                                 berth_file_map** out_map) {
    *out_map = NULL;
    if (path == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the path is NULL");
    berth_file_map* map = berth_host_calloc(host, 1, sizeof *map);
    if (map == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to map '%s'", path);
    map->host = host;
    atomic_init(&map->refs, 1);
    // not to wait for a pipe that nobody writes to
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    berth_status status =
        descriptor < 0 ? fail_errno("opened", path) : map_descriptor(descriptor, path, map);
    if (descriptor >= 0) close(descriptor);
    if (status != BERTH_OK) {
        berth_file_map_release(map);
        return status;
    }
    *out_map = map;
    return BERTH_OK;
}

void berth_file_map_retain(berth_file_map* map) {
    atomic_fetch_add_explicit(&map->refs, 1, memory_order_relaxed);
}

void berth_file_map_release(berth_file_map* map) {
    if (map == NULL) return;
    if (atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1) return;
    if (map->data != NULL) munmap(map->data, (size_t)map->size);
    berth_host_free(map->host, map);
}
