// SPDX-License-Identifier: Apache-2.0
// Small text files of the kernel, read without the heap. A file that is missing limits nothing.
#include "device/cpu/cpu_system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define PATH_BYTES 1024
#define FILE_BYTES 16384 // more than any of these files has
#define UNKNOWN_MAPPING_LIMIT 65530u

static const char* proc_of(const berth_cpu_files* files) {
    return files != NULL && files->proc != NULL ? files->proc : "/proc";
}

static const char* cgroup_of(const berth_cpu_files* files) {
    return files != NULL && files->cgroup != NULL ? files->cgroup : "/sys/fs/cgroup";
}

static const char* nodes_of(const berth_cpu_files* files) {
    return files != NULL && files->nodes != NULL ? files->nodes : "/sys/devices/system/node";
}

/// Opens the file `folder`/`name`; negative if that fails.
static int open_file(const char* folder, const char* name) {
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/// Reads up to `size` bytes, fewer only at the end of the file; `*out_used` of them.
static bool read_some(int file, char* into, size_t size, size_t* out_used) {
    size_t used = 0;
    ssize_t got = 1;
    while (used < size && got != 0) {
        got = read(file, into + used, size - used);
        if (got > 0) used += (size_t)got;
        if (got < 0 && errno != EINTR) break;
    }
    *out_used = used;
    return got >= 0;
}

/// Reads the file `folder`/`name` into `text` as a string.
static bool read_file(const char* folder, const char* name, char* text, size_t size) {
    const int file = open_file(folder, name);
    if (file < 0) return false;
    size_t used;
    const bool read = read_some(file, text, size - 1, &used);
    (void)close(file);
    text[used] = '\0';
    return read;
}

/// The number at the start of `text`; false for anything else, such as "max".
static bool parse_number(const char* text, uint64_t* out) {
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

static bool read_number(const char* folder, const char* name, uint64_t* out) {
    char text[64];
    return read_file(folder, name, text, sizeof text) && parse_number(text, out);
}

/// The number in the line of `text` that begins with `key` and blanks.
static bool find_number(const char* text, const char* key, uint64_t* out) {
    const size_t length = strlen(key);
    for (const char* line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == '\t'))
            return parse_number(line + length + strspn(line + length, " \t"), out);
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return false;
}

/// A hierarchy of control groups: where its files are and which names they have there.
typedef struct hierarchy {
    const char* mount;      ///< folder below the cgroup root, "" for version 2
    const char* controller; ///< as in /proc/self/cgroup, "" for version 2
    const char* limit;
    const char* used;
    const char* droppable; ///< key in memory.stat of page cache that goes first
} hierarchy;

static const hierarchy memory_hierarchies[] = {
    {"", "", "memory.max", "memory.current", "inactive_file"},
    {"/memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

static bool names_controller(const char* list, size_t length, const char* controller) {
    const size_t wanted = strlen(controller);
    if (wanted == 0) return length == 0;
    for (size_t at = 0; at < length;) {
        const size_t word = strcspn(list + at, ",:");
        if (word == wanted && strncmp(list + at, controller, wanted) == 0) return true;
        at += word + 1;
    }
    return false;
}

/// Writes the process's path in the hierarchy of `controller` from the text of /proc/self/cgroup,
/// whose lines are "number:controllers:path".
static bool find_group(const char* text,
                       const char* controller,
                       const char** out_path,
                       size_t* out_length) {
    for (const char* line = text; *line != '\0';) {
        const size_t line_length = strcspn(line, "\n");
        const char* list = memchr(line, ':', line_length);
        const char* path = list == NULL ? NULL : strchr(list + 1, ':');
        if (path != NULL && path < line + line_length &&
            names_controller(list + 1, (size_t)(path - list - 1), controller)) {
            *out_path = path + 1;
            *out_length = (size_t)(line + line_length - path - 1);
            return true;
        }
        line += line_length;
        if (*line == '\n') line++;
    }
    return false;
}

typedef void (*visit_fn)(const char* folder, const hierarchy* of, void* argument);

/// Calls `visit` for the process's group in `of` and for every group above it. Inside a container
/// the path may be the host's and not exist here; then the groups above it still do.
static void visit_groups(const berth_cpu_files* files,
                         const hierarchy* of,
                         visit_fn visit,
                         void* argument) {
    char text[FILE_BYTES];
    const char* path;
    size_t length;
    if (!read_file(proc_of(files), "self/cgroup", text, sizeof text)) return;
    if (!find_group(text, of->controller, &path, &length)) return;
    for (;;) {
        while (length > 0 && path[length - 1] == '/')
            length--;
        char folder[PATH_BYTES];
        const int written = snprintf(
            folder, sizeof folder, "%s%s%.*s", cgroup_of(files), of->mount, (int)length, path);
        if (written > 0 && (size_t)written < sizeof folder) visit(folder, of, argument);
        if (length == 0) return;
        while (length > 0 && path[length - 1] != '/')
            length--;
    }
}

typedef struct memory_bounds {
    uint64_t total;
    uint64_t available;
} memory_bounds;

static void apply_memory_limit(const char* folder, const hierarchy* of, void* argument) {
    memory_bounds* bounds = argument;
    uint64_t limit, used;
    if (!read_number(folder, of->limit, &limit)) return;
    if (limit < bounds->total) bounds->total = limit;
    if (!read_number(folder, of->used, &used)) return;
    char text[FILE_BYTES];
    uint64_t droppable = 0;
    if (read_file(folder, "memory.stat", text, sizeof text))
        (void)find_number(text, of->droppable, &droppable);
    used -= droppable < used ? droppable : used;
    const uint64_t left = limit > used ? limit - used : 0;
    if (left < bounds->available) bounds->available = left;
}

berth_status berth_cpu_query_memory(const berth_cpu_files* files,
                                    uint64_t* out_total,
                                    uint64_t* out_available) {
    *out_total = 0;
    *out_available = 0;
    char text[FILE_BYTES];
    memory_bounds bounds;
    if (!read_file(proc_of(files), "meminfo", text, sizeof text) ||
        !find_number(text, "MemTotal:", &bounds.total) ||
        !find_number(text, "MemAvailable:", &bounds.available))
        return berth_fail(BERTH_ERR_DEVICE,
                          "the machine's memory cannot be read from %s/meminfo",
                          proc_of(files));
    bounds.total *= 1024;
    bounds.available *= 1024;
    for (size_t i = 0; i < sizeof memory_hierarchies / sizeof memory_hierarchies[0]; i++)
        visit_groups(files, &memory_hierarchies[i], apply_memory_limit, &bounds);
    *out_total = bounds.total;
    *out_available = bounds.available < bounds.total ? bounds.available : bounds.total;
    return BERTH_OK;
}

static void apply_quota(uint64_t quota, uint64_t period, uint32_t* cores) {
    if (period == 0 || quota == 0) return;
    const uint64_t allowed = (quota - 1) / period + 1;
    if (allowed < *cores) *cores = (uint32_t)allowed;
}

static void apply_cpu_limit(const char* folder, const hierarchy* of, void* argument) {
    uint64_t quota, period;
    char text[64];
    if (of->mount[0] == '\0') { // version 2: "quota period" in one file
        if (!read_file(folder, of->limit, text, sizeof text) || !parse_number(text, &quota)) return;
        const char* second = strchr(text, ' ');
        if (second != NULL && parse_number(second + 1, &period))
            apply_quota(quota, period, argument);
    } else if (read_number(folder, of->limit, &quota) && read_number(folder, of->used, &period)) {
        apply_quota(quota, period, argument);
    }
}

uint32_t berth_cpu_query_cores(const berth_cpu_files* files) {
    static const hierarchy cpu_hierarchies[] = {
        {"", "", "cpu.max", "", ""},
        {"/cpu", "cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us", ""},
    };
    cpu_set_t mask;
    uint32_t cores = 1;
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
        cores = (uint32_t)CPU_COUNT(&mask);
    } else { // more cores than the mask has bits
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        if (online > 0) cores = (uint32_t)online;
    }
    for (size_t i = 0; i < sizeof cpu_hierarchies / sizeof cpu_hierarchies[0]; i++)
        visit_groups(files, &cpu_hierarchies[i], apply_cpu_limit, &cores);
    return cores == 0 ? 1 : cores;
}

/// The numbers below 64 of a list such as "0-3,8", as bits.
static uint64_t parse_list(const char* text) {
    uint64_t bits = 0;
    while (*text >= '0' && *text <= '9') {
        char* end;
        const uint64_t first = strtoull(text, &end, 10);
        uint64_t last = first;
        if (*end == '-') last = strtoull(end + 1, &end, 10);
        for (uint64_t i = first; i <= last && i < 64; i++)
            bits |= UINT64_C(1) << i;
        if (*end != ',') break;
        text = end + 1;
    }
    return bits;
}

/// Those that the process's memory is confined to; all if that cannot be read.
static uint64_t allowed_nodes(const berth_cpu_files* files) {
    static const char key[] = "Mems_allowed_list:";
    char text[FILE_BYTES];
    if (!read_file(proc_of(files), "self/status", text, sizeof text)) return UINT64_MAX;
    const char* line = strstr(text, key);
    if (line == NULL) return UINT64_MAX;
    line += sizeof key - 1;
    return parse_list(line + strspn(line, " \t"));
}

uint64_t berth_cpu_query_nodes(const berth_cpu_files* files) {
    char text[256];
    if (!read_file(nodes_of(files), "has_memory", text, sizeof text)) return 1;
    const uint64_t nodes = parse_list(text) & allowed_nodes(files);
    return nodes != 0 ? nodes : 1;
}

berth_status berth_cpu_query_node_memory(const berth_cpu_files* files,
                                         uint32_t node,
                                         uint64_t* out_total,
                                         uint64_t* out_available) {
    char name[32], key[3][32], text[FILE_BYTES];
    uint64_t kib[3];
    static const char* const fields[3] = {"MemTotal:", "MemFree:", "Inactive(file):"};
    (void)snprintf(name, sizeof name, "node%u/meminfo", (unsigned)node);
    bool found = read_file(nodes_of(files), name, text, sizeof text);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(key[i], sizeof key[i], "Node %u %s", (unsigned)node, fields[i]);
        found = found && find_number(text, key[i], &kib[i]);
    }
    *out_total = found ? kib[0] * 1024 : 0;
    *out_available = found ? (kib[1] + kib[2]) * 1024 : 0;
    if (found) return BERTH_OK;
    return berth_fail(
        BERTH_ERR_DEVICE, "the memory of node %u cannot be read from %s", (unsigned)node, name);
}

uint64_t berth_cpu_query_mapping_limit(const berth_cpu_files* files) {
    uint64_t limit;
    return read_number(proc_of(files), "sys/vm/max_map_count", &limit) ? limit
                                                                       : UNKNOWN_MAPPING_LIMIT;
}

uint64_t berth_cpu_count_mappings(const berth_cpu_files* files) {
    const int file = open_file(proc_of(files), "self/maps");
    if (file < 0) return 0;
    uint64_t lines = 0;
    char text[FILE_BYTES];
    size_t used;
    while (read_some(file, text, sizeof text, &used) && used > 0) {
        for (size_t i = 0; i < used; i++)
            lines += text[i] == '\n';
    }
    (void)close(file);
    return lines;
}
