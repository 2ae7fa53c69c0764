// SPDX-License-Identifier: Apache-2.0
// Gathers the launchers of the ops whose kernels are in cuda_row_*.cu.
#include "device/cuda/cuda_launch_row.h"

void berth_cuda_fill_row(berth_cuda_table* table) {
    berth_cuda_fill_reduce(table);
    berth_cuda_fill_norm(table);
    berth_cuda_fill_running(table);
    berth_cuda_fill_rope(table);
}

void berth_cuda_walk_dims(const berth_view* view, uint32_t mask, berth_cuda_walk* out_walk) {
    berth_view chosen = {.data = view->data, .dtype = view->dtype};
    for (int32_t d = 0; d < view->rank; ++d) {
        if ((mask >> d & 1u) == 0) continue;
        chosen.dims[chosen.rank] = view->dims[d];
        chosen.strides[chosen.rank++] = view->strides[d];
    }
    const berth_view* operand = &chosen;
    berth_cuda_walk_make(&chosen, 1, &operand, out_walk);
}

bool berth_cuda_walk_keeps(const berth_cuda_walk* walk, int64_t step) {
    for (int32_t d = 0; d < walk->rank; ++d)
        if (walk->strides[0][d] % step != 0) return false;
    return true;
}
