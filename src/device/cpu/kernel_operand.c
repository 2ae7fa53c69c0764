// SPDX-License-Identifier: Apache-2.0
// Operands brought to the type in which they meet.
#include "device/cpu/kernel_operand.h"

void berth_operand_init(berth_operand* operand,
                        const berth_view* view,
                        const berth_view* shape,
                        berth_dtype dtype,
                        berth_operand_form form) {
    const bool is_half = dtype == BERTH_F16 || dtype == BERTH_BF16;
    berth_walk_init_like(&operand->walk, view, shape);
    operand->dtype = dtype;
    operand->is_cast = view->dtype != dtype;
    operand->is_widened = is_half && form == BERTH_OPERAND_COMPUTED;
    operand->is_direct =
        !operand->is_cast && !operand->is_widened && berth_walk_is_contiguous(&operand->walk);
    operand->is_constant = operand->walk.rank == 1 && operand->walk.strides[0] == 0;
}

const void* berth_operand_load(const berth_operand* operand,
                               int64_t begin,
                               int64_t count,
                               berth_chunk* buffer) {
    const berth_walk* walk = &operand->walk;
    const void* values = walk->data + begin * walk->item_bytes;
    if (operand->is_direct) return values;
    if (!operand->is_cast && !operand->is_widened) {
        berth_walk_copy(walk, begin, count, buffer);
        return buffer;
    }
    berth_chunk raw;
    uint16_t halves[BERTH_CHUNK];
    if (!berth_walk_is_contiguous(walk)) {
        berth_walk_copy(walk, begin, count, &raw);
        values = &raw;
    }
    if (operand->is_cast) {
        void* target = operand->is_widened ? (void*)halves : (void*)buffer;
        berth_convert_plain(walk->dtype, operand->dtype, values, target, count);
        values = target;
    }
    if (operand->is_widened) berth_convert_query_to_f32(operand->dtype)(values, buffer->f32, count);
    return buffer;
}
