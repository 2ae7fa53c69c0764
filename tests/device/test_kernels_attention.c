// SPDX-License-Identifier: Apache-2.0
// ATTENTION and ROPE against arithmetic in double; the invariance of each row.
#include "device/kernel_kit.h"

#include "device/cpu/kernel_attention.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

/// The shape of a case.
typedef struct attention_case {
    int64_t tokens, heads, kv_heads, keys, depth, width;
    berth_dtype q_dtype, kv_dtype;
    bool causal;
    int64_t offset;
    bool contiguous;
} attention_case;

typedef struct attention_tensors {
    kit_tensor q, k, v, out;
    berth_attention_params params;
    berth_op_call call;
} attention_tensors;

static kit_tensor operand(
    const attention_case* c, berth_dtype dtype, int64_t a, int64_t b, int64_t d) {
    const int64_t dims[3] = {a, b, d};
    kit_tensor tensor =
        c->contiguous ? kit_contiguous(dtype, 3, dims) : kit_strided(dtype, 3, dims, true, false);
    kit_fill(&tensor, -1, 1);
    return tensor;
}

static void attention_init(attention_tensors* t, const attention_case* c) {
    const int64_t out_dims[3] = {c->tokens, c->heads, c->width};
    t->q = operand(c, c->q_dtype, c->tokens, c->heads, c->depth);
    t->k = operand(c, c->kv_dtype, c->keys, c->kv_heads, c->depth);
    t->v = operand(c, c->kv_dtype, c->keys, c->kv_heads, c->width);
    t->out = kit_contiguous(c->q_dtype, 3, out_dims);
    t->params =
        (berth_attention_params){.scale = 0.7f, .causal = c->causal, .query_offset = c->offset};
    t->call = (berth_op_call){.input_count = 3,
                              .inputs = {t->q.view, t->k.view, t->v.view},
                              .params = &t->params,
                              .batch_invariant = true};
}

static void attention_fini(attention_tensors* t) {
    kit_free(&t->q);
    kit_free(&t->k);
    kit_free(&t->v);
    kit_free(&t->out);
}

static void run(attention_tensors* t) {
    kit_run_everywhere(
        BERTH_OP_ATTENTION, &t->call, &t->out, false, false, berth_cpu_attention_scratch);
}

/// Element [a, b, c] of a tensor of rank 3.
static double at3(const berth_view* view, int64_t a, int64_t b, int64_t c) {
    const int64_t at = a * view->strides[0] + b * view->strides[1] + c * view->strides[2];
    return kit_load(view->dtype, (unsigned char*)view->data + at * (int64_t)kit_bytes(view->dtype));
}

static void check_row(const attention_tensors* t,
                      const attention_case* c,
                      int64_t token,
                      int64_t head) {
    const int64_t kv = head / (c->heads / c->kv_heads);
    int64_t seen = c->causal ? c->offset + token + 1 : c->keys;
    seen = seen < 0 ? 0 : seen > c->keys ? c->keys : seen;
    double* scores = malloc((size_t)(seen + 1) * sizeof *scores);
    assert_non_null(scores);
    double largest = -(double)INFINITY;
    double total = 0;
    for (int64_t j = 0; j < seen; ++j) {
        scores[j] = 0;
        for (int64_t d = 0; d < c->depth; ++d) {
            scores[j] += at3(&t->q.view, token, head, d) * at3(&t->k.view, j, kv, d);
        }
        scores[j] *= (double)t->params.scale;
        largest = fmax(largest, scores[j]);
    }
    for (int64_t j = 0; j < seen; ++j)
        total += scores[j] = exp(scores[j] - largest);
    for (int64_t d = 0; d < c->width; ++d) {
        double expected = 0;
        for (int64_t j = 0; j < seen; ++j)
            expected += scores[j] * at3(&t->v.view, j, kv, d);
        if (seen > 0) expected /= total;
        const double tolerance = kit_tolerance(c->q_dtype, expected, 0x1p-19) + 2e-6;
        kit_expect(&t->out.view, (token * c->heads + head) * c->width + d, expected, tolerance);
    }
    free(scores);
}

static void check_attention(const attention_case* c, int64_t step) {
    attention_tensors t;
    attention_init(&t, c);
    run(&t);
    for (int64_t row = 0; row < c->tokens * c->heads; row += step) {
        check_row(&t, c, row / c->heads, row % c->heads);
    }
    attention_fini(&t);
}

static void attention_of_random_shapes_types_and_strides(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 60; ++round) {
        const int64_t kv_heads = kit_int(1, 3);
        const attention_case c = {
            .tokens = kit_int(0, 20),
            .heads = kv_heads * kit_int(1, 4),
            .kv_heads = kv_heads,
            .keys = kit_int(0, 150),
            .depth = kit_int(1, 70),
            .width = kit_int(1, 70),
            .q_dtype = floats[kit_int(0, 2)],
            .kv_dtype = floats[kit_int(0, 2)],
            .causal = kit_int(0, 1) == 1,
            .offset = kit_int(-4, 150),
            .contiguous = round % 3 == 0,
        };
        check_attention(&c, 1);
    }
}

static void attention_over_several_segments_of_keys(void** state) {
    (void)state;
    kit_seed(2);
    for (int t = 0; t < 3; ++t) {
        const attention_case decode = {
            1, 6, 2, 1700, 64, 64, BERTH_F32, floats[t], true, 1650, true};
        check_attention(&decode, 1);
        const attention_case prefill = {
            70, 6, 2, 1200, 64, 48, BERTH_F32, floats[t], true, 1100, true};
        check_attention(&prefill, 17);
        const attention_case both = {90, 3, 1, 1100, 40, 64, floats[t], floats[t], false, 0, false};
        check_attention(&both, 17);
    }
}

static void many_heads_may_share_one_kv_head(void** state) {
    (void)state;
    kit_seed(3);
    const attention_case c = {3, 70, 1, 200, 16, 16, BERTH_F32, BERTH_F32, true, 190, true};
    check_attention(&c, 1);
}

static void a_row_that_sees_no_key_gives_zeros(void** state) {
    (void)state;
    const attention_case c = {5, 2, 1, 8, 16, 16, BERTH_F32, BERTH_F32, true, -3, true};
    attention_tensors t;
    attention_init(&t, &c);
    run(&t);
    for (int64_t i = 0; i < 2 * 2 * 16; ++i)
        kit_expect(&t.out.view, i, 0.0, 0);
    attention_fini(&t);
}

/// Runs the rows of tokens [first, first + count) of `t` alone and compares them with the whole.
static void check_alone(
    attention_tensors* t, const attention_case* c, int64_t first, int64_t count, int64_t keys) {
    attention_tensors alone = *t;
    const int64_t dims[3] = {count, c->heads, c->width};
    alone.out = kit_contiguous(c->q_dtype, 3, dims);
    alone.params.query_offset = c->offset + first;
    alone.call.params = &alone.params;
    alone.call.inputs[0].dims[0] = count;
    alone.call.inputs[0].data = (unsigned char*)t->q.view.data +
                                first * t->q.view.strides[0] * (int64_t)kit_bytes(c->q_dtype);
    alone.call.inputs[1].dims[0] = keys;
    alone.call.inputs[2].dims[0] = keys;
    run(&alone);
    const size_t row_bytes = (size_t)(c->heads * c->width) * kit_bytes(c->q_dtype);
    assert_memory_equal(alone.out.view.data,
                        (unsigned char*)t->out.view.data + (size_t)first * row_bytes,
                        (size_t)count * row_bytes);
    kit_free(&alone.out);
}

static void a_row_has_the_same_bits_alone_and_in_any_chunk(void** state) {
    (void)state;
    kit_seed(4);
    for (int t = 0; t < 2; ++t) {
        const attention_case c = {
            150, 6, 2, 1400, 64, 64, BERTH_F32, t == 0 ? BERTH_F32 : BERTH_F16, true, 1230, true};
        attention_tensors whole;
        attention_init(&whole, &c);
        run(&whole);
        for (int64_t token = 0; token < 150; token += 37) {
            // With the keys that it sees only, as a decode step has them, and with all.
            check_alone(&whole, &c, token, 1, c.offset + token + 1);
            check_alone(&whole, &c, token, 1, c.keys);
        }
        check_alone(&whole, &c, 0, 64, c.keys);
        check_alone(&whole, &c, 31, 100, c.keys);
        attention_fini(&whole);
    }
}

static void keys_that_a_row_does_not_see_never_reach_it(void** state) {
    (void)state;
    kit_seed(5);
    const attention_case c = {40, 4, 2, 640, 32, 32, BERTH_F32, BERTH_F32, true, 590, true};
    attention_tensors t;
    attention_init(&t, &c);
    run(&t);
    kit_tensor expected = kit_contiguous(BERTH_F32, 3, t.out.view.dims);
    memcpy(expected.memory, t.out.memory, t.out.bytes + 2 * KIT_GUARD);
    // NaN in all that is behind the first 20 tokens' last key.
    for (int64_t j = 610; j < 640; ++j) {
        for (int64_t i = 0; i < 64; ++i) {
            kit_store(BERTH_F32, kit_at(&t.k.view, j * 64 + i), (double)NAN);
            kit_store(BERTH_F32, kit_at(&t.v.view, j * 64 + i), (double)INFINITY);
        }
    }
    run(&t);
    assert_memory_equal(t.out.view.data, expected.view.data, 20 * 4 * 32 * sizeof(float));
    kit_free(&expected);
    attention_fini(&t);
}

static void scratch_depends_on_shapes_and_workers_alone(void** state) {
    (void)state;
    const attention_case c = {1, 4, 2, 640, 32, 32, BERTH_F32, BERTH_F32, true, 590, true};
    attention_tensors t;
    attention_init(&t, &c);
    const uint64_t alone = berth_cpu_attention_scratch(&t.call);
    t.params.query_offset = 0;
    assert_int_equal(alone, berth_cpu_attention_scratch(&t.call));
    berth_team* team;
    assert_int_equal(berth_team_create(berth_host_default(), 2, &team), BERTH_OK);
    t.call.team = team;
    assert_true(berth_cpu_attention_scratch(&t.call) >= 2 * alone);
    berth_team_destroy(team);
    attention_fini(&t);
}

// --- ROPE ----------------------------------------------------------------------------------------

typedef struct rope_case {
    int64_t tokens, heads, depth;
    int32_t rotary;
    bool halves, divisors, in_place;
    berth_dtype dtype, position_dtype;
    double scale, last_position;
} rope_case;

static double rope_reference(const rope_case* c,
                             const berth_view* x,
                             const berth_view* positions,
                             const float* divisors,
                             int64_t token,
                             int64_t head,
                             int64_t d) {
    if (d >= c->rotary) return at3(x, token, head, d);
    const int64_t half = c->rotary / 2;
    const int64_t pair = c->halves ? d % half : d / 2;
    const bool is_second = c->halves ? d >= half : d % 2 == 1;
    const int64_t first_at = c->halves ? pair : 2 * pair;
    const int64_t second_at = c->halves ? pair + half : 2 * pair + 1;
    double angle = kit_get(positions, token) * c->scale *
                   pow(10000.0, -2.0 * (double)pair / (double)c->rotary);
    if (c->divisors) angle /= (double)divisors[pair];
    const double a = at3(x, token, head, first_at);
    const double b = at3(x, token, head, second_at);
    return is_second ? a * sin(angle) + b * cos(angle) : a * cos(angle) - b * sin(angle);
}

static void check_rope(const rope_case* c) {
    const int64_t dims[3] = {c->tokens, c->heads, c->depth};
    kit_tensor x = c->in_place ? kit_contiguous(c->dtype, 3, dims)
                               : kit_strided(c->dtype, 3, dims, true, false);
    kit_tensor positions = kit_contiguous(c->position_dtype, 1, dims);
    kit_tensor out = kit_contiguous(c->dtype, 3, dims);
    kit_fill(&x, -1, 1);
    kit_fill(&positions, 0, c->last_position);
    float divisors[256];
    for (int i = 0; i < 256; ++i)
        divisors[i] = (float)kit_real(1, 8);
    const int64_t half = c->rotary / 2;
    const berth_view divisor_view = {
        .data = divisors, .dtype = BERTH_F32, .rank = 1, .dims = {half}, .strides = {1}};
    const berth_rope_params params = {
        .base = 10000.0, .position_scale = c->scale, .rotary_dims = c->rotary, .halves = c->halves};
    berth_op_call call = {.input_count = c->divisors ? 3 : 2,
                          .inputs = {x.view, positions.view, divisor_view},
                          .params = &params};
    kit_run_everywhere(BERTH_OP_ROPE, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const int64_t row = i / c->depth;
        const double expected = rope_reference(
            c, &x.view, &positions.view, divisors, row / c->heads, row % c->heads, i % c->depth);
        kit_expect(&out.view, i, expected, kit_tolerance(c->dtype, expected, 0) + 3e-7);
    }
    if (c->in_place) {
        kit_run_everywhere(BERTH_OP_ROPE, &call, &x, true, true, NULL);
        assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
    }
    kit_free(&x);
    kit_free(&positions);
    kit_free(&out);
}

static void rotary_embedding_of_random_shapes_types_and_strides(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < 60; ++round) {
        const int64_t depth = kit_int(1, 90);
        const rope_case c = {
            .tokens = kit_int(0, 9),
            .heads = kit_int(1, 5),
            .depth = depth,
            .rotary = (int32_t)(2 * kit_int(0, depth / 2)),
            .halves = kit_int(0, 1) == 1,
            .divisors = kit_int(0, 2) == 0,
            .in_place = kit_int(0, 1) == 1,
            .dtype = floats[kit_int(0, 2)],
            .position_dtype = kit_int(0, 1) == 1 ? BERTH_I32 : BERTH_I64,
            .scale = kit_int(0, 1) == 1 ? 1.0 : 0.25,
            .last_position = 9000,
        };
        check_rope(&c);
    }
}

static void rotary_embedding_of_wide_heads_and_far_positions(void** state) {
    (void)state;
    kit_seed(7);
    const rope_case wide = {150, 3, 320, 300, true, true, true, BERTH_F32, BERTH_I64, 1.0, 1e5};
    check_rope(&wide);
    const rope_case pairs = {150, 3, 320, 320, false, false, true, BERTH_F32, BERTH_I32, 1.0, 1e5};
    check_rope(&pairs);
    // Angles that are reduced by the C library.
    const rope_case far = {5, 2, 8, 8, false, false, false, BERTH_F32, BERTH_I64, 1.0, 3e7};
    check_rope(&far);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_random_shapes_types_and_strides),
        cmocka_unit_test(attention_over_several_segments_of_keys),
        cmocka_unit_test(many_heads_may_share_one_kv_head),
        cmocka_unit_test(a_row_that_sees_no_key_gives_zeros),
        cmocka_unit_test(a_row_has_the_same_bits_alone_and_in_any_chunk),
        cmocka_unit_test(keys_that_a_row_does_not_see_never_reach_it),
        cmocka_unit_test(scratch_depends_on_shapes_and_workers_alone),
        cmocka_unit_test(rotary_embedding_of_random_shapes_types_and_strides),
        cmocka_unit_test(rotary_embedding_of_wide_heads_and_far_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
