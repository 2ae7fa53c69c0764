// SPDX-License-Identifier: Apache-2.0
// Calls of PAGED_ATTENTION with their operands, which tests of it share.
#ifndef BERTH_TESTS_DEVICE_PAGED_KIT_H
#define BERTH_TESTS_DEVICE_PAGED_KIT_H

#include "device/cpu/kernel_convert.h"
#include "kernel_kit.h"

static const berth_dtype block_dtypes[] = {BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_Q8_0};
static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

enum { MOST_SEQUENCES = 20, NUMBERS = 6 };

/// What a sequence of a case is.
typedef struct sequence_case {
    int64_t queries, keys, new_rows;
} sequence_case;

/// A call with its operands. Keys and values are views on one memory with gaps between blocks, as
/// those of one layer are; blocks that no sequence has hold NaN.
typedef struct paged_case {
    berth_dtype q_dtype, dtype;
    int64_t heads, kv_heads, depth, width, size; ///< of a block
    bool writes;
    int64_t count;
    sequence_case sequences[MOST_SEQUENCES];
} paged_case;

typedef struct paged_tensors {
    kit_tensor q, keys, values, numbers, table, new_keys, new_values, out;
    berth_paged_attention_params params;
    berth_op_call call;
} paged_tensors;

static inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Blocks [blocks, size, heads, width] `gap` rows apart, of random content or NaN.
static inline kit_tensor make_blocks(
    berth_dtype dtype, int64_t blocks, int64_t size, int64_t heads, int64_t width, int64_t gap) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    const int64_t row = width / info->block_values;
    kit_tensor t = {.view = {.dtype = dtype,
                             .rank = 4,
                             .dims = {blocks, size, heads, width},
                             .strides = {(size + gap) * heads * row, heads * row, row, 1}}};
    kit_guard(&t, (size_t)(blocks * (size + gap) * heads * row) * info->block_bytes);
    t.view.data = t.memory + KIT_GUARD;
    memset(t.view.data, 0xFF, t.bytes); // NaN in every type, also as a scale
    return t;
}

static inline unsigned char* block_row(const berth_view* view,
                                       int64_t block,
                                       int64_t row,
                                       int64_t head) {
    const int64_t at = block * view->strides[0] + row * view->strides[1] + head * view->strides[2];
    return (unsigned char*)view->data + at * (int64_t)kit_bytes(view->dtype);
}

static inline size_t row_bytes(const berth_view* view) {
    const berth_dtype_info* info = berth_dtype_query_info(view->dtype);
    return (size_t)(view->dims[3] / info->block_values) * info->block_bytes;
}

/// Fills the row of all heads with random values.
static inline void fill_row(const berth_view* view, int64_t block, int64_t row) {
    float values[512];
    for (int64_t head = 0; head < view->dims[2]; ++head) {
        for (int64_t i = 0; i < view->dims[3]; ++i)
            values[i] = (float)kit_real(-1, 1);
        berth_convert_query_from_f32(view->dtype)(
            values, block_row(view, block, row, head), view->dims[3]);
    }
}

static inline int32_t number_of(const paged_tensors* t, int64_t sequence, int64_t which) {
    int32_t number;
    memcpy(&number, kit_at(&t->numbers.view, sequence * t->numbers.view.dims[1] + which), 4);
    return number;
}

static inline int64_t block_of(const paged_tensors* t, int64_t sequence, int64_t key) {
    const int64_t size = t->keys.view.dims[1];
    return (int64_t)kit_get(&t->table.view, number_of(t, sequence, 3) + key / size);
}

static inline void set_number(paged_tensors* t, int64_t sequence, int64_t which, int64_t number) {
    kit_store(BERTH_I32,
              kit_at(&t->numbers.view, sequence * t->numbers.view.dims[1] + which),
              (double)number);
}

/// Gives the sequences blocks in a random order and fills in what they have before the call.
static inline void fill_tables(paged_tensors* t, const paged_case* c, int64_t blocks) {
    int64_t order[4096];
    assert_true(blocks <= 4096);
    for (int64_t i = 0; i < blocks; ++i)
        order[i] = i;
    for (int64_t i = blocks - 1; i > 0; --i) {
        const int64_t other = kit_int(0, i), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    int64_t query = 0, entry = 0, new_row = 0;
    for (int64_t s = 0; s < c->count; ++s) {
        const sequence_case* one = &c->sequences[s];
        const int64_t numbers[NUMBERS] = {
            query, one->queries, one->keys, entry, new_row, one->new_rows};
        for (int64_t i = 0; i < t->numbers.view.dims[1]; ++i)
            set_number(t, s, i, numbers[i]);
        const int64_t entries = ceil_div(one->keys, c->size);
        for (int64_t i = 0; i < entries; ++i)
            kit_store(BERTH_I32, kit_at(&t->table.view, entry + i), (double)order[entry + i]);
        for (int64_t key = 0; key < one->keys - (c->writes ? one->new_rows : 0); ++key) {
            fill_row(&t->keys.view, block_of(t, s, key), key % c->size);
            fill_row(&t->values.view, block_of(t, s, key), key % c->size);
        }
        query += one->queries;
        entry += entries;
        new_row += one->new_rows;
    }
}

static inline void paged_init(paged_tensors* t, const paged_case* c) {
    int64_t tokens = 0, entries = 0, rows = 0;
    for (int64_t s = 0; s < c->count; ++s) {
        tokens += c->sequences[s].queries;
        entries += ceil_div(c->sequences[s].keys, c->size);
        rows += c->sequences[s].new_rows;
    }
    const int64_t blocks = entries + 3;
    const bool is_strided = kit_int(0, 1) == 1;
    const int64_t q_dims[3] = {tokens, c->heads, c->depth};
    const int64_t k_dims[3] = {rows, c->kv_heads, c->depth};
    const int64_t v_dims[3] = {rows, c->kv_heads, c->width};
    const int64_t number_dims[2] = {c->count, c->writes ? 6 : 4};
    const berth_dtype new_dtype = floats[kit_int(0, 2)];
    *t = (paged_tensors){
        .q = is_strided ? kit_strided(c->q_dtype, 3, q_dims, true, false)
                        : kit_contiguous(c->q_dtype, 3, q_dims),
        .keys = make_blocks(c->dtype, blocks, c->size, c->kv_heads, c->depth, kit_int(0, 3)),
        .values = make_blocks(c->dtype, blocks, c->size, c->kv_heads, c->width, kit_int(0, 3)),
        .numbers = kit_strided(BERTH_I32, 2, number_dims, false, false),
        .table = kit_strided(BERTH_I32, 1, &entries, false, false),
        .new_keys = kit_strided(new_dtype, 3, k_dims, true, false),
        .new_values = kit_contiguous(c->dtype == BERTH_Q8_0 ? new_dtype : c->dtype, 3, v_dims),
        .out = kit_contiguous(c->q_dtype, 3, (int64_t[]){tokens, c->heads, c->width}),
        .params = {.scale = 0.7f},
    };
    kit_fill(&t->q, -1, 1);
    kit_fill(&t->new_keys, -1, 1);
    kit_fill(&t->new_values, -1, 1);
    fill_tables(t, c, blocks);
    t->call = (berth_op_call){
        .input_count = c->writes ? 7 : 5,
        .inputs = {t->q.view,
                   t->keys.view,
                   t->values.view,
                   t->numbers.view,
                   t->table.view,
                   t->new_keys.view,
                   t->new_values.view},
        .params = &t->params,
        .batch_invariant = true,
    };
}

static inline void paged_fini(paged_tensors* t) {
    kit_tensor* all[] = {
        &t->q, &t->keys, &t->values, &t->numbers, &t->table, &t->new_keys, &t->new_values, &t->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        kit_free(all[i]);
}

/// The sequence's keys or values side by side, [keys, heads, width]; f32 for q8_0.
static inline kit_tensor gathered(const paged_tensors* t,
                                  const berth_view* view,
                                  int64_t sequence,
                                  int64_t keys) {
    const bool is_plain = berth_dtype_is_plain(view->dtype);
    const int64_t dims[3] = {keys, view->dims[2], view->dims[3]};
    kit_tensor side = kit_contiguous(is_plain ? view->dtype : BERTH_F32, 3, dims);
    unsigned char* to = side.view.data;
    const size_t bytes = (size_t)dims[2] * kit_bytes(side.view.dtype);
    for (int64_t key = 0; key < keys; ++key) {
        for (int64_t head = 0; head < dims[1]; ++head, to += bytes) {
            const void* from =
                block_row(view, block_of(t, sequence, key), key % view->dims[1], head);
            if (is_plain)
                memcpy(to, from, bytes);
            else
                berth_convert_query_to_f32(view->dtype)(from, (float*)(void*)to, dims[2]);
        }
    }
    return side;
}

/// Sequences of random lengths, up to `most` keys.
static inline void draw_sequences(paged_case* c, int64_t count, int64_t most) {
    c->count = count;
    for (int64_t s = 0; s < count; ++s) {
        sequence_case* one = &c->sequences[s];
        one->keys = kit_int(0, 9) == 0 ? 0 : kit_int(1, most);
        one->queries = kit_int(0, 1) == 0 ? (one->keys > 0) : kit_int(0, one->keys);
        if (one->queries > 70) one->queries = 70;
        one->new_rows = kit_int(one->queries, one->keys);
        if (one->new_rows > one->queries + 3) one->new_rows = one->queries + 3;
    }
}

static inline paged_case draw_case(int64_t most_keys) {
    static const int64_t sizes[] = {1, 3, 8, 16, 32, 48, 100, 1024};
    static const int64_t groups[] = {1, 3, 8};
    paged_case c = {
        .q_dtype = floats[kit_int(0, 2)],
        .dtype = block_dtypes[kit_int(0, 3)],
        .kv_heads = kit_int(1, 3),
        .depth = kit_int(1, 70),
        .width = kit_int(1, 70),
        .size = sizes[kit_int(0, 7)],
    };
    c.heads = c.kv_heads * groups[kit_int(0, 2)];
    if (c.dtype == BERTH_Q8_0) {
        c.depth = 32 * kit_int(1, 2);
        c.width = 32 * kit_int(1, 2);
    }
    draw_sequences(&c, kit_int(0, 5), most_keys);
    return c;
}

#endif // BERTH_TESTS_DEVICE_PAGED_KIT_H
