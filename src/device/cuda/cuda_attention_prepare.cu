// SPDX-License-Identifier: Apache-2.0
// What comes before attention over blocks: new keys and values are written into the blocks, and
// rows of no sequence become zeros.
#include "device/cuda/cuda_attention.cuh"

namespace {

/// The value of `x` at [row, head, d].
DEVICE float value_at(const berth_cuda_rows& x, int64_t row, int64_t head, int64_t d) {
    float value[1];
    load_floats(x.dtype, x.data, row * x.row + head * x.head + d, 1, false, 1, value);
    return value[0];
}

struct larger {
    MEMBER float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// A warp writes 32 values, one a lane, as a block of q8_0: the largest magnitude over 127, rounded
/// to a half, is the scale. Where the scale is too small for a half the values are 0, and where a
/// value is not finite or the scale too large, the whole block is NaN.
DEVICE void write_q8_0(float value, unsigned char* block) {
    const uint32_t lane = thread_index() % BERTH_CUDA_WARP;
    const float zero = value * 0.0f; // NaN where the value is not finite
    const float largest = warp_reduce(fabsf(value), larger());
    const bool is_finite = warp_reduce(zero == 0.0f ? 0.0f : 1.0f, larger()) == 0.0f;
    uint32_t half = f32_to_f16(largest / 127.0f);
    if (!is_finite || half >= 0x7c00u) half = 0x7e00u;
    const bool is_zero = half == 0 || half == 0x7e00u;
    float place = is_zero ? 0.0f : rounded_product(value, 1.0f / f16_to_f32((uint16_t)half));
    place = place > 127.0f ? 127.0f : place < -127.0f ? -127.0f : place;
    block[2 + lane] = (unsigned char)(int32_t)rintf(place);
    if (lane == 0) {
        block[0] = (unsigned char)(half & 255u);
        block[1] = (unsigned char)(half >> 8);
    }
}

/// Writes row `row` of `x` as row `place` of a block, `depth` values a head.
DEVICE void write_row(const berth_cuda_attention_args& args,
                      const berth_cuda_rows& x,
                      int64_t row,
                      const berth_cuda_cached& cached,
                      int64_t place,
                      int64_t depth) {
    const int64_t values = args.kv_heads * depth;
    if (args.dtype != BERTH_Q8_0) {
        for (int64_t i = thread_index(); i < values; i += thread_count()) {
            const int64_t head = i / depth, d = i % depth;
            store_float(
                args.dtype, cached.data, place + head * cached.head + d, value_at(x, row, head, d));
        }
        return;
    }
    const int64_t lane = thread_index() % BERTH_CUDA_WARP;
    // a whole warp at a time, as its lanes make one block
    for (int64_t i = thread_index() - lane; i < values; i += thread_count()) {
        const int64_t head = i / depth, d = i % depth;
        const int64_t block = place + head * cached.head + d / q8_0::BLOCK;
        write_q8_0(value_at(x, row, head, d + lane),
                   (unsigned char*)cached.data + block * q8_0::BYTES);
    }
}

struct new_rows_of {
    MEMBER int64_t operator()(const attention_sequence& sequence) const {
        return sequence.new_rows;
    }
};

DEVICE void write_new_rows(const berth_cuda_attention_args& args) {
    attention_sequence sequence;
    int64_t part;
    for (int64_t i = block_index(); find_part(args, i, new_rows_of(), sequence, part);
         i += block_count()) {
        const int64_t key = sequence.keys - sequence.new_rows + part;
        const int64_t block = block_of(args, sequence, key);
        if (block < 0) continue;
        const int64_t row = sequence.first_new + part, place = key % args.block_keys;
        const berth_cuda_cached &k = args.keys, &v = args.values;
        write_row(args, args.new_keys, row, k, block * k.block + place * k.row, args.depth);
        write_row(args, args.new_values, row, v, block * v.block + place * v.row, args.width);
    }
}

} // namespace

KERNEL_OF(256, attention_prepare, berth_cuda_attention_args) {
    const int64_t count = args.tokens * args.heads * args.width;
    for (int64_t i = grid_first(); i < count; i += grid_step())
        store_float(args.q.dtype, args.out, i, 0.0f);
    if (args.new_count > 0) write_new_rows(args);
}
