// SPDX-License-Identifier: Apache-2.0
// The same steps through the models of PyTorch's allocator: the program runs as it is, its storage
// comes from the model, its kernels do nothing.
#include "exec/exec_impl.h"
#include "kit/fail.h"
#include "kit/torch_allocator.h"
#include "shapes/parts.h"

typedef struct peer_sums {
    double reserved_bytes; ///< when a step begins, over the steps of the trim part
    double live_bytes;     ///< likewise
    double live_peak_bytes;
    double warm_bytes; ///< reserved when the warm-up ended
} peer_sums;

static void run_peer_step(berth_context* context, shapes_program* program, shapes_shape shape) {
    int64_t dims[2];
    berth_step_input input;
    const berth_step_desc desc = shapes_describe(shape, dims, &input);
    if (berth_step_begin(context, &desc) != BERTH_OK) bench_fail("begin");
    berth_tensor* states = shapes_program_run(program, shape);
    if (berth_step_end(context) != BERTH_OK) bench_fail("end");
    berth_release(states);
}

static peer_sums run_peer_steps(const shapes_config* config,
                                const shapes_lengths* lengths,
                                torch_allocator* allocator,
                                berth_context* context,
                                shapes_program* program) {
    peer_sums sums = {0};
    for (int64_t step = 0; step < config->steps; step++) {
        const double reserved = (double)torch_allocator_query_reserved(allocator);
        if (step == config->warm) sums.warm_bytes = reserved;
        run_peer_step(context, program, shapes_at(lengths, step));
        const double live = (double)torch_allocator_take_live_peak(allocator);
        if (live > sums.live_peak_bytes) sums.live_peak_bytes = live;
        if (step < config->steps - config->trim) continue;
        sums.reserved_bytes += reserved;
        sums.live_bytes += live;
    }
    return sums;
}

static void add(const shapes_report* report, const char* peer, const char* name, double value) {
    char both[64];
    (void)snprintf(both, sizeof both, "%s_%s", peer, name);
    shapes_report_add(report, both, value);
}

static void run_peer(const shapes_config* config,
                     const shapes_report* report,
                     const char* name,
                     const shapes_lengths* lengths,
                     const shapes_model* model,
                     torch_allocator* allocator) {
    if (allocator == NULL) bench_fail_for(name, "no memory for the model of an allocator");
    const berth_option_setting settings[] = {{"mode", "system"}, {"threads", "1"}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 2};
    berth_runtime* runtime;
    berth_context* context;
    if (berth_runtime_create(&options, &runtime) != BERTH_OK) bench_fail("runtime");
    shapes_replace_kernels(runtime, SHAPES_KERNELS_NONE);
    const berth_pool_bypass bypass = torch_allocator_bypass(allocator);
    berth_runtime_set_bypass(runtime, &bypass);
    if (berth_context_create(runtime, &context) != BERTH_OK) bench_fail("context");
    shapes_program* program = shapes_program_create(model, context);
    const peer_sums sums = run_peer_steps(config, lengths, allocator, context, program);
    const double reserved = (double)torch_allocator_query_reserved(allocator);
    add(report, name, "peak_reserved", reserved);
    add(report, name, "new_bytes", reserved - sums.warm_bytes);
    add(report, name, "live_peak", sums.live_peak_bytes);
    add(report, name, "reserved_over_live", sums.reserved_bytes / sums.live_bytes);
    shapes_program_destroy(program);
    berth_context_release(context);
    berth_runtime_release(runtime);
    torch_allocator_destroy(allocator);
}

void shapes_run_peers(const shapes_config* config, const shapes_report* report) {
    shapes_lengths lengths;
    shapes_lengths_read(config->trace, &lengths);
    shapes_model* model = shapes_model_create();
    run_peer(config, report, "default", &lengths, model, torch_allocator_create(false));
    run_peer(config, report, "expandable", &lengths, model, torch_allocator_create(true));
    shapes_model_destroy(model);
    shapes_lengths_free(&lengths);
}
