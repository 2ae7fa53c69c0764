// SPDX-License-Identifier: Apache-2.0
// The parts that run Berth itself.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "exec/exec_impl.h"
#include "kit/fail.h"
#include "plan/bucket.h"
#include "shapes/parts.h"

void shapes_report_add(const shapes_report* report, const char* name, double value) {
    fprintf(report->out, "%s %.17g\n", name, value);
}

// ---- A runtime with the program in it.

typedef struct bench {
    shapes_lengths lengths;
    shapes_model* model;
    berth_runtime* runtime;
    berth_context* context;
    shapes_program* program;
} bench;

static void open_runtime(bench* b, const char* mode, const char* keep) {
    const berth_option_setting settings[] = {{"mode", mode}, {"keep", keep}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 2};
    if (berth_runtime_create(&options, &b->runtime) != BERTH_OK) bench_fail("runtime");
}

static void open_context(bench* b) {
    if (berth_context_create(b->runtime, &b->context) != BERTH_OK) bench_fail("context");
    b->program = shapes_program_create(b->model, b->context);
}

static void close_runtime(bench* b) {
    shapes_program_destroy(b->program);
    berth_context_release(b->context);
    berth_runtime_release(b->runtime);
}

static void open_bench(bench* b, const shapes_config* config) {
    *b = (bench){.model = shapes_model_create()};
    shapes_lengths_read(config->trace, &b->lengths);
}

static void close_bench(bench* b) {
    shapes_model_destroy(b->model);
    shapes_lengths_free(&b->lengths);
}

// ---- Clocks and counters.

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t page_faults(void) {
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

/// Resident memory of the process in bytes, without an allocation.
static double resident_bytes(void) {
    static int file = -1;
    if (file < 0) file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char text[128] = "";
    if (file < 0 || pread(file, text, sizeof text - 1, 0) <= 0) return 0;
    char* end = text;
    (void)strtoll(text, &end, 10);
    return (double)strtoll(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static berth_memory_stats query_memory(const bench* b) {
    berth_memory_stats memory;
    if (berth_runtime_query_memory(b->runtime, &memory) != BERTH_OK) bench_fail("memory");
    return memory;
}

static berth_step_counters query_step(const bench* b) {
    const char* name;
    berth_step_counters counters;
    if (berth_runtime_query_step(b->runtime, 0, &name, &counters) != BERTH_OK) bench_fail("step");
    return counters;
}

// ---- One step.

/// What one step showed.
typedef struct step_sample {
    double reserved_bytes;  ///< mapped and promised once it had begun
    double live_peak_bytes; ///< its lower bound
    double seconds;         ///< CPU time, begin and end included
} step_sample;

static berth_tensor* run_step(bench* b, shapes_shape shape, step_sample* out_sample) {
    int64_t dims[2];
    berth_step_input input;
    const berth_step_desc desc = shapes_describe(shape, dims, &input);
    const double start = cpu_seconds();
    if (berth_step_begin(b->context, &desc) != BERTH_OK) bench_fail("begin");
    const double begun = cpu_seconds();
    const berth_memory_stats memory = query_memory(b);
    const double resumed = cpu_seconds();
    berth_tensor* states = shapes_program_run(b->program, shape);
    out_sample->live_peak_bytes = (double)b->context->run->lower_bound_bytes;
    if (berth_step_end(b->context) != BERTH_OK) bench_fail("end");
    out_sample->seconds = cpu_seconds() - resumed + begun - start;
    out_sample->reserved_bytes = (double)(memory.mapped_bytes + memory.reserved_bytes);
    return states;
}

// ---- keep

/// The slope of a line through points, kept as sums.
typedef struct line_fit {
    double count, x, y, xx, xy;
} line_fit;

static void fit_add(line_fit* fit, double x, double y) {
    fit->count += 1;
    fit->x += x;
    fit->y += y;
    fit->xx += x * x;
    fit->xy += x * y;
}

static double fit_slope(const line_fit* fit) {
    const double spread = fit->count * fit->xx - fit->x * fit->x;
    return spread > 0 ? (fit->count * fit->xy - fit->x * fit->y) / spread : 0;
}

/// Counters of the moment when the warm-up ended.
typedef struct keep_mark {
    berth_step_counters step;
    double mapped_bytes;
    int64_t faults;
} keep_mark;

/// What the steps after the warm-up add up to.
typedef struct keep_sums {
    line_fit resident;
    double most_mapped_bytes;
    double worst_ratio;
    double last_seconds; ///< of the steps that the trim part runs too
} keep_sums;

/// Peak over lower bound of the step between two queries; 0 if it was no replay.
static double ratio_between(const berth_step_counters* before, const berth_step_counters* after) {
    if (after->ratio_runs == before->ratio_runs) return 0;
    return 1e-6 * (double)(after->ratio_sum_ppm - before->ratio_sum_ppm);
}

static void report_keep(const shapes_report* report,
                        const bench* b,
                        const keep_mark* mark,
                        const keep_sums* sums,
                        const shapes_config* config) {
    const int64_t faults = page_faults() - mark->faults;
    const berth_step_counters end = query_step(b);
    const double runs = (double)(end.runs - mark->step.runs);
    shapes_report_add(report, "plans", (double)end.plans);
    shapes_report_add(report, "plans_live", (double)end.plans_live);
    shapes_report_add(report, "plan_bytes", (double)end.plan_bytes);
    shapes_report_add(report, "plan_us", 1e-3 * (double)end.plan_ns / (double)end.runs);
    shapes_report_add(report, "paths", (double)end.paths);
    shapes_report_add(report, "hit_rate", (double)(end.hits - mark->step.hits) / runs);
    shapes_report_add(report,
                      "coverage",
                      (double)(end.placed_bytes - mark->step.placed_bytes) /
                          (double)(end.allocated_bytes - mark->step.allocated_bytes));
    shapes_report_add(report,
                      "mean_ratio",
                      1e-6 * (double)(end.ratio_sum_ppm - mark->step.ratio_sum_ppm) /
                          (double)(end.ratio_runs - mark->step.ratio_runs));
    shapes_report_add(report, "worst_ratio", sums->worst_ratio);
    shapes_report_add(report, "new_bytes", sums->most_mapped_bytes - mark->mapped_bytes);
    shapes_report_add(report, "page_faults", (double)faults);
    shapes_report_add(report, "rss_slope", fit_slope(&sums->resident));
    shapes_report_add(report, "peak_reserved", (double)query_memory(b).peak_mapped_bytes);
    shapes_report_add(report, "step_us", 1e6 * sums->last_seconds / (double)config->trim);
}

void shapes_run_keep(const shapes_config* config, const shapes_report* report) {
    bench b;
    open_bench(&b, config);
    open_runtime(&b, "auto", "all");
    shapes_replace_kernels(b.runtime, SHAPES_KERNELS_TOUCH);
    open_context(&b);
    keep_mark mark = {0};
    keep_sums sums = {0};
    double reserved = 0, live = 0, live_peak = 0;
    berth_step_counters before = {0};
    for (int64_t step = 0; step < config->steps; step++) {
        step_sample sample;
        berth_tensor* states = run_step(&b, shapes_at(&b.lengths, step), &sample);
        berth_release(states);
        const berth_step_counters after = query_step(&b);
        const double mapped = (double)query_memory(&b).mapped_bytes;
        const double resident = resident_bytes();
        if (step + 1 == config->warm)
            mark = (keep_mark){.step = after, .mapped_bytes = mapped, .faults = page_faults()};
        if (step >= config->warm) {
            const double ratio = ratio_between(&before, &after);
            if (ratio > sums.worst_ratio) sums.worst_ratio = ratio;
            fit_add(&sums.resident, (double)(step - config->warm), resident);
        }
        if (step + 1 >= config->warm && mapped > sums.most_mapped_bytes)
            sums.most_mapped_bytes = mapped;
        if (sample.live_peak_bytes > live_peak) live_peak = sample.live_peak_bytes;
        if (step >= config->steps - config->trim) {
            sums.last_seconds += sample.seconds;
            reserved += sample.reserved_bytes;
            live += sample.live_peak_bytes;
        }
        before = after;
    }
    report_keep(report, &b, &mark, &sums, config);
    shapes_report_add(report, "live_peak", live_peak);
    shapes_report_add(report, "reserved_over_live", reserved / live);
    close_runtime(&b);
    close_bench(&b);
}

// ---- trim

enum { TRIM_LEARNING_STEPS = 100 }; // before the steps that count

void shapes_run_trim(const shapes_config* config, const shapes_report* report) {
    bench b;
    open_bench(&b, config);
    open_runtime(&b, "auto", "none");
    shapes_replace_kernels(b.runtime, SHAPES_KERNELS_TOUCH);
    open_context(&b);
    const int64_t first = config->steps - config->trim;
    double reserved = 0, live = 0, seconds = 0, live_peak = 0;
    for (int64_t step = first > TRIM_LEARNING_STEPS ? first - TRIM_LEARNING_STEPS : 0;
         step < config->steps;
         step++) {
        step_sample sample;
        berth_tensor* states = run_step(&b, shapes_at(&b.lengths, step), &sample);
        berth_release(states);
        if (step < first) continue;
        reserved += sample.reserved_bytes;
        live += sample.live_peak_bytes;
        seconds += sample.seconds;
        if (sample.live_peak_bytes > live_peak) live_peak = sample.live_peak_bytes;
    }
    shapes_report_add(report, "reserved_over_live", reserved / live);
    shapes_report_add(report, "peak_reserved", (double)query_memory(&b).peak_mapped_bytes);
    shapes_report_add(report, "live_peak", live_peak);
    shapes_report_add(report, "step_us", 1e6 * seconds / (double)config->trim);
    close_runtime(&b);
    close_bench(&b);
}

// ---- exact

enum { EXACT_SHARE = 16 }; // of the lengths

void shapes_run_exact(const shapes_config* config, const shapes_report* report) {
    bench planned, pooled;
    open_bench(&planned, config);
    pooled = planned;
    open_runtime(&planned, "auto", "auto");
    open_runtime(&pooled, "pool", "auto");
    open_context(&planned);
    open_context(&pooled);
    int64_t differing = 0;
    for (int64_t step = 0; step < config->exact; step++) {
        shapes_shape shape = shapes_at(&planned.lengths, step);
        shape.length = shape.length / EXACT_SHARE + 1;
        step_sample sample;
        berth_tensor* results[2] = {run_step(&planned, shape, &sample),
                                    run_step(&pooled, shape, &sample)};
        const size_t bytes = (size_t)berth_tensor_bytes(results[0]);
        unsigned char* data[2] = {malloc(bytes), malloc(bytes)};
        for (int i = 0; i < 2; i++)
            if (data[i] == NULL || berth_tensor_read(results[i], data[i], bytes) != BERTH_OK)
                bench_fail("read");
        differing += memcmp(data[0], data[1], bytes) != 0;
        for (int i = 0; i < 2; i++)
            free(data[i]);
        berth_release_array(results, 2);
    }
    shapes_report_add(report, "differing", (double)differing);
    shapes_report_add(report, "hits", (double)query_step(&planned).hits);
    close_runtime(&planned);
    close_runtime(&pooled);
    close_bench(&planned);
}

// ---- ahead

enum {
    AHEAD_STEPS = 64, // that teach the runtime, of an eighth of the lengths
    AHEAD_SHARE = 8,  // of the lengths
    AHEAD_FIRST = 64, // length that is planned; the last is SHAPES_MAX_AHEAD
    AHEAD_STRIDE = 127,
};

/// The bytes that are live at most in one step, counted where nothing is placed.
static double count_live_peak(bench* b, shapes_shape shape) {
    step_sample sample;
    berth_release(run_step(b, shape, &sample));
    return sample.live_peak_bytes;
}

static void* take_number(void* self, size_t size, size_t alignment) {
    (void)size;
    uintptr_t* last = self;
    *last += alignment;
    return (void*)*last;
}

static void give_number(void* self, void* data, size_t size) {
    (void)self;
    (void)data;
    (void)size;
}

/// Peak of the plan for `shape` without running it; `*out_seconds` gets what asking cost.
static double plan_ahead(bench* b, shapes_shape shape, double* out_seconds) {
    berth_step_model* model = b->context->recent_step->model;
    const berth_binding bindings[2] = {{"tokens.0", shape.batch}, {"tokens.1", shape.length}};
    const berth_shape_key key = {.bindings = bindings, .count = 2};
    berth_outlook outlook;
    berth_branches branches;
    const double start = cpu_seconds();
    if (berth_step_model_begin(model, &key, &branches, &outlook) != BERTH_OK ||
        outlook.placement == NULL)
        bench_fail("plan ahead");
    *out_seconds = cpu_seconds() - start;
    const double peak = (double)outlook.placement->peak_bytes;
    berth_step_model_abandon(model, &branches);
    return peak;
}

void shapes_run_ahead(const shapes_config* config, const shapes_report* report) {
    bench b, counting;
    open_bench(&b, config);
    counting = b;
    open_runtime(&b, "auto", "auto");
    shapes_replace_kernels(b.runtime, SHAPES_KERNELS_TOUCH);
    open_context(&b);
    uintptr_t last_number = 0;
    const berth_pool_bypass bypass = {
        .self = &last_number, .alloc = take_number, .free = give_number};
    open_runtime(&counting, "system", "auto");
    shapes_replace_kernels(counting.runtime, SHAPES_KERNELS_NONE);
    berth_runtime_set_bypass(counting.runtime, &bypass);
    open_context(&counting);
    for (int64_t step = 0; step < AHEAD_STEPS; step++) {
        shapes_shape shape = shapes_at(&b.lengths, step);
        shape.length = shape.length / AHEAD_SHARE + 1;
        (void)count_live_peak(&b, shape);
    }
    double sum = 0, worst = 0, slowest = 0;
    int64_t count = 0;
    for (int64_t length = AHEAD_FIRST; length <= SHAPES_MAX_AHEAD; length += AHEAD_STRIDE) {
        for (int64_t batch = 1; batch <= SHAPES_MAX_BATCH; batch++, count++) {
            const shapes_shape shape = {batch, length};
            double seconds;
            const double ratio =
                plan_ahead(&b, shape, &seconds) / count_live_peak(&counting, shape);
            sum += ratio;
            if (ratio > worst) worst = ratio;
            if (seconds > slowest) slowest = seconds;
        }
    }
    shapes_report_add(report, "shapes", (double)count);
    shapes_report_add(report, "mean_ratio", sum / (double)count);
    shapes_report_add(report, "worst_ratio", worst);
    shapes_report_add(report, "slowest_us", 1e6 * slowest);
    shapes_report_add(report, "plans", (double)query_step(&b).plans);
    close_runtime(&b);
    close_runtime(&counting);
    close_bench(&b);
}

// ---- Buckets.

int64_t shapes_count_buckets(int64_t max_length) {
    berth_bucket_policy policy;
    if (berth_bucket_policy_parse(&policy, "geometric:4") != BERTH_OK) bench_fail("buckets");
    const int64_t limits[2] = {SHAPES_MAX_BATCH, max_length};
    int64_t product = 1;
    for (int i = 0; i < 2; i++) {
        int64_t buckets = 0;
        for (int64_t at = 1; at <= limits[i]; buckets++)
            at = berth_bucket_of(&policy, at).hi + 1;
        product *= buckets;
    }
    return product;
}
