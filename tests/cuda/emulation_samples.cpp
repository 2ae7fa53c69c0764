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
