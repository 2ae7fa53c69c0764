// SPDX-License-Identifier: Apache-2.0
// Records of elements (cuda_args_sort.h), and counts of a block's threads.
#ifndef BERTH_DEVICE_CUDA_SORT_RECORDS_CUH
#define BERTH_DEVICE_CUDA_SORT_RECORDS_CUH

#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_walk.cuh"

/// A packed record.
struct packed_record {
    uint64_t word;
};
struct pair_record {
    uint64_t key;
    uint64_t number;
};

DEVICE bool is_less(const packed_record& a, const packed_record& b) { return a.word < b.word; }
DEVICE bool is_less(const pair_record& a, const pair_record& b) {
    return a.key < b.key || (a.key == b.key && a.number < b.number);
}
DEVICE int64_t number_of(const packed_record& record) { return (uint32_t)record.word; }
DEVICE int64_t number_of(const pair_record& record) { return (int64_t)record.number; }
DEVICE uint64_t key_of(const packed_record& record) { return record.word >> 32; }
DEVICE uint64_t key_of(const pair_record& record) { return record.key; }

DEVICE void make_record(packed_record& record, uint64_t key, int64_t number) {
    record.word = key << 32 | (uint64_t)number;
}
DEVICE void make_record(pair_record& record, uint64_t key, int64_t number) {
    record.key = key;
    record.number = (uint64_t)number;
}
DEVICE void read_record(packed_record& record, const uint64_t* words, int64_t at) {
    record.word = words[at];
}
DEVICE void read_record(pair_record& record, const uint64_t* words, int64_t at) {
    record.key = words[2 * at];
    record.number = words[2 * at + 1];
}
DEVICE void write_record(const packed_record& record, uint64_t* words, int64_t at) {
    words[at] = record.word;
}
DEVICE void write_record(const pair_record& record, uint64_t* words, int64_t at) {
    words[2 * at] = record.key;
    words[2 * at + 1] = record.number;
}

// --- Keys ---------------------------------------------------------------------------------------

/// Both zeros are one, and every NaN is above all.
DEVICE uint32_t float_key(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return UINT32_MAX;
    if ((bits & 0x7fffffffu) == 0) return 0x80000000u;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

DEVICE uint64_t key_of_value(float value) { return float_key(value); }
DEVICE uint64_t key_of_value(f16 value) { return float_key(to_f32(value)); }
DEVICE uint64_t key_of_value(bf16 value) { return float_key(to_f32(value)); }
DEVICE uint64_t key_of_value(int32_t value) { return (uint32_t)value ^ 0x80000000u; }
DEVICE uint64_t key_of_value(int8_t value) { return key_of_value((int32_t)value); }
DEVICE uint64_t key_of_value(uint8_t value) { return value; }
DEVICE uint64_t key_of_value(int64_t value) {
    return (uint64_t)value ^ UINT64_C(0x8000000000000000);
}

/// The key of element `at`, ascending; of 32 bits for all but i64.
DEVICE uint64_t key_at(int32_t dtype, const void* x, int64_t at) {
    uint64_t key = 0;
    with_plain((uint32_t)dtype,
               [&](auto type) { key = key_of_value(((const decltype(type)*)x)[at]); });
    return key;
}

/// Elements of `bytes` bytes, from one place to another.
DEVICE void copy_item(uint32_t bytes, void* target, int64_t to, const void* source, int64_t from) {
    with_item(bytes, [&](auto item) {
        typedef decltype(item) Item;
        ((Item*)target)[to] = ((const Item*)source)[from];
    });
}

// --- Counts -------------------------------------------------------------------------------------

/// The sum over the threads of the block before this one; `total` gets that over all. All threads
/// call it.
template <class T> DEVICE T block_before(T value, T& total) {
    SHARED(T, of_warps, 32);
    const uint32_t lane = thread_index() % BERTH_CUDA_WARP, warp = thread_index() / BERTH_CUDA_WARP;
    T sum = value;
    for (uint32_t step = 1; step < BERTH_CUDA_WARP; step *= 2) {
        const T below = warp_from(sum, lane >= step ? lane - step : lane);
        if (lane >= step) sum = (T)(sum + below);
    }
    sync_block(); // the last call's readers are done
    if (lane == BERTH_CUDA_WARP - 1) of_warps[warp] = sum;
    sync_block();
    T before = (T)(sum - value);
    total = 0;
    for (uint32_t i = 0; i < thread_count() / BERTH_CUDA_WARP; ++i) {
        if (i < warp) before = (T)(before + of_warps[i]);
        total = (T)(total + of_warps[i]);
    }
    return before;
}

#endif // BERTH_DEVICE_CUDA_SORT_RECORDS_CUH
