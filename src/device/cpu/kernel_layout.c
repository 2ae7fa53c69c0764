// SPDX-License-Identifier: Apache-2.0
// Joining tensors: CAT.
#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define GRAIN 4096
#define CHEAP_LEAST 65536

// --- CAT -----------------------------------------------------------------------------------------

typedef struct cat_job {
    berth_walk from;
    unsigned char* out;   ///< where the input's first run goes
    int64_t run;          ///< elements of the input that stay together
    int64_t stride_bytes; ///< from one run of the output to the next
} cat_job;

static void cat_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const cat_job* job = data;
    for (int64_t at = begin; at < end;) {
        const int64_t inside = at % job->run;
        const int64_t count = berth_min_i64(job->run - inside, end - at);
        unsigned char* row = job->out + at / job->run * job->stride_bytes;
        berth_walk_copy(&job->from, at, count, row + inside * job->from.item_bytes);
        at += count;
    }
}

static void kernel_cat(const berth_op_call* call) {
    const berth_cat_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const berth_cut whole = berth_view_cut(out, params->dim);
    if (berth_view_count(out) == 0) return;
    unsigned char* target = out->data;
    for (uint32_t i = 0; i < call->input_count; ++i) {
        const berth_cut cut = berth_view_cut(&call->inputs[i], params->dim);
        cat_job job = {.out = target, .run = cut.size * cut.inner_count};
        berth_walk_init(&job.from, &call->inputs[i]);
        job.stride_bytes = whole.size * whole.inner_count * job.from.item_bytes;
        berth_run_range(call, cut.outer_count * job.run, GRAIN, CHEAP_LEAST, cat_range, &job);
        target += job.run * job.from.item_bytes;
    }
}

void berth_cpu_fill_layout_kernels(berth_kernel* table) { table[BERTH_OP_CAT] = kernel_cat; }
