// SPDX-License-Identifier: Apache-2.0
// NONZERO and MASKED_SELECT: a block counts the results of a chunk, one block finds where those of
// each chunk go, and then they are written.
#include "device/cuda/cuda_sort_records.cuh"

namespace {

constexpr uint32_t EACH = BERTH_CUDA_CHUNK / BERTH_CUDA_CHUNK_THREADS; // elements of a thread

DEVICE uint64_t bits_at(uint32_t bytes, const void* base, int64_t at) {
    uint64_t bits = 0;
    with_item(bytes, [&](auto item) { bits = ((const decltype(item)*)base)[at]; });
    return bits;
}

/// Bit i: element first + i is selected.
DEVICE uint32_t find_selected(const berth_cuda_select_args& args, int64_t first) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < EACH; ++i) {
        if (first + i >= args.walk.count) break;
        const int64_t at = walk_to<1>(args.walk, first + i).of[0];
        const uint64_t bits = bits_at(args.flag_bytes, args.flags, at);
        found |= ((bits & args.flag_mask) != 0 ? 1u : 0u) << i;
    }
    return found;
}

DEVICE uint32_t count_bits(uint32_t bits) {
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1)
        ++count;
    return count;
}

/// Writes element `at` as result `to`.
DEVICE void write_selected(const berth_cuda_select_args& args, int64_t at, int64_t to) {
    if (args.x != nullptr) {
        copy_item(args.item_bytes, args.out, to, args.x, walk_to<2>(args.walk, at).of[1]);
        return;
    }
    int64_t* out = (int64_t*)args.out + to * args.rank;
    for (int32_t d = args.rank - 1; d >= 0; --d) {
        int64_t index = at;
        at = divide_any(args.dims[d], args.walk.is_small != 0, index);
        out[d] = index;
    }
}

DEVICE void write_chunk(const berth_cuda_select_args& args, int64_t chunk) {
    const int64_t first = chunk * BERTH_CUDA_CHUNK + (int64_t)thread_index() * EACH;
    uint32_t found = find_selected(args, first), total;
    const uint32_t before = block_before(count_bits(found), total);
    int64_t to = args.counts[chunk] + before;
    // what was counted has room, whatever the data is now
    const int64_t end = chunk + 1 < args.chunks ? args.counts[chunk + 1] : args.written;
    for (uint32_t i = 0; i < EACH; ++i)
        if ((found >> i & 1) != 0 && to < end) write_selected(args, first + i, to++);
}

} // namespace

KERNEL(select_count, berth_cuda_select_args) {
    for (int64_t chunk = block_index(); chunk < args.chunks; chunk += block_count()) {
        const int64_t first = chunk * BERTH_CUDA_CHUNK + (int64_t)thread_index() * EACH;
        uint32_t total;
        block_before(count_bits(find_selected(args, first)), total);
        if (thread_index() == 0) args.counts[chunk] = total;
    }
}

KERNEL(select_write, berth_cuda_select_args) {
    for (int64_t chunk = block_index(); chunk < args.chunks; chunk += block_count())
        write_chunk(args, chunk);
}

KERNEL(scan_counts, berth_cuda_scan_args) {
    int64_t sum = 0;
    for (int64_t first = 0; first < args.chunks; first += thread_count()) {
        const int64_t chunk = first + thread_index();
        int64_t total;
        const int64_t own = chunk < args.chunks ? args.counts[chunk] : 0;
        const int64_t before = block_before(own, total);
        if (chunk < args.chunks) args.counts[chunk] = sum + before;
        sum += total;
    }
    if (thread_index() == 0) *args.total = sum;
}
