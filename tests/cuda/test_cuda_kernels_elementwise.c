// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels of the GPU, run on the host, against the CPU's: functions of one and two
// operands, comparisons, logic, WHERE, CLAMP, OUTER, CAST.
#include "cuda/cuda_kernel_kit.h"
#include "ops/promote.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0] };

// Around the lengths of vectors of every type, and of what a block and all blocks take at a time.
static const int64_t lengths[] = {
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 255, 256, 1027, 4099, 9001};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/// What a function takes, and so gives.
typedef enum domain {
    NUMBERS, ///< floats and integers, in their type
    SIGNS,   ///< bool too
    REALS,   ///< all, as floats
    TESTS,   ///< all, to bool
} domain;

static const struct function {
    berth_op_id op;
    domain domain;
    double low; ///< of the operands to try
    double high;
    double relative; ///< how far the result may be off
} functions[] = {
    {BERTH_OP_NEG, NUMBERS, -100, 100, 0},
    {BERTH_OP_ABS, NUMBERS, -100, 100, 0},
    {BERTH_OP_SIGN, SIGNS, -3, 3, 0},
    {BERTH_OP_RELU, NUMBERS, -100, 100, 0},
    {BERTH_OP_FLOOR, NUMBERS, -100, 100, 0},
    {BERTH_OP_CEIL, NUMBERS, -100, 100, 0},
    {BERTH_OP_ROUND, NUMBERS, -100, 100, 0},
    {BERTH_OP_EXP, REALS, -10, 10, 0x1p-21},
    {BERTH_OP_LOG, REALS, 0, 100, 0x1p-21},
    {BERTH_OP_LOG1P, REALS, -1, 100, 0x1p-21},
    {BERTH_OP_SQRT, REALS, 0, 100, 0},
    {BERTH_OP_RSQRT, REALS, 0, 100, 0},
    {BERTH_OP_RECIPROCAL, REALS, -100, 100, 0},
    {BERTH_OP_SIN, REALS, -100, 100, 0x1p-21},
    {BERTH_OP_COS, REALS, -100, 100, 0x1p-21},
    {BERTH_OP_TANH, REALS, -10, 10, 0x1p-21},
    {BERTH_OP_SIGMOID, REALS, -10, 10, 0x1p-21},
    {BERTH_OP_SILU, REALS, -10, 10, 0x1p-21},
    {BERTH_OP_GELU, REALS, -13, 13, 0x1p-20},
    // the error of its exponent is that of the result
    {BERTH_OP_GELU_TANH, REALS, -10, 10, 0x1p-15},
    {BERTH_OP_LOGICAL_NOT, TESTS, -2, 2, 0},
    {BERTH_OP_ISNAN, TESTS, -2, 2, 0},
    {BERTH_OP_ISINF, TESTS, -2, 2, 0},
    {BERTH_OP_ISFINITE, TESTS, -2, 2, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static bool accepts(const struct function* f, berth_dtype dtype) {
    return f->domain != NUMBERS || dtype != BERTH_BOOL;
}

static berth_dtype result_type(const struct function* f, berth_dtype dtype) {
    if (f->domain == TESTS) return BERTH_BOOL;
    return f->domain == REALS ? berth_promote_to_float(dtype) : dtype;
}

/// Results in f32 that differ a little may be neighbours once rounded to a half.
static cuda_kit_tolerance tolerance_of(double relative, berth_dtype result) {
    if (relative == 0) return cuda_kit_exact;
    const double place = result == BERTH_F16 ? 0x1p-11 : result == BERTH_BF16 ? 0x1p-8 : 0;
    const double least = result == BERTH_F16 ? 0x1p-24 : 0x1p-120;
    return (cuda_kit_tolerance){relative + place, least};
}

/// Numbers of a range, and now and then one that is none, infinite, 0 or the end of its type.
static void fill(kit_tensor* x, double low, double high) {
    const berth_dtype dtype = x->view.dtype;
    const bool is_float = berth_dtype_is_float(dtype);
    const double odd[] = {
        (double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0, 0.5, -0.5, 1e-40, -1e-7, 1.0};
    kit_fill(x, dtype == BERTH_U8 && low < 0 ? 0 : low, high);
    for (int64_t i = 0; i < kit_count(&x->view); ++i) {
        if (kit_int(0, 9) != 0) continue;
        if (is_float)
            kit_store(dtype, kit_at(&x->view, i), odd[kit_int(0, 9)]);
        else if (dtype != BERTH_BOOL && kit_int(0, 3) == 0)
            kit_store(dtype,
                      kit_at(&x->view, i),
                      (double)(kit_int(0, 1) ? berth_dtype_lowest(dtype)
                                             : berth_dtype_highest(dtype) >> 10 << 10));
    }
}

static void compare_unary(const struct function* f, kit_tensor* x, int in_place) {
    berth_op_call call = {.input_count = 1, .output_count = 1, .inputs = {x->view}};
    const berth_dtype result = result_type(f, x->view.dtype);
    cuda_kit_compare(f->op, &call, in_place, tolerance_of(f->relative, result));
}

// --- One operand ---------------------------------------------------------------------------------

static void functions_of_any_type_and_strides_are_the_cpus(void** state) {
    (void)state;
    kit_seed(1);
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            if (!accepts(f, plain[t])) continue;
            for (int round = 0; round < 6; ++round) {
                int64_t dims[BERTH_MAX_RANK];
                const int32_t rank = round == 0 ? 0 : kit_dims(4, 9, dims);
                kit_tensor x = kit_strided(plain[t], rank, dims, kit_int(0, 1) == 0, true);
                fill(&x, f->low, f->high);
                compare_unary(f, &x, -1);
                kit_free(&x);
            }
        }
    }
}

static void functions_of_vectors_are_the_cpus_whatever_is_left_behind_the_last(void** state) {
    (void)state;
    kit_seed(2);
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            if (!accepts(f, plain[t])) continue;
            const int64_t length = lengths[(n * 5 + t) % LENGTHS];
            kit_tensor x = kit_contiguous(plain[t], 1, &length);
            fill(&x, f->low, f->high);
            compare_unary(f, &x, -1);
            if (kit_bytes(result_type(f, plain[t])) == kit_bytes(plain[t])) compare_unary(f, &x, 0);
            kit_free(&x);
        }
    }
}

static void every_length_is_right(void** state) {
    (void)state;
    kit_seed(3);
    for (int t = 0; t < PLAIN - 1; ++t) {
        for (int l = 0; l < LENGTHS; ++l) {
            kit_tensor x = kit_contiguous(plain[t], 1, &lengths[l]);
            fill(&x, -100, 100);
            compare_unary(&functions[0], &x, -1);
            // an address that only the element's alignment is promised of
            if (lengths[l] > 1) {
                kit_tensor part = x;
                part.view.data = (unsigned char*)x.view.data + kit_bytes(plain[t]);
                --part.view.dims[0];
                compare_unary(&functions[0], &part, -1);
            }
            kit_free(&x);
        }
    }
}

static void transposed_operands_are_right(void** state) {
    (void)state;
    kit_seed(4);
    const int64_t dims[2] = {67, 71};
    for (int t = 0; t < PLAIN - 1; ++t) {
        kit_tensor x = kit_contiguous(plain[t], 2, dims);
        fill(&x, -100, 100);
        x.view.dims[0] = dims[1];
        x.view.dims[1] = dims[0];
        x.view.strides[0] = 1;
        x.view.strides[1] = dims[1];
        compare_unary(&functions[3], &x, -1);
        kit_tensor other = kit_contiguous(plain[t], 2, x.view.dims);
        fill(&other, -100, 100);
        berth_op_call call = {.input_count = 2, .output_count = 1, .inputs = {other.view, x.view}};
        cuda_kit_compare(BERTH_OP_SUB, &call, -1, cuda_kit_exact);
        cuda_kit_compare(BERTH_OP_SUB, &call, 0, cuda_kit_exact);
        call.inputs[1] = other.view;
        call.inputs[0] = x.view;
        cuda_kit_compare(BERTH_OP_SUB, &call, 1, cuda_kit_exact);
        call.inputs[1] = x.view;
        cuda_kit_compare(BERTH_OP_ADD, &call, -1, cuda_kit_exact);
        kit_free(&other);
        kit_free(&x);
    }
}

/// Rows that are whole vectors, in the middle of wider ones, whose strides are vectors or are not.
static void parts_of_wider_rows_are_right(void** state) {
    (void)state;
    kit_seed(14);
    for (int t = 0; t < PLAIN - 1; ++t) {
        for (int64_t wide = 96; wide < 100; ++wide) {
            const int64_t dims[3] = {3, 5, wide};
            kit_tensor x = kit_contiguous(plain[t], 3, dims);
            fill(&x, -100, 100);
            kit_tensor part = x;
            part.view.data = (unsigned char*)x.view.data + 16 * kit_bytes(plain[t]);
            part.view.dims[2] = 64;
            compare_unary(&functions[0], &part, -1);
            berth_op_call call = {
                .input_count = 2, .output_count = 1, .inputs = {part.view, part.view}};
            call.inputs[1].strides[0] = 0;
            call.inputs[1].strides[1] *= -1;
            call.inputs[1].data = kit_at(&part.view, 4 * 64);
            cuda_kit_compare(BERTH_OP_SUB, &call, -1, cuda_kit_exact);
            kit_free(&x);
        }
    }
}

static void affine_and_clamp_are_the_cpus(void** state) {
    (void)state;
    kit_seed(5);
    const double bounds[][2] = {{-3, 4.5}, {2.5, -1}, {-1e30, 1e30}, {0.25, 0.75}};
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 8; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(3, 20, dims);
            kit_tensor x = round % 2 == 0 ? kit_strided(plain[t], rank, dims, true, true)
                                          : kit_contiguous(plain[t], rank, dims);
            fill(&x, -9, 9);
            const berth_affine_params affine = {.scale = 0.3f, .shift = -1.7f};
            berth_op_call call = {
                .input_count = 1, .output_count = 1, .inputs = {x.view}, .params = &affine};
            cuda_kit_compare(BERTH_OP_AFFINE, &call, -1, cuda_kit_exact);
            const berth_clamp_params clamp = {bounds[round / 2][0], bounds[round / 2][1]};
            call.params = &clamp;
            if (plain[t] != BERTH_BOOL) cuda_kit_compare(BERTH_OP_CLAMP, &call, -1, cuda_kit_exact);
            if (plain[t] != BERTH_BOOL && round % 2 == 1)
                cuda_kit_compare(BERTH_OP_CLAMP, &call, 0, cuda_kit_exact);
            kit_free(&x);
        }
    }
    const int64_t five = 5;
    kit_tensor x = kit_contiguous(BERTH_F32, 1, &five);
    fill(&x, -9, 9);
    const berth_clamp_params none = {(double)NAN, 1};
    berth_op_call call = {.input_count = 1, .output_count = 1, .inputs = {x.view}, .params = &none};
    cuda_kit_compare(BERTH_OP_CLAMP, &call, -1, cuda_kit_exact);
    kit_free(&x);
}

// --- Casts ---------------------------------------------------------------------------------------

/// Values among which are the ends of all types.
static void fill_widely(kit_tensor* x) {
    const double ends[] = {0,
                           -0.0,
                           1,
                           -1,
                           0.5,
                           -0.5,
                           127,
                           128,
                           -128,
                           -129,
                           255,
                           256,
                           65504,
                           65520,
                           2147483520.0,
                           2147483648.0,
                           -2147483648.0,
                           9223371487098961920.0,
                           9223372036854775808.0,
                           -9223372036854775808.0,
                           1e30,
                           -1e30,
                           1e-30,
                           32767.5,
                           (double)INFINITY,
                           -(double)INFINITY,
                           (double)NAN};
    enum { ENDS = sizeof ends / sizeof ends[0] };
    const berth_dtype dtype = x->view.dtype;
    for (int64_t i = 0; i < kit_count(&x->view); ++i) {
        void* at = kit_at(&x->view, i);
        if (berth_dtype_is_float(dtype)) {
            kit_store(
                dtype, at, kit_int(0, 3) > 0 ? ends[kit_int(0, ENDS - 1)] : kit_real(-300, 300));
            continue;
        }
        const int64_t any =
            dtype == BERTH_BOOL ? kit_int(0, 1) : (int64_t)(kit_next() >> kit_int(0, 63));
        memcpy(at, &any, kit_bytes(dtype)); // little-endian, low bytes first
    }
}

static void casts_between_all_types_are_the_cpus(void** state) {
    (void)state;
    kit_seed(6);
    for (int from = 0; from < PLAIN; ++from) {
        for (int to = 0; to < PLAIN; ++to) {
            const berth_cast_params params = {.dtype = plain[to]};
            for (int round = 0; round < 3; ++round) {
                int64_t dims[BERTH_MAX_RANK] = {1 + 401 * round};
                const int32_t rank = round == 0 ? kit_dims(4, 9, dims) : 1;
                kit_tensor x = round == 0 ? kit_strided(plain[from], rank, dims, false, true)
                                          : kit_contiguous(plain[from], rank, dims);
                fill_widely(&x);
                berth_op_call call = {
                    .input_count = 1, .output_count = 1, .inputs = {x.view}, .params = &params};
                cuda_kit_compare(BERTH_OP_CAST, &call, -1, cuda_kit_exact);
                if (round > 0 && kit_bytes(plain[from]) == kit_bytes(plain[to]))
                    cuda_kit_compare(BERTH_OP_CAST, &call, 0, cuda_kit_exact);
                kit_free(&x);
            }
        }
    }
}

static void quantised_blocks_have_the_cpus_bits(void** state) {
    (void)state;
    kit_seed(7);
    for (int from = BERTH_Q4_0; from < BERTH_DTYPE_COUNT; ++from) {
        for (int to = 0; to < 3; ++to) {
            for (int64_t gap = 0; gap < 3; gap += 2) {
                kit_tensor x = kit_quantised_rows((berth_dtype)from, 5, 768, gap);
                const berth_cast_params params = {.dtype = plain[to]};
                berth_op_call call = {
                    .input_count = 1, .output_count = 1, .inputs = {x.view}, .params = &params};
                cuda_kit_compare(BERTH_OP_CAST, &call, -1, cuda_kit_exact);
                call.inputs[0].dims[0] = 0;
                cuda_kit_compare(BERTH_OP_CAST, &call, -1, cuda_kit_exact);
                kit_free(&x);
            }
        }
    }
}

// --- Two operands --------------------------------------------------------------------------------

static const struct pair_function {
    berth_op_id op;
    bool takes_bools; ///< two of them
    double relative;
} pair_functions[] = {
    {BERTH_OP_ADD, true, 0},
    {BERTH_OP_SUB, false, 0},
    {BERTH_OP_MUL, true, 0},
    {BERTH_OP_DIV, true, 0},
    {BERTH_OP_MINIMUM, true, 0},
    {BERTH_OP_MAXIMUM, true, 0},
    {BERTH_OP_REMAINDER, false, 0},
    {BERTH_OP_POW, false, 0x1p-21},
    {BERTH_OP_EQ, true, 0},
    {BERTH_OP_NE, true, 0},
    {BERTH_OP_LT, true, 0},
    {BERTH_OP_LE, true, 0},
    {BERTH_OP_GT, true, 0},
    {BERTH_OP_GE, true, 0},
    {BERTH_OP_LOGICAL_AND, true, 0},
    {BERTH_OP_LOGICAL_OR, true, 0},
    {BERTH_OP_LOGICAL_XOR, true, 0},
};
enum { PAIR_FUNCTIONS = sizeof pair_functions / sizeof pair_functions[0] };

static void compare_pair(const struct pair_function* f,
                         const berth_view* a,
                         const berth_view* b,
                         int in_place) {
    const berth_compare_params params = {.dtype = berth_promote(a, b)};
    berth_op_call call = {
        .input_count = 2, .output_count = 1, .inputs = {*a, *b}, .params = &params};
    const berth_dtype result = berth_promote_to_float(params.dtype);
    cuda_kit_compare(f->op, &call, in_place, tolerance_of(f->relative, result));
}

/// Dimensions that broadcast to `dims`: some are 1, the first ones may lack.
static int32_t narrow(int32_t rank, const int64_t* dims, int64_t* out_dims) {
    const int32_t missing = (int32_t)kit_int(0, 3) == 0 ? (int32_t)kit_int(0, rank) : 0;
    for (int32_t d = missing; d < rank; ++d)
        out_dims[d - missing] = kit_int(0, 3) == 0 ? 1 : dims[d];
    return rank - missing;
}

static void two_operands_of_any_types_broadcast_as_the_cpus_do(void** state) {
    (void)state;
    kit_seed(8);
    for (int n = 0; n < PAIR_FUNCTIONS; ++n) {
        const struct pair_function* f = &pair_functions[n];
        for (int t = 0; t < PLAIN * PLAIN; ++t) {
            const berth_dtype left = plain[t % PLAIN], right = plain[t / PLAIN];
            if (left == BERTH_BOOL && right == BERTH_BOOL && !f->takes_bools) continue;
            int64_t dims[BERTH_MAX_RANK], dims_a[BERTH_MAX_RANK], dims_b[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 7, dims);
            const int32_t rank_a = narrow(rank, dims, dims_a);
            const int32_t rank_b = narrow(rank, dims, dims_b);
            kit_tensor a = kit_strided(left, rank_a, dims_a, kit_int(0, 1) == 0, true);
            kit_tensor b = kit_strided(right, rank_b, dims_b, kit_int(0, 1) == 0, true);
            fill(&a, -6, 6);
            fill(&b, -6, 6);
            compare_pair(f, &a.view, &b.view, -1);
            kit_free(&a);
            kit_free(&b);
        }
    }
}

/// Rows, columns and single numbers against a matrix whose rows are whole vectors, or are not.
static void dense_operands_meet_rows_columns_and_numbers(void** state) {
    (void)state;
    kit_seed(9);
    const int64_t widths[] = {64, 16, 33, 4, 1};
    for (int n = 0; n < PAIR_FUNCTIONS; ++n) {
        const struct pair_function* f = &pair_functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            if (plain[t] == BERTH_BOOL && !f->takes_bools) continue;
            const int64_t width = widths[(n + t) % 5], dims[2] = {37, width};
            const int64_t shapes[][2] = {{37, width}, {1, width}, {37, 1}, {1, 1}};
            kit_tensor a = kit_contiguous(plain[t], 2, dims);
            fill(&a, -6, 6);
            for (int s = 0; s < 4; ++s) {
                kit_tensor b = kit_contiguous(plain[t], 2, shapes[s]);
                fill(&b, -6, 6);
                compare_pair(f, &a.view, &b.view, -1);
                compare_pair(f, &b.view, &a.view, -1);
                if (n < 8 && berth_promote_to_float(plain[t]) == plain[t]) {
                    compare_pair(f, &a.view, &b.view, 0);
                    compare_pair(f, &b.view, &a.view, 1);
                }
                kit_free(&b);
            }
            kit_free(&a);
        }
    }
}

static void long_operands_of_two_are_right_at_their_ends(void** state) {
    (void)state;
    kit_seed(10);
    for (int l = 0; l < LENGTHS; ++l) {
        for (int t = 0; t < PLAIN; ++t) {
            const struct pair_function* f = &pair_functions[(l + t) % PAIR_FUNCTIONS];
            if (plain[t] == BERTH_BOOL && !f->takes_bools) continue;
            kit_tensor a = kit_contiguous(plain[t], 1, &lengths[l]);
            kit_tensor b = kit_contiguous(plain[t], 1, &lengths[l]);
            fill(&a, -6, 6);
            fill(&b, -6, 6);
            compare_pair(f, &a.view, &b.view, -1);
            kit_free(&a);
            kit_free(&b);
        }
    }
}

static void outer_products_are_the_cpus(void** state) {
    (void)state;
    kit_seed(11);
    for (int t = 0; t < PLAIN * PLAIN; ++t) {
        const int64_t rows = kit_int(0, 20), columns = kit_int(0, 1) ? 32 : kit_int(0, 33);
        kit_tensor a = kit_strided(plain[t % PLAIN], 1, &rows, false, true);
        kit_tensor b = kit_strided(plain[t / PLAIN], 1, &columns, kit_int(0, 1) == 0, true);
        fill(&a, -6, 6);
        fill(&b, -6, 6);
        berth_op_call call = {.input_count = 2, .output_count = 1, .inputs = {a.view, b.view}};
        cuda_kit_compare(BERTH_OP_OUTER, &call, -1, cuda_kit_exact);
        kit_free(&a);
        kit_free(&b);
    }
}

// --- Where ---------------------------------------------------------------------------------------

static void compare_where(const kit_tensor* condition,
                          const kit_tensor* a,
                          const kit_tensor* b,
                          int in_place) {
    berth_op_call call = {
        .input_count = 3, .output_count = 1, .inputs = {condition->view, a->view, b->view}};
    cuda_kit_compare(BERTH_OP_WHERE, &call, in_place, cuda_kit_exact);
}

static void where_takes_conditions_and_sides_of_any_types(void** state) {
    (void)state;
    kit_seed(12);
    for (int t = 0; t < PLAIN * PLAIN * 2; ++t) {
        int64_t dims[BERTH_MAX_RANK], parts[3][BERTH_MAX_RANK];
        const int32_t rank = kit_dims(4, 7, dims);
        const berth_dtype types[3] = {
            plain[kit_int(0, PLAIN - 1)], plain[t % PLAIN], plain[t / PLAIN % PLAIN]};
        kit_tensor operands[3];
        for (int i = 0; i < 3; ++i) {
            const int32_t own = narrow(rank, dims, parts[i]);
            operands[i] = kit_strided(types[i], own, parts[i], false, true);
            fill(&operands[i], -2, 2);
        }
        compare_where(&operands[0], &operands[1], &operands[2], -1);
        for (int i = 0; i < 3; ++i)
            kit_free(&operands[i]);
    }
}

static void where_chooses_among_vectors_and_what_is_repeated(void** state) {
    (void)state;
    kit_seed(13);
    for (int t = 0; t < PLAIN; ++t) {
        for (int l = 0; l < LENGTHS; ++l) {
            const int64_t dims[2] = {3, lengths[l]}, one[2] = {1, 1}, column[2] = {3, 1};
            kit_tensor condition = kit_contiguous(BERTH_BOOL, 2, l % 3 == 2 ? column : dims);
            kit_tensor a = kit_contiguous(plain[t], 2, dims);
            kit_tensor b = kit_contiguous(plain[t], 2, l % 2 == 1 ? one : dims);
            fill(&condition, 0, 1);
            fill(&a, -6, 6);
            fill(&b, -6, 6);
            compare_where(&condition, &a, &b, -1);
            compare_where(&condition, &a, &b, 1);
            compare_where(&condition, &b, &a, 2);
            kit_free(&condition);
            kit_free(&a);
            kit_free(&b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_any_type_and_strides_are_the_cpus),
        cmocka_unit_test(functions_of_vectors_are_the_cpus_whatever_is_left_behind_the_last),
        cmocka_unit_test(every_length_is_right),
        cmocka_unit_test(transposed_operands_are_right),
        cmocka_unit_test(parts_of_wider_rows_are_right),
        cmocka_unit_test(affine_and_clamp_are_the_cpus),
        cmocka_unit_test(casts_between_all_types_are_the_cpus),
        cmocka_unit_test(quantised_blocks_have_the_cpus_bits),
        cmocka_unit_test(two_operands_of_any_types_broadcast_as_the_cpus_do),
        cmocka_unit_test(dense_operands_meet_rows_columns_and_numbers),
        cmocka_unit_test(long_operands_of_two_are_right_at_their_ends),
        cmocka_unit_test(outer_products_are_the_cpus),
        cmocka_unit_test(where_takes_conditions_and_sides_of_any_types),
        cmocka_unit_test(where_chooses_among_vectors_and_what_is_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
