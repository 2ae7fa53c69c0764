// SPDX-License-Identifier: Apache-2.0
// Random tensor programs.
#include "program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "exec/exec_impl.h"
#include "random.h"

enum {
    SLOTS = 12,     ///< tensors that a step's ops choose from
    KEPT = 10,      ///< tensors that live on across steps
    KINDS = 3,      ///< kinds of step; a kind may nest lower ones
    MAX_OPS = 24,   ///< ops a step, nested ones not counted
    LONGEST = 24,   ///< largest symbol value
    LARGEST = 2000, ///< elements of a tensor that is kept in play
    WIDEST = 500,   ///< longest row that goes into a product
};

typedef struct program {
    berth_runtime* runtime;
    berth_context* ctx;
    berth_context* other; ///< a second context that now and then reads the first one's tensors
    uint64_t seed;
    test_random choices;   ///< differs from run to run: lengths, branches, who is kept
    test_random structure; ///< the same at every run of a kind
    berth_tensor* slots[SLOTS];
    berth_tensor* kept[KEPT];
    bool is_mapped[KEPT];
    int64_t n;
    int64_t m;
    program_result result;
} program;

static void fail_program(program* p, const char* format, ...) BERTH_PRINTF(2, 3);

static void fail_program(program* p, const char* format, ...) {
    if (p->result.failure[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->result.failure, sizeof p->result.failure, format, arguments);
    va_end(arguments);
}

static uint32_t pick(program* p, uint32_t bound) {
    return (uint32_t)test_random_below(&p->structure, bound);
}

static bool may(program* p, uint32_t one_in) { return test_random_one_in(&p->structure, one_in); }

/// A dimension as the step's inputs give it.
static int64_t pick_dim(program* p) {
    switch (pick(p, 8)) {
    case 0:
        return p->n;
    case 1:
        return p->m;
    case 2:
        return p->n + 1;
    case 3:
        return 2 * p->n;
    case 4:
        return (p->n + 7) / 8;
    case 5:
        return p->n + p->m;
    case 6:
        return 4;
    default:
        return 7;
    }
}

/// Reads a tensor into the digest.
static void digest(program* p, berth_tensor* x) {
    if (x == NULL) return;
    const uint64_t bytes = berth_tensor_bytes(x);
    unsigned char* buffer = malloc(bytes + 1);
    if (buffer == NULL) {
        fail_program(p, "no memory for the check itself");
        return;
    }
    if (berth_tensor_read(x, buffer, bytes) != BERTH_OK) {
        fail_program(p, "read: %s", berth_last_error());
    } else {
        p->result.digest = berth_hash64(buffer, bytes, p->result.digest);
    }
    free(buffer);
}

static bool overlap(const berth_tensor* a, const berth_tensor* b) {
    const berth_storage *s = a->storage, *t = b->storage;
    return s != t && s->size_bytes > 0 && t->size_bytes > 0 && s->data < t->data + t->size_bytes &&
           t->data < s->data + s->size_bytes;
}

/// Storages that are alive never overlap.
static void check_overlap(program* p, const berth_tensor* x) {
    if (x == NULL) return;
    for (size_t i = 0; i < SLOTS; ++i)
        if (p->slots[i] != NULL && overlap(x, p->slots[i]))
            fail_program(p, "a new tensor lies over slot %zu", i);
    for (size_t i = 0; i < KEPT; ++i)
        if (p->kept[i] != NULL && overlap(x, p->kept[i]))
            fail_program(p, "a new tensor lies over kept tensor %zu", i);
}

/// Puts an op's result into a slot; what was there is released.
static void put(program* p, uint32_t slot, berth_tensor* x) {
    ++p->result.ops;
    check_overlap(p, x);
    berth_release(p->slots[slot]);
    p->slots[slot] = x;
}

static berth_tensor* make(program* p, int32_t rank, const int64_t* dims) {
    const uint64_t seed = pick(p, 1000);
    return berth_rand(p->ctx, seed, -1, 1, BERTH_F32, rank, dims);
}

/// A slot that holds a tensor, filled if it was empty.
static uint32_t pick_slot(program* p) {
    const uint32_t slot = pick(p, SLOTS);
    const int32_t rank = 1 + (int32_t)pick(p, 2);
    const int64_t dims[2] = {pick_dim(p), pick_dim(p)};
    if (p->slots[slot] == NULL) put(p, slot, make(p, rank, dims));
    return slot;
}

/// The slot's tensor as an operand: handed over now and then, then the slot is empty.
static berth_tensor* operand(program* p, uint32_t slot) {
    berth_tensor* x = p->slots[slot];
    if (!may(p, 2)) return x;
    p->slots[slot] = NULL;
    return berth_move(x);
}

/// A tensor that broadcasts with x.
static berth_tensor* companion(program* p, const berth_tensor* x) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = berth_tensor_rank(x);
    for (int32_t i = 0; i < rank; ++i)
        dims[i] = may(p, 4) ? 1 : berth_tensor_dim(x, i);
    return make(p, rank, dims);
}

static void run_elementwise(program* p, uint32_t slot) {
    berth_tensor* (*const unary[])(berth_context*, berth_tensor*) = {berth_neg,
                                                                     berth_abs,
                                                                     berth_sign,
                                                                     berth_relu,
                                                                     berth_floor,
                                                                     berth_ceil,
                                                                     berth_round,
                                                                     berth_sin,
                                                                     berth_cos,
                                                                     berth_tanh,
                                                                     berth_silu,
                                                                     berth_gelu,
                                                                     berth_sigmoid,
                                                                     berth_gelu_tanh,
                                                                     berth_copy};
    berth_tensor* (*const binary[])(berth_context*, berth_tensor*, berth_tensor*) = {
        berth_add, berth_sub, berth_mul, berth_maximum, berth_minimum};
    const uint32_t to = pick(p, SLOTS);
    if (may(p, 2)) {
        const uint32_t op = pick(p, sizeof unary / sizeof unary[0]);
        put(p, to, unary[op](p->ctx, operand(p, slot)));
        return;
    }
    berth_tensor* b = companion(p, p->slots[slot]);
    const uint32_t op = pick(p, 5);
    const bool moves_b = may(p, 2);
    put(p, to, binary[op](p->ctx, operand(p, slot), moves_b ? berth_move(b) : b));
    if (!moves_b) berth_release(b);
}

static void run_reduction(program* p, uint32_t slot) {
    berth_tensor* x = p->slots[slot];
    const int32_t dim = (int32_t)pick(p, 2) - 1; // the last or the first
    const uint32_t op = pick(p, 4);
    const uint32_t to = pick(p, SLOTS);
    if (op == 0) {
        put(p, to, berth_softmax(p->ctx, operand(p, slot), dim));
    } else if (op == 1) {
        const int64_t last = berth_tensor_dim(x, -1);
        berth_tensor* weight = make(p, 1, &last);
        put(p, to, berth_rms_norm(p->ctx, operand(p, slot), weight, 1e-5f));
        berth_release(weight);
    } else if (op == 2) {
        put(p, to, berth_sum(p->ctx, operand(p, slot), BERTH_DIMS(dim), true));
    } else if (berth_tensor_count(x) > 0) {
        berth_tensor* index = berth_argmax(p->ctx, x, dim, false);
        digest(p, index);
        berth_release(index);
    }
}

/// Sorted tensors, and some whose length depends on what is in them.
static void run_sort(program* p, uint32_t slot) {
    berth_tensor* x = p->slots[slot];
    const uint32_t to = pick(p, SLOTS);
    const uint32_t op = pick(p, 5);
    const bool turn = may(p, 2);
    berth_tensor* more = NULL;
    if (op == 0) {
        put(p, to, berth_sort(p->ctx, operand(p, slot), -1, turn, NULL));
    } else if (op == 1) {
        const int64_t last = berth_tensor_dim(x, -1);
        put(p, to, berth_topk(p->ctx, operand(p, slot), (last + 1) / 2, -1, turn, &more));
    } else if (op == 2) {
        berth_tensor* mask = berth_cast(p->ctx, berth_move(berth_relu(p->ctx, x)), BERTH_BOOL);
        put(p, to, berth_masked_select(p->ctx, operand(p, slot), berth_move(mask)));
    } else if (op == 3) {
        put(p, to, berth_unique(p->ctx, operand(p, slot), turn ? &more : NULL, NULL));
    } else {
        more = berth_nonzero(p->ctx, x);
    }
    digest(p, more);
    berth_release(more);
}

static void run_product(program* p, uint32_t slot) {
    const int64_t inner = berth_tensor_dim(p->slots[slot], -1);
    const uint32_t to = pick(p, SLOTS);
    const int64_t dims[2] = {pick_dim(p), inner};
    if (inner > WIDEST) return;
    berth_tensor* weight = make(p, 2, dims);
    put(p, to, berth_linear(p->ctx, operand(p, slot), weight, NULL));
    berth_release(weight);
}

static void run_view(program* p, uint32_t slot) {
    const uint32_t to = pick(p, SLOTS);
    const uint32_t op = pick(p, 4);
    const int64_t flat = -1;
    if (op == 0) {
        const int64_t first = pick(p, 3);
        put(p,
            to,
            berth_slice(p->ctx, operand(p, slot), 0, first, INT64_MAX, 1 + (int64_t)pick(p, 2)));
    } else if (op == 1) {
        put(p, to, berth_transpose(p->ctx, operand(p, slot), 0, -1));
    } else if (op == 2) {
        put(p, to, berth_reshape(p->ctx, operand(p, slot), 1, &flat));
    } else {
        put(p, to, berth_contiguous(p->ctx, operand(p, slot)));
    }
    // products and norms want dense rows
    berth_tensor* view = p->slots[to];
    p->slots[to] = NULL;
    if (view != NULL) put(p, to, berth_contiguous(p->ctx, berth_move(view)));
}

static void run_layout(program* p, uint32_t slot) {
    const uint32_t to = pick(p, SLOTS);
    const uint32_t op = pick(p, 3);
    if (op == 0) {
        berth_tensor* both[2] = {p->slots[slot], p->slots[slot]};
        put(p, to, berth_cat(p->ctx, both, 2, 0));
    } else if (op == 1) {
        berth_tensor* half = berth_cast(p->ctx, operand(p, slot), BERTH_F16);
        put(p, to, berth_cast(p->ctx, berth_move(half), BERTH_F32));
    } else if (berth_tensor_dim(p->slots[slot], 0) > 0) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = berth_tensor_rank(p->slots[slot]);
        for (int32_t i = 0; i < rank; ++i)
            dims[i] = berth_tensor_dim(p->slots[slot], i);
        dims[0] = 1;
        berth_tensor* row = make(p, rank, dims);
        berth_tensor* index = berth_full(p->ctx, 0, BERTH_I32, 1, &(int64_t){1});
        put(p, to, berth_index_copy(p->ctx, operand(p, slot), 0, index, row));
        berth_release_all(row, index);
    }
}

/// Reads and writes by an index that is in range by the way it is made.
static void run_index(program* p, uint32_t slot) {
    berth_tensor* x = p->slots[slot];
    const uint32_t to = pick(p, SLOTS);
    const uint32_t op = pick(p, 4);
    berth_tensor* index = op == 3 ? berth_arange(p->ctx, 0, 1, 1, BERTH_I32)
                                  : berth_argsort(p->ctx, x, -1, may(p, 2));
    if (op == 0) {
        put(p, to, berth_gather(p->ctx, operand(p, slot), -1, index));
    } else if (op == 1) {
        // the source is the target
        put(p, to, berth_scatter_add(p->ctx, operand(p, slot), -1, index, x));
    } else if (op == 2) {
        berth_tensor* y = companion(p, x);
        berth_tensor* whole = berth_add(p->ctx, x, berth_move(y));
        put(p, to, berth_scatter(p->ctx, operand(p, slot), -1, index, berth_move(whole)));
    } else if (berth_tensor_dim(x, 0) > 0) {
        put(p, to, berth_index_select(p->ctx, operand(p, slot), 0, index));
    }
    berth_release(index);
}

/// The same elements and a few more, elsewhere.
static void run_arrangement(program* p, uint32_t slot) {
    enum { PARTS = 11 }; // more than one op joins
    berth_tensor* x = p->slots[slot];
    const uint32_t to = pick(p, SLOTS);
    const uint32_t op = pick(p, 5);
    if (op == 0) {
        put(p, to, berth_roll(p->ctx, operand(p, slot), 1 + (int64_t)pick(p, 5), -1));
    } else if (op == 1) {
        const int64_t pads[2] = {1, pick(p, 3)};
        put(p, to, berth_pad(p->ctx, operand(p, slot), 2, pads, 0.5));
    } else if (op == 2) {
        int64_t times[BERTH_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        times[0] = 2;
        put(p, to, berth_repeat(p->ctx, operand(p, slot), berth_tensor_rank(x), times));
    } else if (op == 3 && berth_tensor_rank(x) >= 2) {
        put(p, to, berth_tril(p->ctx, operand(p, slot), (int64_t)pick(p, 3) - 1));
    } else if (berth_tensor_count(x) * PARTS < LARGEST) {
        berth_tensor* parts[PARTS];
        for (size_t i = 0; i < PARTS; ++i)
            parts[i] = x;
        berth_tensor* all = berth_stack(p->ctx, parts, PARTS, 0);
        put(p, to, berth_reshape(p->ctx, berth_move(all), 1, &(int64_t){-1}));
    }
}

/// Another context reads a tensor of the first one's; the result belongs to it.
static void run_elsewhere(program* p, uint32_t slot) {
    berth_tensor* y = berth_affine(p->other, p->slots[slot], 0.5f, 1);
    check_overlap(p, y);
    if (may(p, 2)) digest(p, y);
    berth_release(y);
    if (berth_context_error(p->other) != BERTH_OK)
        fail_program(p, "other context: %s", berth_context_error_text(p->other));
}

/// Keeps a tensor beyond its step, maps it now and then; or gives up one that was kept. Not part of
/// the step's structure.
static void juggle_kept(program* p, uint32_t slot) {
    const uint32_t at = (uint32_t)test_random_below(&p->choices, KEPT);
    if (p->kept[at] != NULL) {
        if (test_random_one_in(&p->choices, 2)) digest(p, p->kept[at]);
        if (p->is_mapped[at]) berth_tensor_unmap(p->kept[at]);
        berth_release(p->kept[at]);
        p->kept[at] = NULL;
        p->is_mapped[at] = false;
    } else if (p->slots[slot] != NULL && test_random_one_in(&p->choices, 3)) {
        p->kept[at] = berth_retain(p->slots[slot]);
        void* data;
        p->is_mapped[at] =
            test_random_one_in(&p->choices, 4) && berth_tensor_map(p->kept[at], &data) == BERTH_OK;
    }
}

static void run_op(program* p) {
    const uint32_t slot = pick_slot(p);
    if (p->slots[slot] == NULL) return; // an error sticks
    switch (pick(p, 13)) {
    case 0:
    case 1:
    case 2:
    case 3:
        run_elementwise(p, slot);
        break;
    case 4:
        run_reduction(p, slot);
        break;
    case 5:
        run_product(p, slot);
        break;
    case 6:
        run_view(p, slot);
        break;
    case 7:
        run_layout(p, slot);
        break;
    case 8:
        run_sort(p, slot);
        break;
    case 9:
        run_index(p, slot);
        break;
    case 10:
        run_arrangement(p, slot);
        break;
    case 11:
        berth_release(p->slots[slot]);
        p->slots[slot] = NULL;
        break;
    default:
        run_elsewhere(p, slot);
        break;
    }
    if (test_random_one_in(&p->choices, 6)) juggle_kept(p, slot);
}

/// Tensors grow by cat and products; the programs are to stay small.
static void drop_large(program* p) {
    for (size_t i = 0; i < SLOTS; ++i) {
        if (p->slots[i] == NULL || berth_tensor_count(p->slots[i]) < LARGEST) continue;
        berth_release(p->slots[i]);
        p->slots[i] = NULL;
    }
}

static void run_step(program* p, uint32_t kind, uint32_t depth);

static void run_body(program* p, uint32_t kind, uint32_t depth) {
    const uint32_t ops = 4 + pick(p, MAX_OPS - 4);
    const uint32_t nest_at = pick(p, 2 * MAX_OPS);
    const uint32_t branch_at = pick(p, 3 * MAX_OPS);
    for (uint32_t i = 0; i < ops; ++i) {
        if (i == nest_at && kind > 0 && depth < 2) run_step(p, pick(p, kind), depth + 1);
        if (i == branch_at && test_random_one_in(&p->choices, 3)) {
            const test_random saved = p->structure;
            run_op(p);
            p->structure = saved;
        }
        run_op(p);
        drop_large(p);
    }
}

/// One run of a step. Its slots are its own: nested steps do not see their parent's.
static void run_step(program* p, uint32_t kind, uint32_t depth) {
    static const char* const names[KINDS] = {"zero", "one", "two"};
    const test_random saved = p->structure;
    berth_tensor* outer[SLOTS];
    memcpy(outer, p->slots, sizeof outer);
    memset(p->slots, 0, sizeof p->slots);
    p->structure = test_random_make(p->seed * KINDS + kind + 1);
    const berth_step_input inputs[1] = {{.name = "x", .rank = 1, .dims = &p->n}};
    const berth_step_integer integers[1] = {{.name = "m", .value = p->m}};
    const berth_step_desc desc = {.name = names[kind],
                                  .inputs = inputs,
                                  .input_count = 1,
                                  .integers = integers,
                                  .integer_count = 1};
    if (berth_step_begin(p->ctx, &desc) != BERTH_OK) {
        fail_program(p, "begin: %s", berth_last_error());
    } else {
        run_body(p, kind, depth);
        for (size_t i = 0; i < SLOTS; ++i)
            if (p->slots[i] != NULL && (i % 3 == 0 || depth > 0)) digest(p, p->slots[i]);
        const bool ends_before_release = test_random_one_in(&p->choices, 2);
        if (ends_before_release && berth_step_end(p->ctx) != BERTH_OK)
            fail_program(p, "end: %s", berth_last_error());
        for (size_t i = 0; i < SLOTS; ++i) {
            if (ends_before_release) digest(p, p->slots[i]);
            berth_release(p->slots[i]);
        }
        if (!ends_before_release && berth_step_end(p->ctx) != BERTH_OK)
            fail_program(p, "end: %s", berth_last_error());
    }
    memcpy(p->slots, outer, sizeof outer);
    p->structure = saved;
}

static void release_kept(program* p) {
    for (size_t i = 0; i < KEPT; ++i) {
        if (p->kept[i] == NULL) continue;
        digest(p, p->kept[i]);
        if (p->is_mapped[i]) berth_tensor_unmap(p->kept[i]);
        berth_release(p->kept[i]);
        p->kept[i] = NULL;
    }
}

/// Nothing is out, promised or mapped once everything has been given up.
static void check_books(program* p) {
    if (p->ctx->home.live_objects != 0)
        fail_program(p, "%" PRIu64 " objects are left", p->ctx->home.live_objects);
    if (p->ctx->home.overdue.count != 0)
        fail_program(p, "%zu stretches are kept clear", p->ctx->home.overdue.count);
    if (!berth_pool_is_valid(p->ctx->home.pool)) fail_program(p, "the pool is not valid");
    if (berth_context_synchronize(p->ctx) != BERTH_OK ||
        berth_context_synchronize(p->other) != BERTH_OK ||
        berth_trim(p->runtime, 0, NULL) != BERTH_OK)
        fail_program(p, "closing: %s", berth_last_error());
    berth_memory_stats stats;
    if (berth_runtime_query_memory(p->runtime, &stats) != BERTH_OK)
        fail_program(p, "statistics: %s", berth_last_error());
    if (stats.mapped_bytes != 0 || stats.reserved_bytes != 0 || stats.requested_bytes != 0)
        fail_program(p,
                     "%" PRIu64 " bytes mapped, %" PRIu64 " promised, %" PRIu64 " out",
                     stats.mapped_bytes,
                     stats.reserved_bytes,
                     stats.requested_bytes);
}

static void count_steps(program* p) {
    const size_t kinds = berth_runtime_query_step_count(p->runtime);
    for (size_t i = 0; i < kinds; ++i) {
        const char* name;
        berth_step_counters counters;
        if (berth_runtime_query_step(p->runtime, i, &name, &counters) != BERTH_OK) continue;
        p->result.hits += counters.hits;
        p->result.exits += counters.side_exits;
    }
}

program_result program_run(uint64_t seed,
                           uint32_t runs,
                           const berth_option_setting* settings,
                           size_t count) {
    program p = {.seed = seed, .choices = test_random_make(~seed)};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = count};
    if (berth_runtime_create(&options, &p.runtime) != BERTH_OK ||
        berth_context_create(p.runtime, &p.ctx) != BERTH_OK ||
        berth_context_create(p.runtime, &p.other) != BERTH_OK) {
        fail_program(&p, "creation: %s", berth_last_error());
    } else {
        for (uint32_t run = 0; run < runs && p.result.failure[0] == '\0'; ++run) {
            p.n = 1 + (int64_t)test_random_below(&p.choices, LONGEST);
            p.m = test_random_one_in(&p.choices, 8) ? 5 : 3;
            run_step(&p, (uint32_t)test_random_below(&p.choices, KINDS), 0);
            if (berth_context_error(p.ctx) != BERTH_OK)
                fail_program(&p, "op: %s", berth_context_error_text(p.ctx));
        }
        release_kept(&p);
        check_books(&p);
        count_steps(&p);
    }
    berth_context_release(p.other);
    berth_context_release(p.ctx);
    berth_runtime_release(p.runtime);
    return p.result;
}
