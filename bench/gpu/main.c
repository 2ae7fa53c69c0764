// SPDX-License-Identifier: Apache-2.0
// What memory and kernels on a GPU cost, beside the driver's own ways, a copy, and cuBLAS. Rows as
// they are measured, goals last.
//
// usage: bench-gpu [--quick] [--lengths FILE] [--json FILE] [PART...]
//        bench-gpu --write-lengths FILE
#include <string.h>

#include "gpu/gpu_bench.h"
#include "gpu/gpu_lengths.h"

static const struct {
    const char* name;
    void (*run)(gpu_bench* b);
} parts[] = {
    {"allocation", gpu_run_allocation},
    {"calls", gpu_run_calls},
    {"shapes", gpu_run_shapes},
    {"bandwidth", gpu_run_bandwidth},
    {"products", gpu_run_products},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

typedef struct command_line {
    const char* json;
    const char* written; ///< lengths
    bool is_wanted[PARTS];
} command_line;

static bool choose(command_line* line, const char* name) {
    for (int i = 0; i < PARTS; ++i)
        if (strcmp(parts[i].name, name) == 0) return line->is_wanted[i] = true;
    return false;
}

static bool parse(int count, char** arguments, gpu_bench* b, command_line* line) {
    bool has_part = false;
    for (int i = 1; i < count; ++i) {
        const char* value = i + 1 < count ? arguments[i + 1] : NULL;
        const char** target = strcmp(arguments[i], "--lengths") == 0         ? &b->lengths
                              : strcmp(arguments[i], "--json") == 0          ? &line->json
                              : strcmp(arguments[i], "--write-lengths") == 0 ? &line->written
                                                                             : NULL;
        if (strcmp(arguments[i], "--quick") == 0) {
            b->is_quick = true;
        } else if (target != NULL) {
            if (value == NULL) return false;
            *target = value;
            ++i;
        } else {
            has_part = true;
            if (!choose(line, arguments[i])) return false;
        }
    }
    for (int i = 0; !has_part && i < PARTS; ++i)
        line->is_wanted[i] = true;
    return true;
}

static void describe(const gpu_driver* driver) {
    char name[256] = "";
    int version = 0;
    if (driver->device_get_name != NULL)
        (void)driver->device_get_name(name, sizeof name, driver->device);
    if (driver->driver_get_version != NULL) (void)driver->driver_get_version(&version);
    printf("%s, driver for CUDA %d.%d\n", name, version / 1000, version % 1000 / 10);
}

int main(int count, char** arguments) {
    static gpu_bench b;
    command_line line = {.json = NULL};
    if (!parse(count, arguments, &b, &line)) {
        (void)fprintf(stderr,
                      "usage: bench-gpu [--quick] [--lengths FILE] [--json FILE] [PART...]\n"
                      "       bench-gpu --write-lengths FILE\nparts:");
        for (int i = 0; i < PARTS; ++i)
            (void)fprintf(stderr, " %s", parts[i].name);
        (void)fprintf(stderr, "\n");
        return 2;
    }
    if (line.written != NULL) {
        gpu_write_lengths(line.written);
        return 0;
    }
    gpu_driver_open(&b.driver);
    describe(&b.driver);
    b.json = json_rows_open(line.json);
    for (int i = 0; i < PARTS; ++i)
        if (line.is_wanted[i]) parts[i].run(&b);
    json_rows_close(&b.json);
    printf("goals missed: %d%s\n", b.missed, b.is_quick ? " (of a run that measures nothing)" : "");
    return 0;
}
