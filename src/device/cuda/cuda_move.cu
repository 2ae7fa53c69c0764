// SPDX-License-Identifier: Apache-2.0
// Moves bytes within device memory where source and target overlap.
#include "device/cuda/cuda_layer.cuh"

namespace {

constexpr uint32_t THREADS = 1024; // a single block moves all

/// One round: this block's threads hold what they move before anyone writes.
template <class Word> DEVICE void move_words(const berth_cuda_move_args& args) {
    constexpr uint32_t WORDS = sizeof(Word) == 1 ? 16 : 4; // in registers
    const uint64_t count = args.bytes / sizeof(Word);
    const uint64_t a_round = (uint64_t)thread_count() * WORDS;
    const uint64_t rounds = (count + a_round - 1) / a_round;
    const bool is_upward = args.target < args.source; // then the first words move first
    const Word* source = (const Word*)args.source;
    Word* target = (Word*)args.target;
    for (uint64_t i = 0; i < rounds; ++i) {
        const uint64_t first = (is_upward ? i : rounds - 1 - i) * a_round;
        Word held[WORDS];
        UNROLL
        for (uint32_t w = 0; w < WORDS; ++w) {
            const uint64_t at = first + (uint64_t)w * thread_count() + thread_index();
            if (at < count) held[w] = source[at];
        }
        sync_block();
        UNROLL
        for (uint32_t w = 0; w < WORDS; ++w) {
            const uint64_t at = first + (uint64_t)w * thread_count() + thread_index();
            if (at < count) target[at] = held[w];
        }
        sync_block();
    }
}

} // namespace

KERNEL_OF(THREADS, move, berth_cuda_move_args) {
    const uintptr_t low_bits = (uintptr_t)args.target | (uintptr_t)args.source | args.bytes;
    if (low_bits % 16 == 0)
        move_words<lanes<uint32_t, 4>>(args);
    else
        move_words<unsigned char>(args);
}
