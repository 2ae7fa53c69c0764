// SPDX-License-Identifier: Apache-2.0
// COPY, and the copy of a run of items that lie any stride apart.
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_joint.h"

#define GRAIN 4096
#define LEAST 65536

// Vectors of 16 bytes, which every machine has or the compiler makes.
typedef uint8_t u8x16 __attribute__((vector_size(16)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));

#define INLINE static inline __attribute__((always_inline))

// --- Runs ----------------------------------------------------------------------------------------

INLINE u64x2 reverse_u64(u64x2 x) { return __builtin_shufflevector(x, x, 1, 0); }

INLINE u32x4 reverse_u32(u32x4 x) { return __builtin_shufflevector(x, x, 3, 2, 1, 0); }

INLINE u16x8 reverse_u16(u16x8 x) {
    const u32x4 pairs = reverse_u32((u32x4)x);
    return (u16x8)(pairs << 16 | pairs >> 16);
}

INLINE u8x16 reverse_u8(u8x16 x) {
    const u16x8 pairs = reverse_u16((u16x8)x);
    return (u8x16)(pairs << 8 | pairs >> 8);
}

/// Items that lie one before the other, and any others.
#define DEFINE_COPY(type, vector)                                                                  \
    static void copy_##type(                                                                       \
        const unsigned char* from, int64_t stride, int64_t count, unsigned char* to) {             \
        const int64_t bytes = (int64_t)sizeof(type), lanes = 16 / bytes;                           \
        int64_t i = 0;                                                                             \
        for (; stride == -bytes && i + lanes <= count; i += lanes) {                               \
            vector items;                                                                          \
            memcpy(&items, from - (i + lanes - 1) * bytes, sizeof items);                          \
            items = reverse_##type(items);                                                         \
            memcpy(to + i * bytes, &items, sizeof items);                                          \
        }                                                                                          \
        for (; i < count; ++i) {                                                                   \
            type item;                                                                             \
            memcpy(&item, from + i * stride, sizeof item);                                         \
            memcpy(to + i * bytes, &item, sizeof item);                                            \
        }                                                                                          \
    }
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
DEFINE_COPY(u8, u8x16)
DEFINE_COPY(u16, u16x8)
DEFINE_COPY(u32, u32x4)
DEFINE_COPY(u64, u64x2)

void berth_repeat_run(int64_t period_bytes, int64_t whole_bytes, void* target) {
    unsigned char* to = target;
    // the pattern doubles until it fills a few lines, which then repeat
    size_t pattern = (size_t)period_bytes, done = pattern;
    const size_t whole = (size_t)whole_bytes;
    while (done < whole) {
        const size_t more = pattern < whole - done ? pattern : whole - done;
        memcpy(to + done, to, more);
        done += more;
        if (pattern < 2048) pattern = done;
    }
}

void berth_fill_run(const void* item, int64_t bytes, int64_t count, void* target) {
    if (bytes == 1) {
        memset(target, *(const unsigned char*)item, (size_t)count);
        return;
    }
    memcpy(target, item, (size_t)bytes);
    berth_repeat_run(bytes, count * bytes, target);
}

void berth_copy_run(const void* from, int64_t stride, int64_t bytes, int64_t count, void* target) {
    const unsigned char* items = from;
    if (count <= 0) return;
    if (stride == bytes) {
        memcpy(target, items, (size_t)(count * bytes));
    } else if (stride == 0) {
        berth_fill_run(items, bytes, count, target);
    } else if (bytes == 1) {
        copy_u8(items, stride, count, target);
    } else if (bytes == 2) {
        copy_u16(items, stride, count, target);
    } else if (bytes == 4) {
        copy_u32(items, stride, count, target);
    } else if (bytes == 8) {
        copy_u64(items, stride, count, target);
    } else {
        unsigned char* to = target;
        for (int64_t i = 0; i < count; ++i)
            memcpy(to + i * bytes, items + i * stride, (size_t)bytes);
    }
}

#define SPREAD(type)                                                                               \
    for (int64_t i = 0; i < count; ++i)                                                            \
    memcpy(to + i * stride, items + i * (int64_t)sizeof(type), sizeof(type))

void berth_spread_run(
    const void* from, int64_t bytes, int64_t count, void* target, int64_t stride) {
    const unsigned char* items = from;
    unsigned char* to = target;
    if (bytes == 1)
        SPREAD(uint8_t);
    else if (bytes == 2)
        SPREAD(uint16_t);
    else if (bytes == 4)
        SPREAD(uint32_t);
    else
        SPREAD(uint64_t);
}

// --- Squares -------------------------------------------------------------------------------------

/// A square of items whose rows are vectors becomes its transpose: rows half a square apart are
/// interleaved, as often as halving leads to 1.
#define DEFINE_SQUARE(name, vector, lanes, LOW, HIGH)                                              \
    INLINE void name(                                                                              \
        const unsigned char* from, int64_t from_stride, unsigned char* to, int64_t to_stride) {    \
        vector rows[lanes], mixed[lanes];                                                          \
        for (int32_t i = 0; i < (lanes); ++i)                                                      \
            memcpy(&rows[i], from + i * from_stride, sizeof rows[i]);                              \
        for (int32_t step = 1; step < (lanes); step *= 2) {                                        \
            for (int32_t i = 0; i < (lanes) / 2; ++i) {                                            \
                mixed[2 * i] = LOW(rows[i], rows[i + (lanes) / 2]);                                \
                mixed[2 * i + 1] = HIGH(rows[i], rows[i + (lanes) / 2]);                           \
            }                                                                                      \
            memcpy(rows, mixed, sizeof rows);                                                      \
        }                                                                                          \
        for (int32_t i = 0; i < (lanes); ++i)                                                      \
            memcpy(to + i * to_stride, &rows[i], sizeof rows[i]);                                  \
    }

// clang-format off
#define LOW_U8(a, b)                                                                               \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_U8(a, b)                                                                              \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_U16(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_U16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_U32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_U32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW_U64(a, b) __builtin_shufflevector(a, b, 0, 2)
#define HIGH_U64(a, b) __builtin_shufflevector(a, b, 1, 3)
// clang-format on
DEFINE_SQUARE(square_1, u8x16, 16, LOW_U8, HIGH_U8)
DEFINE_SQUARE(square_2, u16x8, 8, LOW_U16, HIGH_U16)
DEFINE_SQUARE(square_4, u32x4, 4, LOW_U32, HIGH_U32)
DEFINE_SQUARE(square_8, u64x2, 2, LOW_U64, HIGH_U64)

/// A tile of `row_bytes` / bytes rows and columns: every cache line that it touches is used whole
/// and once, so lines that exclude one another from the cache do no harm. Staged, so that its rows
/// are written whole; what the next tile reads is on its way meanwhile.
#define DEFINE_TILE(bytes, row_bytes)                                                              \
    static void tile_##bytes(                                                                      \
        const unsigned char* from, int64_t from_stride, unsigned char* to, int64_t to_stride) {    \
        enum { SIDE = (row_bytes) / (bytes), LANES = 16 / (bytes) };                               \
        _Alignas(64) unsigned char staged[SIDE * (row_bytes)];                                     \
        for (int64_t i = 0; i < SIDE; i += LANES) {                                                \
            for (int64_t k = 0; k < LANES; ++k)                                                    \
                for (int64_t line = 0; line < (row_bytes); line += 64)                             \
                    PREFETCH((uintptr_t)from + (uintptr_t)((i + k + SIDE) * from_stride + line));  \
            for (int64_t j = 0; j < SIDE; j += LANES)                                              \
                square_##bytes(from + i * from_stride + j * (bytes),                               \
                               from_stride,                                                        \
                               staged + j * (row_bytes) + i * (bytes),                             \
                               row_bytes);                                                         \
        }                                                                                          \
        for (int64_t i = 0; i < SIDE; ++i)                                                         \
            memcpy(to + i * to_stride, staged + i * (row_bytes), row_bytes);                       \
    }
#define PREFETCH(address) __builtin_prefetch((const void*)(address), 0, 2)
enum { TILE_ROW_1 = 64, TILE_ROW_2 = 64, TILE_ROW_4 = 128, TILE_ROW_8 = 128 };
DEFINE_TILE(1, TILE_ROW_1)
DEFINE_TILE(2, TILE_ROW_2)
DEFINE_TILE(4, TILE_ROW_4)
DEFINE_TILE(8, TILE_ROW_8)

typedef void (*tile_fn)(const unsigned char* from,
                        int64_t from_stride,
                        unsigned char* to,
                        int64_t to_stride);

/// The tile for items of `bytes` bytes and how many it has in a row.
static tile_fn tile_function(int64_t bytes, int64_t* out_side) {
    switch (bytes) {
    case 1:
        *out_side = TILE_ROW_1;
        return tile_1;
    case 2:
        *out_side = TILE_ROW_2 / 2;
        return tile_2;
    case 4:
        *out_side = TILE_ROW_4 / 4;
        return tile_4;
    default:
        *out_side = TILE_ROW_8 / 8;
        return tile_8;
    }
}

// --- COPY ----------------------------------------------------------------------------------------

/// Tiles of a strip, along the output's rows.
#define STRIP_TILES 8

typedef struct copy_job {
    berth_walk from;
    unsigned char* out;
    // where the input's neighbours are not the output's:
    berth_joint outer;     ///< all dimensions but the two that change places; 0: input, 1: output
    int64_t rows;          ///< the size of the dimension whose items are neighbours in the input
    int64_t columns;       ///< the size of the output's last dimension
    int64_t row_stride;    ///< bytes from row to row of the output
    int64_t column_stride; ///< bytes from one item of such a row to the next in the input
    int64_t side;          ///< of a tile
    tile_fn tile;
} copy_job;

static void copy_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const copy_job* job = data;
    berth_walk_copy(&job->from, begin, end - begin, job->out + begin * job->from.item_bytes);
}

/// `rows` rows of the output, `columns` items of each.
static void turn_strip(const copy_job* job,
                       const unsigned char* from,
                       unsigned char* to,
                       int64_t rows,
                       int64_t columns) {
    const int64_t bytes = job->from.item_bytes;
    int64_t done = 0;
    for (; rows == job->side && done + job->side <= columns; done += job->side)
        job->tile(from + done * job->column_stride,
                  job->column_stride,
                  to + done * bytes,
                  job->row_stride);
    // what is left is narrow, or low
    from += done * job->column_stride;
    to += done * bytes;
    columns -= done;
    for (int64_t c = 0; c < columns && columns < rows; ++c)
        berth_spread_run(
            from + c * job->column_stride, bytes, rows, to + c * bytes, job->row_stride);
    for (int64_t r = 0; r < rows && columns >= rows; ++r)
        berth_copy_run(
            from + r * bytes, job->column_stride, bytes, columns, to + r * job->row_stride);
}

/// Strips [begin, end): numbered by outer position, rows, columns.
static void turn_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const copy_job* job = data;
    const int64_t bytes = job->from.item_bytes;
    const int64_t width = STRIP_TILES * job->side;
    const int64_t row_blocks = berth_ceil_div(job->rows, job->side);
    const int64_t column_blocks = berth_ceil_div(job->columns, width);
    for (int64_t strip = begin; strip < end; ++strip) {
        const int64_t column = strip % column_blocks * width;
        const int64_t row = strip / column_blocks % row_blocks * job->side;
        berth_joint_at at;
        berth_joint_seek(&job->outer, strip / column_blocks / row_blocks, &at);
        turn_strip(job,
                   job->from.data + at.offsets[0] + row * bytes + column * job->column_stride,
                   job->out + at.offsets[1] + row * job->row_stride + column * bytes,
                   berth_min_i64(job->side, job->rows - row),
                   berth_min_i64(width, job->columns - column));
    }
}

/// The dimension of `from` whose items are neighbours, if it is not the last and large enough; else
/// -1.
static int32_t find_turned(const berth_walk* from) {
    const int64_t bytes = from->item_bytes;
    const int32_t last = from->rank - 1;
    if (last < 1 || from->strides[last] == bytes || bytes > 8) return -1;
    for (int32_t d = 0; d < last; ++d)
        if (from->strides[d] == bytes && from->dims[d] >= 4) return d;
    return -1;
}

static void run_turned(const berth_op_call* call, copy_job* job, int32_t turned, int64_t count) {
    const berth_walk* from = &job->from;
    const int32_t last = from->rank - 1;
    int64_t out_strides[BERTH_MAX_RANK];
    int64_t stride = from->item_bytes;
    for (int32_t d = last; d >= 0; --d) {
        out_strides[d] = stride;
        stride *= from->dims[d];
    }
    job->outer = berth_joint_make(2);
    for (int32_t d = 0; d < last; ++d)
        if (d != turned)
            berth_joint_append(
                &job->outer, from->dims[d], (int64_t[2]){from->strides[d], out_strides[d]});
    berth_joint_finish(&job->outer);
    job->rows = from->dims[turned];
    job->columns = from->dims[last];
    job->row_stride = out_strides[turned];
    job->column_stride = from->strides[last];
    job->tile = tile_function(from->item_bytes, &job->side);
    const int64_t strips = berth_joint_count(&job->outer) * berth_ceil_div(job->rows, job->side) *
                           berth_ceil_div(job->columns, STRIP_TILES * job->side);
    berth_run_range(call, strips, 1, count < LEAST ? strips + 1 : 1, turn_range, job);
}

static void kernel_copy(const berth_op_call* call) {
    copy_job job = {.out = call->outputs[0].data};
    berth_walk_init(&job.from, &call->inputs[0]);
    int64_t count = 1;
    for (int32_t d = 0; d < job.from.rank; ++d)
        count *= job.from.dims[d];
    const int32_t turned = find_turned(&job.from);
    if (turned < 0 || count == 0)
        berth_run_range(call, count, GRAIN, LEAST, copy_range, &job);
    else
        run_turned(call, &job, turned, count);
}

void berth_bring_turned(const berth_op_call* call, berth_view* x) {
    const berth_view* out = &call->outputs[0];
    berth_walk walk;
    berth_walk_init(&walk, x);
    if (find_turned(&walk) < 0 || x->rank != out->rank || out->data == x->data) return;
    if (walk.item_bytes != berth_dtype_bytes(out->dtype)) return;
    for (int32_t d = 0; d < x->rank; ++d)
        if (x->dims[d] != out->dims[d]) return;
    for (uint32_t i = 0; i < call->input_count; ++i) // another operand may lie there
        if (call->inputs[i].data == out->data) return;
    berth_op_call copy = {.input_count = 1, .output_count = 1, .team = call->team};
    copy.inputs[0] = *x;
    copy.outputs[0] = *out;
    copy.outputs[0].dtype = x->dtype;
    kernel_copy(&copy);
    *x = copy.outputs[0];
}

void berth_cpu_fill_copy_kernels(berth_kernel* table) { table[BERTH_OP_COPY] = kernel_copy; }
