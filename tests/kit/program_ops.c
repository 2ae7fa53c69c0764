// SPDX-License-Identifier: Apache-2.0
// What a random program does to its slots: every op of the table, every view, a registered op.
//
// All random numbers of an op are drawn before shapes decide anything, so that a kind of step draws
// the same ops whatever its lengths are.
#include <string.h>

#include "exec/exec_impl.h"
#include "program_internal.h"

enum {
    WIDEST = 500, ///< longest row that goes into a product
    LARGE = 1000, ///< elements of a tensor that is not made any larger
    HIGHEST = 5,  ///< rank of a tensor that gets no more dimensions
    HEAD = 8,     ///< size of an attention head
};

/// Kinds of element that an op takes.
enum {
    F = 1u << BERTH_DTYPE_KIND_F,
    N = F | 1u << BERTH_DTYPE_KIND_I | 1u << BERTH_DTYPE_KIND_U,
    P = N | 1u << BERTH_DTYPE_KIND_B,
};

typedef struct drawn drawn;

/// An op that can be drawn, and how to call it on a slot.
struct drawn {
    berth_op_id id;
    uint32_t kinds;
    void (*run)(program* p, const drawn* op, uint32_t slot);
    berth_tensor* (*one)(berth_context* ctx, berth_tensor* x);
    berth_tensor* (*two)(berth_context* ctx, berth_tensor* a, berth_tensor* b);
    berth_tensor* (*fold)(berth_context* ctx, berth_tensor* x, berth_dims dims, bool keepdim);
    berth_tensor* (*along)(berth_context* ctx, berth_tensor* x, int32_t dim);
    berth_tensor* (*find)(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);
};

// --- Operands ------------------------------------------------------------------------------------

/// A dimension as the step's inputs give it.
static int64_t pick_dim(program* p) {
    switch (program_pick(p, 8)) {
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

static void note(program* p, berth_op_id id, const berth_tensor* result) {
    if (result != NULL) ++p->result.drawn[id];
}

/// A tensor of numbers; mostly f32.
static berth_tensor* make(program* p, int32_t rank, const int64_t* dims) {
    const uint64_t seed = program_pick(p, 1000);
    const uint32_t dtype = program_pick(p, 16);
    berth_op_id id = BERTH_OP_RANDINT;
    berth_tensor* x;
    switch (dtype) {
    case 0:
        id = BERTH_OP_RANDN;
        x = berth_randn(p->ctx, seed, 0, 1, BERTH_F16, rank, dims);
        break;
    case 1:
        id = BERTH_OP_RAND;
        x = berth_rand(p->ctx, seed, -1, 1, BERTH_BF16, rank, dims);
        break;
    case 2:
        x = berth_randint(p->ctx, seed, -5, 6, BERTH_I32, rank, dims);
        break;
    case 3:
        x = berth_randint(p->ctx, seed, -5, 6, BERTH_I64, rank, dims);
        break;
    case 4:
        x = berth_randint(p->ctx, seed, -5, 6, BERTH_I8, rank, dims);
        break;
    case 5:
        x = berth_randint(p->ctx, seed, 0, 9, BERTH_U8, rank, dims);
        break;
    case 6: {
        berth_tensor* bits = berth_randint(p->ctx, seed, 0, 2, BERTH_U8, rank, dims);
        x = berth_cast(p->ctx, berth_move(bits), BERTH_BOOL);
        break;
    }
    default:
        id = BERTH_OP_RAND;
        x = berth_rand(p->ctx, seed, -1, 1, BERTH_F32, rank, dims);
        break;
    }
    note(p, id, x);
    return x;
}

static berth_tensor* make_f32(program* p, int32_t rank, const int64_t* dims) {
    return berth_rand(p->ctx, program_pick(p, 1000), -1, 1, BERTH_F32, rank, dims);
}

/// Indices below `size`, none for a size of 0.
static berth_tensor* make_index(program* p, int64_t size, int32_t rank, const int64_t* dims) {
    const uint64_t seed = program_pick(p, 1000);
    const berth_dtype dtype = program_may(p, 2) ? BERTH_I32 : BERTH_I64;
    return berth_randint(p->ctx, seed, 0, size > 0 ? size : 1, dtype, rank, dims);
}

/// A slot that holds a tensor, filled if it was empty.
static uint32_t pick_slot(program* p) {
    const uint32_t slot = program_pick(p, PROGRAM_SLOTS);
    const int32_t rank = 1 + (int32_t)program_pick(p, 3);
    const int64_t dims[3] = {pick_dim(p), pick_dim(p), 2};
    const test_random before = p->structure;
    berth_tensor* x = make(p, rank, dims);
    if (p->slots[slot] == NULL) {
        program_put(p, slot, x);
    } else {
        berth_release(x);
        p->structure = before;
    }
    return slot;
}

/// The slot's tensor as an operand: handed over now and then, then the slot is empty. Of a kind
/// that the op does not take, a copy as f32.
static berth_tensor* take(program* p, uint32_t slot, uint32_t kinds) {
    berth_tensor* x = p->slots[slot];
    const bool moves = program_may(p, 2);
    const bool is_taken = (kinds >> berth_dtype_query_info(berth_tensor_dtype(x))->kind & 1u) != 0;
    if (!is_taken) {
        berth_tensor* wide = berth_cast(p->ctx, x, BERTH_F32);
        note(p, BERTH_OP_CAST, wide);
        return berth_move(wide);
    }
    if (!moves) return x;
    p->slots[slot] = NULL;
    return berth_move(x);
}

static int32_t rank_of(const program* p, uint32_t slot) {
    return berth_tensor_rank(p->slots[slot]);
}

static int64_t count_of(const program* p, uint32_t slot) {
    return berth_tensor_count(p->slots[slot]);
}

/// One of the tensor's dimensions, from either end.
static int32_t choose_dim(int32_t rank, uint32_t random) {
    if (rank == 0) return 0;
    const int32_t dim = (int32_t)(random / 2 % (uint32_t)rank);
    return random % 2 == 0 ? dim : dim - rank;
}

/// A tensor that broadcasts with x.
static berth_tensor* companion(program* p, const berth_tensor* x) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = berth_tensor_rank(x);
    const uint32_t ones = program_pick(p, 1u << BERTH_MAX_RANK);
    for (int32_t i = 0; i < rank; ++i)
        dims[i] = (ones >> i & 3u) == 3 ? 1 : berth_tensor_dim(x, i);
    return make(p, rank, dims);
}

/// Puts the result of an op away and counts it.
static void finish(program* p, const drawn* op, berth_tensor* x) {
    note(p, op->id, x);
    program_put(p, program_pick(p, PROGRAM_SLOTS), x);
}

// --- Families ------------------------------------------------------------------------------------

static void run_one(program* p, const drawn* op, uint32_t slot) {
    finish(p, op, op->one(p->ctx, take(p, slot, op->kinds)));
}

static void run_two(program* p, const drawn* op, uint32_t slot) {
    berth_tensor* b = companion(p, p->slots[slot]);
    if (b != NULL && (op->kinds >> berth_dtype_query_info(berth_tensor_dtype(b))->kind & 1u) == 0)
        b = berth_cast(p->ctx, berth_move(b), BERTH_F32);
    const bool moves_b = program_may(p, 2);
    const bool is_second = program_may(p, 2);
    berth_tensor* x = take(p, slot, op->kinds);
    berth_tensor* y = moves_b ? berth_move(b) : b;
    finish(p, op, is_second ? op->two(p->ctx, y, x) : op->two(p->ctx, x, y));
    if (!moves_b) berth_release(b);
}

static berth_dims choose_dims(program* p, int32_t rank) {
    const uint32_t mask = program_pick(p, 1u << BERTH_MAX_RANK);
    berth_dims dims = {0};
    for (int32_t d = 0; d < rank; ++d)
        if ((mask >> d & 1u) != 0) dims.dims[dims.count++] = (mask & 1u) != 0 ? d : d - rank;
    return dims;
}

static void run_fold(program* p, const drawn* op, uint32_t slot) {
    const berth_dims dims = choose_dims(p, rank_of(p, slot));
    const bool keepdim = program_may(p, 2);
    if (count_of(p, slot) == 0) return;
    finish(p, op, op->fold(p->ctx, take(p, slot, op->kinds), dims, keepdim));
}

static void run_along(program* p, const drawn* op, uint32_t slot) {
    const int32_t dim = choose_dim(rank_of(p, slot), program_pick(p, 64));
    if (rank_of(p, slot) == 0) return;
    finish(p, op, op->along(p->ctx, take(p, slot, op->kinds), dim));
}

static void run_find(program* p, const drawn* op, uint32_t slot) {
    const int32_t dim = choose_dim(rank_of(p, slot), program_pick(p, 64));
    const bool keepdim = program_may(p, 2);
    if (rank_of(p, slot) == 0 || count_of(p, slot) == 0) return;
    finish(p, op, op->find(p->ctx, take(p, slot, op->kinds), dim, keepdim));
}

// --- Elementwise with parameters, creation -------------------------------------------------------

static void run_fill(program* p, const drawn* op, uint32_t slot) {
    (void)slot;
    const int64_t dims[2] = {pick_dim(p), pick_dim(p)};
    finish(p, op, berth_full(p->ctx, program_pick(p, 100), BERTH_F32, 2, dims));
}

static void run_arange(program* p, const drawn* op, uint32_t slot) {
    (void)slot;
    const double stop = (double)pick_dim(p);
    finish(p, op, berth_arange(p->ctx, 0, stop, 0.5, BERTH_F32));
}

static void run_affine(program* p, const drawn* op, uint32_t slot) {
    finish(p, op, berth_affine(p->ctx, take(p, slot, op->kinds), 0.5f, 1));
}

static void run_clamp(program* p, const drawn* op, uint32_t slot) {
    finish(p, op, berth_clamp(p->ctx, take(p, slot, op->kinds), -0.5, 3));
}

static void run_cast(program* p, const drawn* op, uint32_t slot) {
    static const berth_dtype types[] = {
        BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
    finish(p, op, berth_cast(p->ctx, take(p, slot, op->kinds), types[program_pick(p, 8)]));
}

static void run_where(program* p, const drawn* op, uint32_t slot) {
    berth_tensor* other = companion(p, p->slots[slot]);
    berth_tensor* zero = berth_full(p->ctx, 0, BERTH_F32, 0, NULL);
    berth_tensor* condition = berth_gt(p->ctx, p->slots[slot], berth_move(zero));
    finish(p,
           op,
           berth_where(p->ctx, berth_move(condition), take(p, slot, op->kinds), berth_move(other)));
}

static void run_outer(program* p, const drawn* op, uint32_t slot) {
    const int64_t columns = pick_dim(p);
    berth_tensor* b = make(p, 1, &columns);
    berth_tensor* a = berth_reshape(p->ctx, take(p, slot, op->kinds), 1, &(int64_t){-1});
    a = berth_slice(p->ctx, berth_move(a), 0, 0, 20, 1);
    finish(p, op, berth_outer(p->ctx, berth_move(a), berth_move(b)));
}

static void run_noop(program* p, const drawn* op, uint32_t slot) {
    // its output is not defined unless it is in place: only its size is looked at
    berth_tensor* const operands[1] = {p->slots[slot]};
    berth_tensor* x = berth_dispatch(p->ctx, BERTH_OP_NOOP, operands, 1, NULL, 0);
    program_check_overlap(p, x);
    note(p, op->id, x);
    berth_release(x);
}

// --- Norms, products, attention ------------------------------------------------------------------

static void run_var(program* p, const drawn* op, uint32_t slot) {
    const berth_dims dims = choose_dims(p, rank_of(p, slot));
    const bool keepdim = program_may(p, 2);
    finish(p, op, berth_var(p->ctx, take(p, slot, op->kinds), dims, 1, keepdim));
}

static void run_norm(program* p, const drawn* op, uint32_t slot) {
    const int64_t last = berth_tensor_dim(p->slots[slot], -1);
    if (last < 1) return;
    berth_tensor* weight = make_f32(p, 1, &last);
    berth_tensor* x = take(p, slot, op->kinds);
    const berth_dtype dtype = berth_tensor_dtype(berth_untag(x));
    weight = berth_cast(p->ctx, berth_move(weight), dtype);
    finish(p,
           op,
           op->id == BERTH_OP_RMS_NORM ? berth_rms_norm(p->ctx, x, weight, 1e-5f)
                                       : berth_layer_norm(p->ctx, x, weight, weight, 1e-5f));
    berth_release(weight);
}

static void run_matmul(program* p, const drawn* op, uint32_t slot) {
    const int64_t columns = pick_dim(p);
    const int64_t inner = berth_tensor_dim(p->slots[slot], -1);
    if (rank_of(p, slot) == 0 || inner > WIDEST || count_of(p, slot) > LARGE) return;
    berth_tensor* b = make_f32(p, 2, (int64_t[]){inner, columns});
    berth_tensor* a = berth_cast(p->ctx, take(p, slot, op->kinds), BERTH_F32);
    finish(p, op, berth_matmul(p->ctx, berth_move(a), berth_move(b)));
}

static void run_linear(program* p, const drawn* op, uint32_t slot) {
    const int64_t rows = pick_dim(p);
    const int64_t inner = berth_tensor_dim(p->slots[slot], -1);
    if (rank_of(p, slot) == 0 || inner > WIDEST || count_of(p, slot) > LARGE) return;
    berth_tensor* weight = make_f32(p, 2, (int64_t[]){rows, inner});
    berth_tensor* x = berth_contiguous(p->ctx, take(p, slot, op->kinds));
    finish(p, op, berth_linear(p->ctx, berth_move(x), berth_move(weight), NULL));
}

static void run_rope(program* p, const drawn* op, uint32_t slot) {
    (void)slot;
    const int64_t tokens = pick_dim(p);
    berth_tensor* x = make_f32(p, 3, (int64_t[]){tokens, 2, HEAD});
    berth_tensor* positions = berth_arange(p->ctx, 0, (double)tokens, 1, BERTH_I32);
    finish(p, op, berth_rope(p->ctx, berth_move(x), berth_move(positions), NULL, NULL));
}

static void run_attention(program* p, const drawn* op, uint32_t slot) {
    (void)slot;
    const int64_t tokens = pick_dim(p), keys = pick_dim(p);
    berth_tensor* q = make_f32(p, 3, (int64_t[]){tokens, 4, HEAD});
    berth_tensor* k = make_f32(p, 3, (int64_t[]){keys, 2, HEAD});
    berth_tensor* v = make_f32(p, 3, (int64_t[]){keys, 2, HEAD});
    berth_tensor* mask = program_may(p, 2) ? make_f32(p, 2, (int64_t[]){tokens, keys}) : NULL;
    const bool causal = program_may(p, 2);
    finish(p,
           op,
           berth_attention(p->ctx,
                           berth_move(q),
                           berth_move(k),
                           berth_move(v),
                           mask != NULL ? berth_move(mask) : NULL,
                           0,
                           causal,
                           2));
}

/// One sequence, whose blocks lie in memory in descending order.
static void run_paged_attention(program* p, const drawn* op, uint32_t slot) {
    (void)slot;
    enum { BLOCK = 4 };
    const int64_t tokens = pick_dim(p), keys = tokens + pick_dim(p);
    const int64_t blocks = (keys + BLOCK - 1) / BLOCK;
    const int32_t row[4] = {0, (int32_t)tokens, (int32_t)keys, 0};
    berth_tensor* q = make_f32(p, 3, (int64_t[]){tokens, 4, HEAD});
    berth_tensor* k = make_f32(p, 4, (int64_t[]){blocks, BLOCK, 2, HEAD});
    berth_tensor* v = make_f32(p, 4, (int64_t[]){blocks, BLOCK, 2, HEAD});
    berth_tensor* rows = berth_from_data(p->ctx, row, BERTH_I32, 2, (int64_t[]){1, 4});
    berth_tensor* table = berth_arange(p->ctx, 0, (double)blocks, 1, BERTH_I32);
    table = berth_flip(p->ctx, berth_move(table), BERTH_DIMS(0));
    finish(p,
           op,
           berth_paged_attention(p->ctx,
                                 berth_move(q),
                                 berth_move(k),
                                 berth_move(v),
                                 berth_move(rows),
                                 berth_move(table),
                                 0));
}

// --- Layout and indices --------------------------------------------------------------------------

/// CAT and STACK; with many tensors the joining goes on in further ops.
static void run_join(program* p, const drawn* op, uint32_t slot) {
    const int32_t dim = choose_dim(rank_of(p, slot), program_pick(p, 64));
    const size_t count = program_may(p, 3) ? 11 : 2;
    const bool stacks = op->id == BERTH_OP_STACK;
    if (count_of(p, slot) > LARGE || rank_of(p, slot) >= HIGHEST) return;
    if (rank_of(p, slot) == 0 && !stacks) return;
    berth_tensor* all[11];
    for (size_t i = 0; i < count; ++i)
        all[i] = p->slots[slot];
    berth_tensor* x =
        stacks ? berth_stack(p->ctx, all, count, dim) : berth_cat(p->ctx, all, count, dim);
    if (count > BERTH_OP_MAX_INPUTS) note(p, stacks ? BERTH_OP_STACK_MORE : BERTH_OP_CAT_MORE, x);
    finish(p, op, x);
}

static void run_repeat(program* p, const drawn* op, uint32_t slot) {
    int64_t times[BERTH_MAX_RANK];
    const int32_t rank = rank_of(p, slot);
    for (int32_t d = 0; d < rank; ++d)
        times[d] = d == 0 ? 2 : 1;
    if (count_of(p, slot) > LARGE) return;
    finish(p, op, berth_repeat(p->ctx, take(p, slot, op->kinds), rank, times));
}

static void run_roll(program* p, const drawn* op, uint32_t slot) {
    const int32_t dim = choose_dim(rank_of(p, slot), program_pick(p, 64));
    const int64_t shift = (int64_t)program_pick(p, 7) - 3;
    if (rank_of(p, slot) == 0) return;
    finish(p, op, berth_roll(p->ctx, take(p, slot, op->kinds), shift, dim));
}

static void run_pad(program* p, const drawn* op, uint32_t slot) {
    const int64_t pads[2] = {program_pick(p, 3), program_pick(p, 3)};
    if (rank_of(p, slot) == 0) return;
    finish(p, op, berth_pad(p->ctx, take(p, slot, op->kinds), 2, pads, 1));
}

static void run_triangle(program* p, const drawn* op, uint32_t slot) {
    const int64_t diagonal = (int64_t)program_pick(p, 5) - 2;
    if (rank_of(p, slot) < 2) return;
    berth_tensor* x = take(p, slot, op->kinds);
    finish(p,
           op,
           op->id == BERTH_OP_TRIL ? berth_tril(p->ctx, x, diagonal)
                                   : berth_triu(p->ctx, x, diagonal));
}

static void run_embedding(program* p, const drawn* op, uint32_t slot) {
    (void)slot;
    const int64_t table_dims[2] = {pick_dim(p), 5};
    const int64_t ids_dims[1] = {pick_dim(p)};
    berth_tensor* table = make_f32(p, 2, table_dims);
    berth_tensor* ids = make_index(p, table_dims[0], 1, ids_dims);
    finish(p, op, berth_embedding(p->ctx, berth_move(table), berth_move(ids)));
}

/// GATHER, INDEX_SELECT and the ops that write where an index says.
static void run_index(program* p, const drawn* op, uint32_t slot) {
    const int32_t dim = choose_dim(rank_of(p, slot), program_pick(p, 64));
    const int32_t rank = rank_of(p, slot);
    const int64_t rows = pick_dim(p);
    if (rank == 0 || count_of(p, slot) == 0 || count_of(p, slot) > LARGE) return;
    int64_t dims[BERTH_MAX_RANK];
    for (int32_t d = 0; d < rank; ++d)
        dims[d] = berth_tensor_dim(p->slots[slot], d);
    const int64_t size = berth_tensor_dim(p->slots[slot], dim);
    dims[dim < 0 ? dim + rank : dim] = rows;
    const bool by_rows = op->id == BERTH_OP_INDEX_SELECT || op->id == BERTH_OP_INDEX_COPY;
    berth_tensor* index = make_index(p, size, by_rows ? 1 : rank, by_rows ? &rows : dims);
    berth_tensor* src = make_f32(p, rank, dims);
    berth_tensor* x = take(p, slot, op->kinds);
    src = berth_cast(p->ctx, berth_move(src), berth_tensor_dtype(berth_untag(x)));
    berth_tensor* result = NULL;
    if (op->id == BERTH_OP_GATHER) result = berth_gather(p->ctx, x, dim, index);
    if (op->id == BERTH_OP_TAKE_ALONG) result = berth_take_along(p->ctx, x, dim, index);
    if (op->id == BERTH_OP_INDEX_SELECT) result = berth_index_select(p->ctx, x, dim, index);
    if (op->id == BERTH_OP_INDEX_COPY) result = berth_index_copy(p->ctx, x, dim, index, src);
    if (op->id == BERTH_OP_SCATTER) result = berth_scatter(p->ctx, x, dim, index, src);
    if (op->id == BERTH_OP_SCATTER_ADD) result = berth_scatter_add(p->ctx, x, dim, index, src);
    finish(p, op, result);
    berth_release_all(index, src);
}

// --- Sorting, and sizes that depend on data ------------------------------------------------------

static void run_sort(program* p, const drawn* op, uint32_t slot) {
    const int32_t dim = choose_dim(rank_of(p, slot), program_pick(p, 64));
    const bool flag = program_may(p, 2);
    const uint32_t to = program_pick(p, PROGRAM_SLOTS);
    if (rank_of(p, slot) == 0) return;
    berth_tensor* indices = NULL;
    berth_tensor* x = take(p, slot, op->kinds);
    berth_tensor* values = NULL;
    if (op->id == BERTH_OP_SORT) values = berth_sort(p->ctx, x, dim, flag, &indices);
    if (op->id == BERTH_OP_ARGSORT) values = berth_argsort(p->ctx, x, dim, flag);
    if (op->id == BERTH_OP_TOPK) {
        const int64_t size = berth_tensor_dim(berth_untag(x), dim);
        values = berth_topk(p->ctx, x, size < 3 ? size : 3, dim, flag, &indices);
    }
    program_check_overlap(p, indices);
    finish(p, op, values);
    if (indices != NULL) program_put(p, to, indices);
}

static void run_masked_select(program* p, const drawn* op, uint32_t slot) {
    berth_tensor* zero = berth_full(p->ctx, 0, BERTH_F32, 0, NULL);
    berth_tensor* mask = berth_gt(p->ctx, p->slots[slot], berth_move(zero));
    finish(p, op, berth_masked_select(p->ctx, take(p, slot, op->kinds), berth_move(mask)));
}

static void run_unique(program* p, const drawn* op, uint32_t slot) {
    const uint32_t to = program_pick(p, PROGRAM_SLOTS);
    berth_tensor* inverse = NULL;
    finish(p, op, berth_unique(p->ctx, take(p, slot, op->kinds), &inverse, NULL));
    if (inverse != NULL) program_put(p, to, inverse);
}

// --- Views ---------------------------------------------------------------------------------------

static berth_tensor* flat(program* p, berth_tensor* x) {
    return berth_reshape(p->ctx, x, 1, &(int64_t){-1});
}

static berth_tensor* reversed(program* p, berth_tensor* x) {
    return berth_flip(p->ctx, x, BERTH_ALL_DIMS);
}

/// Every second element.
static berth_tensor* thinned(program* p, berth_tensor* x) {
    return berth_slice(p->ctx, x, -1, 0, INT64_MAX, 2);
}

static berth_tensor* swapped(program* p, berth_tensor* x) {
    return berth_transpose(p->ctx, x, 0, -1);
}

static berth_tensor* widened(program* p, berth_tensor* x) {
    const int32_t rank = berth_tensor_rank(berth_untag(x));
    if (rank >= HIGHEST || berth_tensor_count(berth_untag(x)) > LARGE) return flat(p, x);
    int64_t dims[BERTH_MAX_RANK] = {2};
    for (int32_t d = 0; d < rank; ++d)
        dims[d + 1] = -1;
    return berth_expand(p->ctx, x, rank + 1, dims);
}

static berth_tensor* squeezed(program* p, berth_tensor* x) {
    return berth_squeeze(p->ctx, x, BERTH_ALL_DIMS);
}

static berth_tensor* dense(program* p, berth_tensor* x) { return berth_contiguous(p->ctx, x); }

static void run_view(program* p, uint32_t slot) {
    berth_tensor* (*const views[])(program*, berth_tensor*) = {
        flat, reversed, thinned, swapped, widened, squeezed, dense};
    const uint32_t to = program_pick(p, PROGRAM_SLOTS);
    const uint32_t view = program_pick(p, 7);
    berth_tensor* x = take(p, slot, P);
    // a scalar has no dimension to slice or swap
    if (berth_tensor_rank(berth_untag(x)) == 0) x = flat(p, x), x = berth_move(x);
    program_put(p, to, views[view](p, x));
}

/// Cuts a tensor in parts that share its storage, and keeps two.
static void run_parts(program* p, uint32_t slot) {
    const uint32_t to[2] = {program_pick(p, PROGRAM_SLOTS), program_pick(p, PROGRAM_SLOTS)};
    berth_tensor* x = take(p, slot, P);
    if (berth_tensor_rank(berth_untag(x)) == 0) x = flat(p, x), x = berth_move(x);
    berth_tensor* parts[3];
    const size_t count = berth_chunk(p->ctx, x, 3, 0, parts);
    for (size_t i = 0; i < count; ++i) {
        if (i < 2) program_put(p, to[i], parts[i]);
        if (i >= 2) berth_release(parts[i]);
    }
}

// --- A registered op -----------------------------------------------------------------------------

static berth_status infer_own(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    if (x->dtype != BERTH_F32) return berth_op_fail(BERTH_ERR_UNSUPPORTED, "f32 alone");
    call->outputs[0].dtype = BERTH_F32;
    call->outputs[0].rank = x->rank;
    memcpy(call->outputs[0].dims, x->dims, (size_t)x->rank * sizeof x->dims[0]);
    return BERTH_OK;
}

static uint64_t scratch_own(const berth_op_call* call) {
    return (uint64_t)call->inputs[0].rank * sizeof(float);
}

/// y = 2 x + the number of dimensions, counted in the workspace.
static void kernel_own(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    float* work = call->scratch;
    for (int32_t d = 0; d < x->rank; ++d)
        work[d] = 1;
    int64_t index[BERTH_MAX_RANK] = {0};
    int64_t count = 1;
    float dims = 0;
    for (int32_t d = 0; d < x->rank; ++d) {
        count *= x->dims[d];
        dims += work[d];
    }
    float* out = call->outputs[0].data;
    for (int64_t i = 0; i < count; ++i) {
        int64_t at = 0;
        for (int32_t d = 0; d < x->rank; ++d)
            at += index[d] * x->strides[d];
        out[i] = 2 * ((const float*)x->data)[at] + dims;
        for (int32_t d = x->rank - 1; d >= 0 && ++index[d] == x->dims[d]; --d)
            index[d] = 0;
    }
}

/// What the device itself makes of `affine`.
static berth_kernel device_affine;

/// The same result where kernels are not the CPU's.
static void kernel_own_elsewhere(const berth_op_call* call) {
    const berth_affine_params params = {.scale = 2, .shift = (float)call->inputs[0].rank};
    berth_op_call affine = *call;
    affine.params = &params;
    device_affine(&affine);
}

berth_status program_register_own(program* p) {
    if (p->runtime->device->kind == BERTH_DEVICE_CUDA)
        device_affine = p->runtime->device->kernels[BERTH_OP_AFFINE];
    const berth_op_desc desc = {
        .struct_size = sizeof desc,
        .name = "twice_and_rank",
        .min_inputs = 1,
        .max_inputs = 1,
        .output_count = 1,
        .flags = BERTH_OP_IN_PLACE(0),
        .infer = infer_own,
        .scratch = scratch_own,
        .kernels = {[BERTH_DEVICE_CPU] = kernel_own, [BERTH_DEVICE_CUDA] = kernel_own_elsewhere},
    };
    return berth_op_register(p->runtime, &desc, &p->own);
}

static void run_own(program* p, uint32_t slot) {
    const uint32_t to = program_pick(p, PROGRAM_SLOTS);
    berth_tensor* x = berth_cast(p->ctx, take(p, slot, P), BERTH_F32);
    berth_tensor* const operands[1] = {berth_move(x)};
    program_put(p, to, berth_apply(p->ctx, p->own, operands, 1, NULL, 0, NULL));
}

/// Another context reads a tensor of the first one's; the result belongs to it.
static void run_elsewhere(program* p, uint32_t slot) {
    const bool reads = program_may(p, 2);
    berth_tensor* y = berth_copy(p->other, p->slots[slot]);
    program_check_overlap(p, y);
    if (reads) program_digest(p, y);
    berth_release(y);
    if (berth_context_error(p->other) != BERTH_OK) program_refuse(p, "other context");
}

// --- The table -----------------------------------------------------------------------------------

// clang-format off
#define DRAW(op, takes, how) .id = BERTH_OP_##op, .kinds = takes, .run = run_##how
#define ONE(op, takes, name) {DRAW(op, takes, one), .one = berth_##name}
#define TWO(op, takes, name) {DRAW(op, takes, two), .two = berth_##name}
#define FOLD(op, takes, name) {DRAW(op, takes, fold), .fold = berth_##name}
#define ALONG(op, takes, name) {DRAW(op, takes, along), .along = berth_##name}
#define FIND(op, takes, name) {DRAW(op, takes, find), .find = berth_##name}
#define OWN(op, takes, how) {DRAW(op, takes, how)}

static const drawn ops[] = {
    OWN(FILL, P, fill), OWN(ARANGE, P, arange), OWN(CAST, P, cast),
    OWN(AFFINE, F, affine), OWN(CLAMP, N, clamp), OWN(WHERE, P, where), OWN(NOOP, P, noop), OWN(OUTER, P, outer),
    ONE(COPY, P, copy), ONE(NEG, F, neg), ONE(ABS, N, abs), ONE(SIGN, N, sign), ONE(EXP, P, exp),
    ONE(LOG, P, log), ONE(LOG1P, P, log1p), ONE(SQRT, P, sqrt), ONE(RSQRT, P, rsqrt),
    ONE(RECIPROCAL, P, reciprocal), ONE(SIN, P, sin), ONE(COS, P, cos), ONE(TANH, P, tanh),
    ONE(SIGMOID, P, sigmoid), ONE(RELU, N, relu), ONE(GELU, F, gelu), ONE(GELU_TANH, F, gelu_tanh),
    ONE(SILU, F, silu), ONE(FLOOR, N, floor), ONE(CEIL, N, ceil), ONE(ROUND, N, round),
    ONE(LOGICAL_NOT, P, logical_not), ONE(ISNAN, P, isnan), ONE(ISINF, P, isinf),
    ONE(ISFINITE, P, isfinite),
    TWO(ADD, P, add), TWO(SUB, N, sub), TWO(MUL, P, mul), TWO(DIV, P, div),
    TWO(REMAINDER, N, remainder), TWO(POW, N, pow), TWO(MINIMUM, P, minimum),
    TWO(MAXIMUM, P, maximum), TWO(EQ, P, eq), TWO(NE, P, ne), TWO(LT, P, lt), TWO(LE, P, le),
    TWO(GT, P, gt), TWO(GE, P, ge), TWO(LOGICAL_AND, P, logical_and),
    TWO(LOGICAL_OR, P, logical_or), TWO(LOGICAL_XOR, P, logical_xor),
    FOLD(SUM, P, sum), FOLD(MEAN, F, mean), FOLD(MAX, P, max), FOLD(MIN, P, min),
    FOLD(PROD, P, prod), FOLD(ANY, P, any), FOLD(ALL, P, all), FOLD(LOGSUMEXP, F, logsumexp),
    OWN(VAR, F, var), FIND(ARGMAX, N, argmax), FIND(ARGMIN, N, argmin), ALONG(CUMSUM, P, cumsum),
    ALONG(SOFTMAX, F, softmax), ALONG(LOG_SOFTMAX, F, log_softmax), OWN(LAYER_NORM, F, norm),
    OWN(RMS_NORM, F, norm),
    OWN(MATMUL, P, matmul), OWN(LINEAR, F, linear), OWN(ROPE, F, rope),
    OWN(ATTENTION, F, attention), OWN(PAGED_ATTENTION, F, paged_attention),
    OWN(CAT, P, join), OWN(STACK, P, join), OWN(REPEAT, P, repeat), OWN(ROLL, P, roll),
    OWN(PAD, P, pad), OWN(TRIL, P, triangle), OWN(TRIU, P, triangle), OWN(EMBEDDING, F, embedding), OWN(GATHER, P, index), OWN(TAKE_ALONG, P, index),
    OWN(INDEX_SELECT, P, index), OWN(INDEX_COPY, P, index), OWN(SCATTER, P, index),
    OWN(SCATTER_ADD, N, index),
    OWN(SORT, P, sort), OWN(ARGSORT, P, sort), OWN(TOPK, P, sort), ONE(NONZERO, P, nonzero),
    OWN(MASKED_SELECT, P, masked_select), OWN(UNIQUE, P, unique),
};
// clang-format on
enum { OPS = sizeof ops / sizeof ops[0] };

void program_run_op(program* p) {
    const uint32_t slot = pick_slot(p);
    const uint32_t what = program_pick(p, 12);
    const uint32_t op = program_pick(p, OPS);
    if (p->slots[slot] == NULL) return; // an error sticks
    switch (what) {
    case 0:
        run_view(p, slot);
        break;
    case 1:
        run_parts(p, slot);
        break;
    case 2:
        berth_release(p->slots[slot]);
        p->slots[slot] = NULL;
        break;
    case 3:
        run_elsewhere(p, slot);
        break;
    case 4:
        run_own(p, slot);
        break;
    default:
        ops[op].run(p, &ops[op], slot);
        break;
    }
}
