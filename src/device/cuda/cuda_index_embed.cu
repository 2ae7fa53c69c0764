// SPDX-License-Identifier: Apache-2.0
// EMBEDDING of quantised tables.
#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_walk.cuh"
#include "device/cuda/cuda_weights.cuh"

namespace {

/// 4 neighbours of a row of a quantised table.
template <class Blocks>
DEVICE void embed_quad(const berth_cuda_embed_args& args, int64_t index, int64_t quad, float* to) {
    constexpr int QUADS = Blocks::BLOCK / 4;
    const int64_t block = quad / QUADS;
    const unsigned char* row = args.table + index * args.row_bytes;
    Blocks::quad(row + block * Blocks::BYTES, (int32_t)(quad - block * QUADS) * 4, to);
}

template <class Blocks> DEVICE void embed_rows(const berth_cuda_embed_args& args) {
    const int64_t count = args.walk.count * args.row.size;
    for (int64_t at = grid_first(); at < count; at += grid_step()) {
        int64_t quad = at;
        const int64_t id = divide_any(args.row, args.is_small != 0, quad);
        const int64_t index = index_at(args.ids, args.is_wide, walk_to<1>(args.walk, id).of[0]);
        float held[4] = {NAN, NAN, NAN, NAN};
        if (index >= 0 && index < args.size) embed_quad<Blocks>(args, index, quad, held);
        float* out = args.out + at * 4;
        if (args.is_aligned != 0) {
            store_dense(out, held);
        } else {
            UNROLL
            for (int i = 0; i < 4; ++i)
                out[i] = held[i];
        }
    }
}

} // namespace

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, embed, berth_cuda_embed_args) {
    with_blocks((uint32_t)args.dtype, [&](auto blocks) { embed_rows<decltype(blocks)>(args); });
}
