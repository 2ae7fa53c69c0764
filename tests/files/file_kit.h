// SPDX-License-Identifier: Apache-2.0
// Fixtures for tests with files: an empty folder beside an open context, bytes in and out.
#ifndef BERTH_TEST_FILE_KIT_H
#define BERTH_TEST_FILE_KIT_H

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/exec_kit.h"

/// A runtime, a context, and a folder that goes with them.
typedef struct file_kit {
    exec_kit exec;
    berth_context* ctx;
    char folder[256];
    char path[400]; ///< of the last file_kit_path()
} file_kit;

/// The path of `name` in the kit's folder; valid until the next call.
static inline const char* file_kit_path(file_kit* kit, const char* name) {
    snprintf(kit->path, sizeof kit->path, "%s/%s", kit->folder, name);
    return kit->path;
}

/// Makes the folder. The context may come later.
static inline bool file_kit_open_folder(file_kit* kit) {
    const char* where = getenv("TMPDIR");
    snprintf(kit->folder,
             sizeof kit->folder,
             "%s/berth-files-XXXXXX",
             where != NULL && strlen(where) < 200 ? where : "/tmp");
    return mkdtemp(kit->folder) != NULL;
}

/// Calls `fn` (may be NULL) for each file of the folder; returns how many there are.
static inline size_t file_kit_each(const file_kit* kit, int (*fn)(const char* path)) {
    DIR* folder = opendir(kit->folder);
    size_t count = 0;
    assert_non_null(folder);
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
        char path[600];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        ++count;
        snprintf(path, sizeof path, "%s/%s", kit->folder, entry->d_name);
        if (fn != NULL) assert_int_equal(fn(path), 0);
    }
    closedir(folder);
    return count;
}

static inline size_t file_kit_count(const file_kit* kit) { return file_kit_each(kit, NULL); }

static inline void file_kit_close_folder(file_kit* kit) {
    file_kit_each(kit, remove);
    assert_int_equal(rmdir(kit->folder), 0);
}

static inline int file_kit_set_up(void** state, const char* device) {
    static file_kit kit;
    kit = (file_kit){0};
    *state = &kit;
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}};
    if (!file_kit_open_folder(&kit)) return -1;
    if (exec_kit_open(&kit.exec, NULL, settings, 2) != BERTH_OK) return -1;
    kit.ctx = kit.exec.ctx;
    return 0;
}

static inline int file_kit_set_up_cpu(void** state) { return file_kit_set_up(state, "cpu"); }

static inline int file_kit_set_up_sim(void** state) { return file_kit_set_up(state, "sim"); }

static inline int file_kit_tear_down(void** state) {
    file_kit* kit = *state;
    file_kit_close_folder(kit);
    exec_kit_close(&kit->exec);
    return 0;
}

/// Two entries of a cmocka table: the test on cpu and on sim, each with a kit of its own.
#define FILE_KIT_ON_BOTH(test)                                                                     \
    {"cpu: " #test, test, file_kit_set_up_cpu, file_kit_tear_down, NULL}, {                        \
        "sim: " #test, test, file_kit_set_up_sim, file_kit_tear_down, NULL                         \
    }

/// Writes `bytes` of `data` to the file called `name`; returns its path.
static inline const char* file_kit_put(file_kit* kit,
                                       const char* name,
                                       const void* data,
                                       size_t bytes) {
    FILE* file = fopen(file_kit_path(kit, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return kit->path;
}

/// Reads the file at `path`, less than `size` bytes long, into `out`; returns its length.
static inline size_t file_kit_get(const char* path, void* out, size_t size) {
    FILE* file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(out, 1, size, file);
    assert_true(bytes < size);
    fclose(file);
    return bytes;
}

/// Lets no file of this process grow beyond `bytes`; RLIM_INFINITY ends that.
static inline void file_kit_limit_size(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

#endif // BERTH_TEST_FILE_KIT_H
