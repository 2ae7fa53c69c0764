// SPDX-License-Identifier: Apache-2.0
#include "cuda/emulation_samples.h"

#include "device/cuda/cuda_layer.cuh"

namespace {

const sample_args& of(const void* args) { return *static_cast<const sample_args*>(args); }

uint32_t place() { return block_index() * thread_count() + thread_index(); }

uint32_t add(uint32_t a, uint32_t b) { return a + b; }

} // namespace

void sample_count(const void* args) { of(args).counts[place()]++; }

void sample_mirror(const void* args) {
    SHARED(uint32_t, numbers, 1024);
    numbers[thread_index()] = thread_index();
    sync_block();
    of(args).data[place()] = numbers[thread_count() - 1 - thread_index()];
}

void sample_sum(const void* args) {
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= 3; ++i)
        sum += block_reduce(i * (thread_index() + 1), 0u, add);
    of(args).data[place()] = sum / 6;
}

void sample_rotate(const void* args) {
    const uint32_t lane = thread_index() % BERTH_CUDA_WARP;
    uint32_t held = thread_index();
    for (int i = 0; i < 33; ++i)
        held = warp_from(held, (lane + 1) % BERTH_CUDA_WARP);
    of(args).data[place()] = held;
}

void sample_uneven(const void* args) {
    SHARED(uint32_t, arrived, 1024);
    const uint32_t warp = thread_index() / BERTH_CUDA_WARP;
    for (uint32_t i = 0; i < warp * 3 % 7; ++i) {
        sync_warp();
        (void)warp_xor(i, 1);
    }
    arrived[thread_index()] = warp;
    sync_block();
    uint32_t is_right = 1;
    for (uint32_t i = 0; i < thread_count(); ++i)
        if (arrived[i] != i / BERTH_CUDA_WARP) is_right = 0;
    of(args).data[place()] = is_right;
}

void sample_fresh(const void* args) {
    SHARED(unsigned char, bytes, 100);
    SHARED(float, numbers, 50);
    uint32_t is_fresh = 1;
    for (int i = 0; i < 100; ++i)
        if (bytes[i] != 0xff) is_fresh = 0;
    for (int i = 0; i < 50; ++i)
        if (!isnan(numbers[i])) is_fresh = 0;
    sync_block();
    bytes[thread_index()] = 0;
    numbers[thread_index()] = 0;
    if (thread_index() == 0) of(args).data[block_index()] = is_fresh;
}

void sample_order(const void* args) {
    static thread_local uint32_t blocks_seen;
    static thread_local uint32_t last_block = UINT32_MAX;
    if (block_index() == last_block) return;
    last_block = block_index();
    of(args).data[blocks_seen % block_count()] = block_index();
    of(args).counts[blocks_seen % block_count()] = thread_index();
    blocks_seen++;
}

void sample_multiply(const void* args) {
    uint32_t* const own = of(args).data + thread_index() * 10;
    const uint32_t a[4] = {own[0], own[1], own[2], own[3]}, b[2] = {own[4], own[5]};
    float sums[4];
    memcpy(sums, own + 6, sizeof sums);
    if (of(args).counts[0] == 1)
        multiply_matrices(bf16(), sums, a, b);
    else
        multiply_matrices(f16(), sums, a, b);
    memcpy(own + 6, sums, sizeof sums);
}

void sample_turn(const void* args) {
    of(args).data[thread_index()] = turn_matrix(of(args).data[thread_index()]);
}

void sample_load_turned(const void* args) {
    uint32_t own[4];
    load_turned_matrices(of(args).counts + thread_index() * 4, own);
    memcpy(of(args).data + thread_index() * 4, own, sizeof own);
}

void sample_copies(const void* args) {
    typedef lanes<uint32_t, 4> chunk;
    SHARED(chunk, brought, 64);
    const uint32_t own = thread_index();
    uint32_t* const from = of(args).counts + own * 4;
    copy_later(&brought[own], from, own % 17);
    end_copies();
    copy_later(&brought[32 + own], from, 16); // of a later group, which is not waited for at once
    end_copies();
    from[0]++;
    wait_for_copies<1>();
    const uint32_t early = brought[32 + own].of[0];
    memcpy(of(args).data + own * 4, &brought[own], sizeof(chunk));
    wait_for_copies<0>();
    from[0] = early == UINT32_MAX && brought[32 + own].of[0] == from[0];
}

void sample_half_waits(const void* args) {
    (void)args;
    if (thread_index() % 2 == 0) sync_block();
}

void sample_mixed_waits(const void* args) {
    (void)args;
    if (thread_index() % 2 == 0)
        sync_warp();
    else
        (void)warp_xor(1, 1);
}

void sample_shared_beyond(const void* args) {
    (void)args;
    SHARED(float, first, 8192);
    SHARED(float, second, 8192);
    first[0] = second[0] = 0;
}

void sample_forgotten_copy(const void* args) {
    typedef lanes<uint32_t, 4> chunk;
    SHARED(chunk, brought, 64);
    copy_later(&brought[thread_index()], of(args).counts, 16);
    end_copies();
    wait_for_copies<1>();
}

void sample_odd_copy(const void* args) {
    typedef lanes<uint32_t, 4> chunk;
    SHARED(chunk, brought, 64);
    copy_later(&brought[thread_index()], of(args).counts + 1, 16);
    wait_for_copies<0>();
}
