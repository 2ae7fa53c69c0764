// SPDX-License-Identifier: Apache-2.0
// Twenty thousand steps of a transformer block whose shapes come from a chat service's log: how
// many plans they need, how tight those are, and how much memory is held beside two configurations
// of PyTorch's allocator. Kernels are replaced by touching memory, but for some steps.
//
// usage: bench-shapes [--json FILE] [--trace FILE] [--steps N]
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit/bench_data.h"
#include "kit/fail.h"
#include "shapes/parts.h"

typedef struct part {
    const char* name;
    void (*run)(const shapes_config* config, const shapes_report* report);
} part;

static const part parts[] = {
    {"keep", shapes_run_keep},
    {"trim", shapes_run_trim},
    {"exact", shapes_run_exact},
    {"ahead", shapes_run_ahead},
    {"peers", shapes_run_peers},
};
#define PART_COUNT (sizeof parts / sizeof *parts)

/// A number of a part; its name is "part.name".
typedef struct number {
    char name[64];
    double value;
} number;

typedef struct numbers {
    number items[128];
    size_t count;
} numbers;

static double get(const numbers* all, const char* name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0) return all->items[i].value;
    fprintf(stderr, "bench-shapes: no part has told %s\n", name);
    exit(1);
}

// ---- Running the parts.

static void exec_part(const char* name, char** arguments, int output) {
    char* const command[] = {
        arguments[0], (char[]){"--part"}, strdup(name), arguments[1], arguments[2], NULL};
    if (dup2(output, STDOUT_FILENO) >= 0) execv("/proc/self/exe", command);
    perror("bench-shapes: a part cannot be started");
    _exit(1);
}

/// Runs one part in a process of its own and adds its numbers.
static void run_part(const part* p, const shapes_config* config, char* self, numbers* all) {
    char steps[32], trace[4096];
    snprintf(steps, sizeof steps, "--steps=%" PRId64, config->steps);
    snprintf(trace, sizeof trace, "--trace=%s", config->trace);
    char* arguments[3] = {self, steps, trace};
    int ends[2];
    if (pipe(ends) != 0) bench_fail("pipe");
    const time_t start = time(NULL);
    const pid_t child = fork();
    if (child < 0) bench_fail("fork");
    if (child == 0) {
        close(ends[0]);
        exec_part(p->name, arguments, ends[1]);
    }
    close(ends[1]);
    FILE* lines = fdopen(ends[0], "r");
    if (lines == NULL) bench_fail("fdopen");
    char name[48];
    double value;
    while (all->count < sizeof all->items / sizeof *all->items &&
           fscanf(lines, "%47s %lf", name, &value) == 2) {
        number* n = &all->items[all->count++];
        snprintf(n->name, sizeof n->name, "%s.%s", p->name, name);
        n->value = value;
    }
    fclose(lines);
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "bench-shapes: part %s failed\n", p->name);
        exit(1);
    }
    fprintf(stderr, "%s: %ld s\n", p->name, (long)(time(NULL) - start));
}

// ---- Report.

static const char* const labels[4][2] = {
    {"Berth, keep", "keep."},
    {"Berth, trim", "trim."},
    {"PyTorch's allocator", "peers.default_"},
    {"the same, expandable", "peers.expandable_"},
};

static double get_of(const numbers* all, const char* prefix, const char* name) {
    char both[64];
    snprintf(both, sizeof both, "%s%s", prefix, name);
    return get(all, both);
}

static void print_table(const numbers* all, const shapes_config* config) {
    printf("%" PRId64 " steps, %" PRId64 " of them warm-up\n", config->steps, config->warm);
    printf("plans                 %8.0f   at most %" PRId64
           " by the buckets; %.0f made, %.0f KiB\n",
           get(all, "keep.plans_live"),
           shapes_count_buckets(SHAPES_MAX_LENGTH),
           get(all, "keep.plans"),
           get(all, "keep.plan_bytes") / 1024);
    printf("hit rate              %8.3f %%\n", 100 * get(all, "keep.hit_rate"));
    printf("coverage              %8.3f %%\n", 100 * get(all, "keep.coverage"));
    printf("peak / lower bound    %8.4f mean, %.4f at worst\n",
           get(all, "keep.mean_ratio"),
           get(all, "keep.worst_ratio"));
    printf("keep: new bytes       %8.0f\n", get(all, "keep.new_bytes"));
    printf("keep: page faults     %8.0f\n", get(all, "keep.page_faults"));
    printf("keep: resident memory %8.2f bytes a step\n", get(all, "keep.rss_slope"));
    printf("planning              %8.2f us a step\n", get(all, "keep.plan_us"));
    printf("step, CPU time        %8.0f us with keep, %.0f us with trim (kernels only touch)\n",
           get(all, "keep.step_us"),
           get(all, "trim.step_us"));
    printf("executed in full      %8" PRId64 " steps, %.0f with other bits than without plans\n",
           config->exact,
           get(all, "exact.differing"));
    printf("planned to length %d %6.0f shapes, %.4f mean, %.4f at worst, <= %.0f us\n",
           SHAPES_MAX_AHEAD,
           get(all, "ahead.shapes"),
           get(all, "ahead.mean_ratio"),
           get(all, "ahead.worst_ratio"),
           get(all, "ahead.slowest_us"));
    printf(
        "\n%-22s %15s %15s %22s\n", "MiB", "reserved, peak", "live, peak", "reserved / live, mean");
    for (int i = 0; i < 4; i++)
        printf("%-22s %15.1f %15.1f %22.3f\n",
               labels[i][0],
               get_of(all, labels[i][1], "peak_reserved") / 1048576,
               get_of(all, labels[i][1], "live_peak") / 1048576,
               get_of(all, labels[i][1], "reserved_over_live"));
    printf("reserved when a step begins, over the last %" PRId64 " steps\n", config->trim);
}

static bool write_json(const numbers* all, const char* path) {
    static const char* const keys[][2] = {
        {"plans", "keep.plans_live"},
        {"hit_rate_after_warmup", "keep.hit_rate"},
        {"coverage", "keep.coverage"},
        {"mean_peak_over_bound", "keep.mean_ratio"},
        {"worst_peak_over_bound", "keep.worst_ratio"},
        {"keep_new_bytes", "keep.new_bytes"},
        {"keep_page_faults", "keep.page_faults"},
        {"trim_mean_reserved_over_live_peak", "trim.reserved_over_live"},
        {"rss_slope_bytes_per_step", "keep.rss_slope"},
    };
    FILE* file = fopen(path, "w");
    if (file == NULL) return false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        fprintf(
            file, "%s  \"%s\": %.10g", i == 0 ? "{\n" : ",\n", keys[i][0], get(all, keys[i][1]));
    fprintf(file, "\n}\n");
    return fclose(file) == 0;
}

// ---- Arguments.

/// The value of option `name` at `*at`, as "name=value" or the argument behind it; NULL if it is
/// another option.
static const char* value_of(const char* name, int count, char** arguments, int* at) {
    const size_t length = strlen(name);
    const char* text = arguments[*at];
    if (strncmp(text, name, length) != 0) return NULL;
    if (text[length] == '=') return text + length + 1;
    if (text[length] != '\0' || *at + 1 >= count) return NULL;
    return arguments[++*at];
}

static bool parse(int count,
                  char** arguments,
                  shapes_config* config,
                  const char** out_json,
                  const char** out_part) {
    for (int i = 1; i < count; i++) {
        const char* value;
        if ((value = value_of("--json", count, arguments, &i)) != NULL) {
            *out_json = value;
        } else if ((value = value_of("--part", count, arguments, &i)) != NULL) {
            *out_part = value;
        } else if ((value = value_of("--trace", count, arguments, &i)) != NULL) {
            config->trace = value;
        } else if ((value = value_of("--steps", count, arguments, &i)) != NULL) {
            config->steps = strtoll(value, NULL, 10);
        } else {
            return false;
        }
    }
    // shorter runs are cut in proportion
    config->warm = config->steps / 10;
    config->trim = config->steps / 5;
    config->exact = config->steps / 100;
    return config->steps >= 100;
}

static int run_one_part(const shapes_config* config, const char* name) {
    const shapes_report report = {stdout};
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (strcmp(parts[i].name, name) != 0) continue;
        parts[i].run(config, &report);
        return 0;
    }
    fprintf(stderr, "bench-shapes: there is no part %s\n", name);
    return 2;
}

int main(int count, char** arguments) {
    char trace[4096];
    shapes_config config = {.steps = 20000};
    config.trace = bench_shared_data("traces/azure2023_conv.csv", trace, sizeof trace);
    const char* json = NULL;
    const char* name = NULL;
    if (!parse(count, arguments, &config, &json, &name)) {
        fprintf(stderr,
                "usage: bench-shapes [--json FILE] [--trace FILE] [--steps N (>= 100)] "
                "[--part keep|trim|exact|ahead|peers]\n");
        return 2;
    }
    if (name != NULL) return run_one_part(&config, name);
    static numbers all;
    for (size_t i = 0; i < PART_COUNT; i++)
        run_part(&parts[i], &config, arguments[0], &all);
    print_table(&all, &config);
    if (json == NULL || write_json(&all, json)) return 0;
    fprintf(stderr, "bench-shapes: cannot write %s\n", json);
    return 1;
}
