// SPDX-License-Identifier: Apache-2.0
// Sequences of queries that attend to the same keys, as the kernels of attention find them: one a
// batch, or rows of a table that nobody has looked at. What does not fit the operands is passed
// over, and a number that is no block hides its keys.
#ifndef BERTH_DEVICE_CUDA_ATTENTION_CUH
#define BERTH_DEVICE_CUDA_ATTENTION_CUH

#include "device/cuda/cuda_weights.cuh"

#define ATTENTION_ROWS 16 ///< query rows of a block: tokens, and the heads that share a KV head

/// Query i sees keys [0, min(first_seen + i, keys)).
struct attention_sequence {
    int64_t first_query; ///< row of q
    int64_t queries;
    int64_t keys;
    int64_t first_seen; ///< below 1: none
    int64_t batch;
    int64_t first_entry; ///< of the table
    int64_t first_new;   ///< row of the new keys
    int64_t new_rows;    ///< which are the sequence's last keys
};

DEVICE int64_t round_up_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
DEVICE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/// True if `count` items from `first` on are among `size`.
DEVICE bool is_within(int64_t first, int64_t count, int64_t size) {
    return first >= 0 && count >= 0 && first + count <= size;
}

DEVICE int64_t sequence_number(const berth_cuda_attention_args& args, int64_t index, int which) {
    return args.sequences[index * args.sequence_row + which * args.sequence_number];
}

/// Reads row `index` of the table of sequences; false if its numbers do not fit the operands.
DEVICE bool read_sequence(const berth_cuda_attention_args& args,
                          int64_t index,
                          attention_sequence& out) {
    const bool has_new = args.new_count >= 0;
    out.first_query = sequence_number(args, index, 0);
    out.queries = sequence_number(args, index, 1);
    out.keys = sequence_number(args, index, 2);
    out.first_entry = sequence_number(args, index, 3);
    out.first_new = has_new ? sequence_number(args, index, 4) : 0;
    out.new_rows = has_new ? sequence_number(args, index, 5) : 0;
    out.first_seen = out.keys - out.queries + 1;
    out.batch = 0;
    const int64_t size = args.block_keys;
    if (size == 0 && out.keys != 0) return false;
    return out.queries <= out.keys && out.new_rows <= out.keys &&
           is_within(out.first_query, out.queries, args.tokens) &&
           is_within(
               out.first_entry, size > 0 ? round_up_div(out.keys, size) : 0, args.entry_count) &&
           is_within(out.first_new, out.new_rows, has_new ? args.new_count : 0);
}

/// Finds the sequence that part `index` of all belongs to, where one has count_parts(sequence) of
/// them, and which of its own it is. All threads of a warp call it with the same index. False if
/// there are no so many parts.
template <class Count>
DEVICE bool find_part(const berth_cuda_attention_args& args,
                      int64_t index,
                      Count count_parts,
                      attention_sequence& out,
                      int64_t& out_part) {
    const uint32_t lane = thread_index() % BERTH_CUDA_WARP;
    for (int64_t base = 0; base < args.sequence_count; base += BERTH_CUDA_WARP) {
        attention_sequence own;
        int64_t parts = 0;
        if (base + lane < args.sequence_count && read_sequence(args, base + lane, own))
            parts = count_parts(own);
        int64_t end = parts; // of this lane's sequence, among these 32
        for (uint32_t step = 1; step < BERTH_CUDA_WARP; step *= 2) {
            const int64_t before = warp_from(end, lane >= step ? lane - step : lane);
            if (lane >= step) end += before;
        }
        const int64_t all = warp_from(end, BERTH_CUDA_WARP - 1);
        if (index >= all) {
            index -= all;
            continue;
        }
        uint32_t owner = end <= index ? 1u : 0u;
        for (uint32_t mask = BERTH_CUDA_WARP / 2; mask > 0; mask /= 2)
            owner += warp_xor(owner, mask);
        out_part = index - warp_from(end - parts, owner);
        return read_sequence(args, base + owner, out);
    }
    return false;
}

/// The block of key `key` of a sequence of a table; -1 if there is no such block.
DEVICE int64_t block_of(const berth_cuda_attention_args& args,
                        const attention_sequence& sequence,
                        int64_t key) {
    const int64_t entry = sequence.first_entry + (uint32_t)key / (uint32_t)args.block_keys;
    const int64_t block = args.table[entry * args.table_stride];
    return block >= 0 && block < args.block_count ? block : -1;
}

#endif // BERTH_DEVICE_CUDA_ATTENTION_CUH
