// SPDX-License-Identifier: Apache-2.0
// Operands brought to the type in which they meet.
#include "device/cpu/kernel_operand.h"

void berth_operand_init(berth_operand* operand,
                        const berth_view* view,
                        const berth_view* shape,
                        berth_dtype dtype,
                        berth_operand_form form) {
    berth_walk_init_like(&operand->walk, view, shape);
    operand->dtype = dtype;
    operand->is_widened = berth_dtype_is_half(dtype) && form == BERTH_OPERAND_COMPUTED;
    operand->is_direct =
        view->dtype == dtype && !operand->is_widened && berth_walk_is_contiguous(&operand->walk);
    operand->is_constant = operand->walk.rank == 1 && operand->walk.strides[0] == 0;
}

const void* berth_operand_load(const berth_operand* operand,
                               int64_t begin,
                               int64_t count,
                               berth_chunk* buffer) {
    const berth_walk* walk = &operand->walk;
    if (operand->is_direct) return walk->data + begin * walk->item_bytes;
    if (!operand->is_widened) return berth_walk_as(walk, operand->dtype, begin, count, buffer);
    if (walk->dtype == operand->dtype) return berth_walk_as(walk, BERTH_F32, begin, count, buffer);
    uint16_t halves[BERTH_CHUNK];
    const void* rounded = berth_walk_as(walk, operand->dtype, begin, count, halves);
    berth_convert_query_to_f32(operand->dtype)(rounded, buffer->f32, count);
    return buffer;
}
