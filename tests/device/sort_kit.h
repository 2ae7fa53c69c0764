// SPDX-License-Identifier: Apache-2.0
// What the tests of sorting and selecting share: calls with several outputs and counted sizes, run
// everywhere; the order of elements by its definition; data with all that is special about it.
#ifndef BERTH_TESTS_DEVICE_SORT_KIT_H
#define BERTH_TESTS_DEVICE_SORT_KIT_H

#include "kernel_kit.h"
#include "ops/op_table.h"

// --- Order ---------------------------------------------------------------------------------------

/// An element and where it was.
typedef struct kit_item {
    bool is_whole; ///< `whole` holds it, as i64 does not fit a double
    double value;
    int64_t whole;
    int64_t number;
} kit_item;

static inline kit_item kit_item_at(const berth_view* view, int64_t index, int64_t number) {
    kit_item item = {.number = number, .is_whole = view->dtype == BERTH_I64};
    if (item.is_whole)
        memcpy(&item.whole, kit_at(view, index), sizeof item.whole);
    else
        item.value = kit_get(view, index);
    return item;
}

/// -1, 0 or 1 as a's value is below, equal to or above b's; NaN above all else.
static inline int kit_compare(const kit_item* a, const kit_item* b) {
    if (a->is_whole) return (a->whole > b->whole) - (a->whole < b->whole);
    if (isnan(a->value) || isnan(b->value)) return isnan(a->value) - isnan(b->value);
    return (a->value > b->value) - (a->value < b->value);
}

/// For qsort: as values are, equal ones by their numbers.
static inline int kit_order(const void* first, const void* second, bool descending) {
    const kit_item *a = first, *b = second;
    const int order = kit_compare(a, b);
    if (order != 0) return descending ? -order : order;
    return (a->number > b->number) - (a->number < b->number);
}

/// Checks that two elements have the same bits.
static inline void kit_expect_bits(const berth_view* out,
                                   int64_t at,
                                   const berth_view* x,
                                   int64_t from) {
    if (memcmp(kit_at(out, at), kit_at(x, from), kit_bytes(x->dtype)) == 0) return;
    fail_msg("element %lld of %s: found %.9g, expected %.9g",
             (long long)at,
             berth_dtype_query_info(x->dtype)->name,
             kit_get(out, at),
             kit_get(x, from));
}

// --- Data ----------------------------------------------------------------------------------------

/// NaNs of both signs and other bits, zeros of both signs, infinities.
static inline uint32_t kit_special_bits(berth_dtype dtype) {
    static const uint32_t f32[] = {
        0x7fc00000u, 0xffc00001u, 0x7f800001u, 0, 0x80000000u, 0x7f800000u, 0xff800000u, 1};
    static const uint16_t f16[] = {0x7e00, 0xfe01, 0x7c01, 0, 0x8000, 0x7c00, 0xfc00, 1};
    static const uint16_t bf16[] = {0x7fc0, 0xffc1, 0x7f81, 0, 0x8000, 0x7f80, 0xff80, 1};
    const size_t i = (size_t)kit_int(0, 7);
    return dtype == BERTH_F32 ? f32[i] : dtype == BERTH_F16 ? f16[i] : bf16[i];
}

/// Any bits at all, values of a small range that come again and again, or special ones.
static inline void kit_fill_for_sort(kit_tensor* x) {
    const berth_dtype dtype = x->view.dtype;
    const int64_t style = kit_int(0, 2);
    for (int64_t i = 0; i < kit_count(&x->view); ++i) {
        void* at = kit_at(&x->view, i);
        const uint64_t bits = kit_next();
        const uint32_t special = kit_special_bits(dtype);
        if (dtype == BERTH_BOOL)
            *(uint8_t*)at = bits & 1;
        else if (berth_dtype_query_info(dtype)->kind == BERTH_DTYPE_KIND_F && kit_int(0, 9) == 0)
            memcpy(at, &special, kit_bytes(dtype));
        else if (style == 0)
            memcpy(at, &bits, kit_bytes(dtype));
        else
            kit_store(dtype, at, (double)kit_int(dtype == BERTH_U8 ? 0 : -5, style == 1 ? 5 : 100));
    }
}

// --- Calls ---------------------------------------------------------------------------------------

/// The outputs of a call.
typedef struct kit_many {
    kit_tensor outputs[BERTH_OP_MAX_OUTPUTS];
} kit_many;

/// Runs rule, counting kernel and kernel once, on outputs of its own.
static inline void kit_many_run_once(kit_many* many, berth_op_id op, berth_op_call* call) {
    const berth_op_desc* desc = &berth_op_table[op];
    assert_int_equal(desc->infer(call), BERTH_OK);
    call->scratch_bytes = desc->scratch(call);
    unsigned char* block = aligned_alloc(64, (call->scratch_bytes + 63) / 64 * 64 + 64);
    assert_non_null(block);
    memset(block, 0x5A, call->scratch_bytes + 64);
    call->scratch = block;
    if (desc->counters[BERTH_DEVICE_CPU] != NULL) {
        desc->counters[BERTH_DEVICE_CPU](call);
        int64_t count;
        memcpy(&count, block, sizeof count);
        assert_true(count >= 0);
        for (uint32_t i = 0; i < call->output_count; ++i)
            for (int32_t d = 0; d < call->outputs[i].rank; ++d)
                if (call->outputs[i].dims[d] == BERTH_DIM_COUNTED) call->outputs[i].dims[d] = count;
    }
    for (uint32_t i = 0; i < call->output_count; ++i) {
        berth_view* out = &call->outputs[i];
        many->outputs[i] = kit_contiguous(out->dtype, out->rank, out->dims);
        memset(many->outputs[i].view.data, 0x5A, many->outputs[i].bytes);
        *out = many->outputs[i].view;
    }
    berth_cpu_kernels()[op](call);
    for (size_t i = 0; i < 64; ++i)
        assert_int_equal(block[call->scratch_bytes + i], 0x5A);
    free(block);
}

static inline void kit_many_free(kit_many* many) {
    for (size_t i = 0; i < BERTH_OP_MAX_OUTPUTS; ++i)
        kit_free(&many->outputs[i]);
}

/// Runs `call`, whose output_count is set, on every instruction set, without a team and with teams
/// of two and of three workers; all must agree bit for bit. Outputs and call are the last run's.
static inline void kit_many_run(kit_many* many, berth_op_id op, berth_op_call* call) {
    berth_team* teams[3] = {NULL};
    assert_int_equal(berth_team_create(berth_host_default(), 2, &teams[1]), BERTH_OK);
    assert_int_equal(berth_team_create(berth_host_default(), 3, &teams[2]), BERTH_OK);
    kit_many first = {0};
    *many = (kit_many){0};
    for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
        berth_cpu_set_isa((berth_cpu_isa)isa);
        for (int t = 0; t < 3; ++t) {
            kit_many_free(many);
            call->team = teams[t];
            kit_many_run_once(many, op, call);
            if (isa == BERTH_CPU_ISA_PORTABLE && t == 0) {
                first = *many;
                *many = (kit_many){0};
                continue;
            }
            for (uint32_t i = 0; i < call->output_count; ++i) {
                assert_int_equal(first.outputs[i].bytes, many->outputs[i].bytes);
                assert_memory_equal(
                    first.outputs[i].view.data, many->outputs[i].view.data, many->outputs[i].bytes);
            }
        }
    }
    call->team = NULL;
    kit_many_free(&first);
    berth_team_destroy(teams[1]);
    berth_team_destroy(teams[2]);
}

#endif // BERTH_TESTS_DEVICE_SORT_KIT_H
