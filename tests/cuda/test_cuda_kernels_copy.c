// SPDX-License-Identifier: Apache-2.0
// COPY and the ops that make tensors of nothing, as the GPU's kernels do them on the host, against
// the CPU's.
#include "cuda/cuda_kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0] };

static void fill_bytes(kit_tensor* x) {
    for (size_t i = 0; i < x->bytes; ++i)
        x->memory[KIT_GUARD + i] = (unsigned char)kit_next();
    // no NaN, whose bits a comparison of values would not see, and no bool but 0 and 1
    const berth_dtype dtype = x->view.dtype;
    if (berth_dtype_is_float(dtype) || dtype == BERTH_BOOL) kit_fill(x, -100, 100);
}

static void compare_copy(const berth_view* x) {
    berth_op_call call = {.input_count = 1, .output_count = 1, .inputs = {*x}};
    cuda_kit_compare(BERTH_OP_COPY, &call, -1, cuda_kit_exact);
}

static void copies_of_any_strides_are_the_cpus(void** state) {
    (void)state;
    kit_seed(1);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 40; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = round == 0 ? 0 : kit_dims(round < 30 ? 4 : 8, 6, dims);
            kit_tensor x = kit_strided(plain[t], rank, dims, round % 3 == 0, true);
            fill_bytes(&x);
            compare_copy(&x.view);
            kit_free(&x);
        }
    }
}

static void copies_of_dense_memory_are_right_at_any_address_and_length(void** state) {
    (void)state;
    kit_seed(2);
    const int64_t lengths[] = {0, 1, 15, 16, 17, 63, 64, 65, 1023, 5000, 20001};
    for (int t = 0; t < PLAIN; ++t) {
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; ++l) {
            kit_tensor x = kit_contiguous(plain[t], 1, &lengths[l]);
            fill_bytes(&x);
            compare_copy(&x.view);
            for (int64_t skipped = 1; skipped < 4 && skipped < lengths[l]; ++skipped) {
                berth_view part = x.view;
                part.data = (unsigned char*)x.view.data + (size_t)skipped * kit_bytes(plain[t]);
                part.dims[0] -= skipped;
                compare_copy(&part);
            }
            kit_free(&x);
        }
    }
}

/// Swaps two dimensions of a view.
static void swap(berth_view* x, int32_t a, int32_t b) {
    const int64_t dim = x->dims[a], stride = x->strides[a];
    x->dims[a] = x->dims[b];
    x->strides[a] = x->strides[b];
    x->dims[b] = dim;
    x->strides[b] = stride;
}

static void transpositions_are_right_whatever_is_left_of_a_tile(void** state) {
    (void)state;
    kit_seed(3);
    const int64_t sides[] = {4, 31, 32, 33, 64, 65, 127, 130};
    enum { SIDES = sizeof sides / sizeof sides[0] };
    for (int t = 0; t < PLAIN; ++t) {
        for (int s = 0; s < SIDES; ++s) {
            const int64_t dims[3] = {3, sides[s], sides[(s + t) % SIDES]};
            kit_tensor x = kit_contiguous(plain[t], 3, dims);
            fill_bytes(&x);
            swap(&x.view, 1, 2);
            compare_copy(&x.view);
            swap(&x.view, 0, 1);
            compare_copy(&x.view);
            kit_free(&x);
        }
    }
}

static void heads_and_tokens_change_places(void** state) {
    (void)state;
    kit_seed(4);
    for (int t = 0; t < PLAIN; ++t) {
        for (int64_t width = 1; width < 70; width += 21) {
            const int64_t dims[3] = {13, 6, width};
            kit_tensor x = kit_contiguous(plain[t], 3, dims);
            fill_bytes(&x);
            swap(&x.view, 0, 1);
            compare_copy(&x.view);
            kit_free(&x);
        }
    }
}

/// The divisions that more than 2^31 words need, on few.
static void places_found_with_wide_divisions_are_the_same(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < 50; ++round) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = kit_dims(5, 6, dims);
        kit_tensor x = kit_strided(BERTH_I32, rank, dims, false, true);
        kit_tensor out = kit_contiguous(BERTH_I32, rank, dims);
        fill_bytes(&x);
        const berth_view* const operands[1] = {&x.view};
        berth_cuda_copy_args args = {
            .out = out.view.data, .from = x.view.data, .word_bytes = sizeof(int32_t)};
        berth_cuda_walk_make(&x.view, 1, operands, &args.walk);
        args.walk.is_small = 0;
        emulation_run(BERTH_CUDA_KERNEL_copy, 2, 64, &args);
        for (int64_t i = 0; i < kit_count(&x.view); ++i)
            assert_memory_equal(kit_at(&x.view, i), kit_at(&out.view, i), sizeof(int32_t));
        kit_free(&x);
        kit_free(&out);
    }
}

static void quantised_blocks_are_copied_whole(void** state) {
    (void)state;
    kit_seed(5);
    for (int dtype = BERTH_Q4_0; dtype < BERTH_DTYPE_COUNT; ++dtype) {
        for (int64_t gap = 0; gap < 3; ++gap) {
            for (int64_t blocks = 1; blocks < 4; ++blocks) {
                const int64_t width =
                    blocks * berth_dtype_query_info((berth_dtype)dtype)->block_values;
                kit_tensor x = kit_quantised_rows((berth_dtype)dtype, 5, width, gap);
                berth_op_call call = {.input_count = 1, .output_count = 1, .inputs = {x.view}};
                const size_t bytes = (size_t)(5 * blocks) * kit_bytes((berth_dtype)dtype);
                kit_tensor expected, found;
                kit_guard(&expected, bytes);
                kit_guard(&found, bytes);
                assert_ok(berth_op_table[BERTH_OP_COPY].infer(&call));
                call.outputs[0].data = expected.memory + KIT_GUARD;
                cuda_kit_launch(berth_cpu_kernels()[BERTH_OP_COPY], &call, 0);
                call.outputs[0].data = found.memory + KIT_GUARD;
                cuda_kit_launch(berth_cuda_kernel_table()->kernels[BERTH_OP_COPY], &call, 0);
                assert_memory_equal(expected.memory + KIT_GUARD, found.memory + KIT_GUARD, bytes);
                kit_free(&expected);
                kit_free(&found);
                kit_free(&x);
            }
        }
    }
}

// --- Creation ------------------------------------------------------------------------------------

static const int64_t counts[] = {0, 1, 5, 16, 17, 1000, 5003};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static void compare_created(berth_op_id op, const void* params, cuda_kit_tolerance tolerance) {
    berth_op_call call = {.output_count = 1, .params = params};
    cuda_kit_compare(op, &call, -1, tolerance);
}

static void filled_tensors_are_the_cpus(void** state) {
    (void)state;
    const double values[] = {0, 1, -1, 2.5, 300, -1e30, 65520, 9007199254740992.0, (double)NAN};
    for (int t = 0; t < PLAIN; ++t) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; ++v) {
            const berth_fill_params params = {.value = values[v],
                                              .dtype = plain[t],
                                              .rank = 2,
                                              .dims = {3, counts[(v + (size_t)t) % COUNTS]}};
            compare_created(BERTH_OP_FILL, &params, cuda_kit_exact);
        }
    }
}

/// An output that only an element's alignment is promised of.
static void filling_writes_what_lies_between_its_ends_alone(void** state) {
    (void)state;
    for (int t = 0; t < PLAIN; ++t) {
        for (int c = 0; c < COUNTS; ++c) {
            const int64_t room = counts[c] + 1;
            kit_tensor out = kit_contiguous(plain[t], 1, &room);
            memset(out.view.data, 0x5A, out.bytes);
            const berth_fill_params params = {.value = 1, .dtype = plain[t]};
            berth_op_call call = {.output_count = 1, .outputs = {out.view}, .params = &params};
            call.outputs[0].data = kit_at(&out.view, c > 0 ? 1 : 0);
            call.outputs[0].dims[0] = counts[c];
            cuda_kit_launch(berth_cuda_kernel_table()->kernels[BERTH_OP_FILL], &call, 0);
            assert_int_equal(*(unsigned char*)out.view.data, 0x5A);
            for (int64_t i = 1; i < room; ++i)
                assert_true(kit_get(&out.view, i) == 1);
            kit_free(&out);
        }
    }
}

static void ranges_are_the_cpus(void** state) {
    (void)state;
    const double steps[][2] = {{0, 1},
                               {-7, 3},
                               {0.1, 0.7},
                               {1e18, 1e16},
                               {-300, 5.5},
                               {9e15, -1048576},
                               {1e30, -1e27},
                               {0, 1e-9}};
    for (int t = 0; t < PLAIN - 1; ++t) {
        for (size_t s = 0; s < sizeof steps / sizeof steps[0]; ++s) {
            const berth_arange_params params = {
                steps[s][0], steps[s][1], counts[(s + (size_t)t) % COUNTS], plain[t]};
            compare_created(BERTH_OP_ARANGE, &params, cuda_kit_exact);
        }
    }
}

static void random_numbers_are_the_cpus(void** state) {
    (void)state;
    const float ranges[][2] = {{0, 1}, {-2, 3}, {5, 5}, {1, 1.0001f}, {-1, 0}, {100, 101}};
    for (int t = 0; t < 3; ++t) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; ++r) {
            const berth_random_params params = {.seed = 17 * r + 1,
                                                .low = ranges[r][0],
                                                .high = ranges[r][1],
                                                .dtype = (uint8_t)plain[t],
                                                .rank = 1,
                                                .dims = {counts[(r + (size_t)t) % COUNTS]}};
            compare_created(BERTH_OP_RAND, &params, cuda_kit_exact);
            // logarithm and cosine may be another library's
            compare_created(BERTH_OP_RANDN, &params, (cuda_kit_tolerance){0x1p-20, 0x1p-20});
        }
    }
}

static void random_integers_are_the_cpus(void** state) {
    (void)state;
    const int64_t ranges[][2] = {{0, 100}, {-5, 6}, {3, 4}, {INT64_MIN, INT64_MAX}, {0, 127}};
    const berth_dtype types[] = {BERTH_I64, BERTH_I32, BERTH_U8, BERTH_I8};
    for (int t = 0; t < 4; ++t) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; ++r) {
            if (t > 0 && r == 3) continue; // no room for it
            if (types[t] == BERTH_U8 && r == 1) continue;
            const berth_randint_params params = {.seed = 3 + r,
                                                 .low = ranges[r][0],
                                                 .high = ranges[r][1],
                                                 .dtype = types[t],
                                                 .rank = 1,
                                                 .dims = {counts[(r + (size_t)t) % COUNTS]}};
            compare_created(BERTH_OP_RANDINT, &params, cuda_kit_exact);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_any_strides_are_the_cpus),
        cmocka_unit_test(copies_of_dense_memory_are_right_at_any_address_and_length),
        cmocka_unit_test(transpositions_are_right_whatever_is_left_of_a_tile),
        cmocka_unit_test(heads_and_tokens_change_places),
        cmocka_unit_test(places_found_with_wide_divisions_are_the_same),
        cmocka_unit_test(quantised_blocks_are_copied_whole),
        cmocka_unit_test(filled_tensors_are_the_cpus),
        cmocka_unit_test(filling_writes_what_lies_between_its_ends_alone),
        cmocka_unit_test(ranges_are_the_cpus),
        cmocka_unit_test(random_numbers_are_the_cpus),
        cmocka_unit_test(random_integers_are_the_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
