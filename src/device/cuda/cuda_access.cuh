// SPDX-License-Identifier: Apache-2.0
// The one set of accesses to memory: neighbours moved in as few accesses as their bytes allow,
// units that are moved as they are, indices; and the one way from a type known when the kernel runs
// to code for that type.
#ifndef BERTH_DEVICE_CUDA_ACCESS_CUH
#define BERTH_DEVICE_CUDA_ACCESS_CUH

#include "device/cuda/cuda_layer.cuh"

/// The most bytes of one access.
#define BERTH_CUDA_ACCESS_BYTES 16

// --- Types --------------------------------------------------------------------------------------

template <class A, class B> constexpr bool are_same = false;
template <class A> constexpr bool are_same<A, A> = true;

/// run(a value of the type) for a float type.
template <class Run> DEVICE void with_real(uint32_t dtype, Run run) {
    if (dtype == BERTH_F32)
        run(float());
    else if (dtype == BERTH_F16)
        run(f16());
    else
        run(bf16());
}

/// The same for a type of integers; bool is uint8_t.
template <class Run> DEVICE void with_whole(uint32_t dtype, Run run) {
    if (dtype == BERTH_I32)
        run(int32_t());
    else if (dtype == BERTH_I64)
        run(int64_t());
    else if (dtype == BERTH_I8)
        run(int8_t());
    else
        run(uint8_t());
}

/// The same for any plain type.
template <class Run> DEVICE void with_plain(uint32_t dtype, Run run) {
    if (dtype <= BERTH_BF16)
        with_real(dtype, run);
    else
        with_whole(dtype, run);
}

/// What is moved as it is, by its bytes: 1, 2, 4 or 8.
template <class Run> DEVICE void with_item(uint32_t bytes, Run run) {
    if (bytes == 1)
        run(uint8_t());
    else if (bytes == 2)
        run(uint16_t());
    else if (bytes == 4)
        run(uint32_t());
    else
        run(uint64_t());
}

/// The same, or 16.
template <class Run> DEVICE void with_unit(uint32_t bytes, Run run) {
    if (bytes == BERTH_CUDA_ACCESS_BYTES)
        run(lanes<uint32_t, 4>());
    else
        with_item(bytes, run);
}

// --- Neighbours ---------------------------------------------------------------------------------

/// Elements of T that one access takes.
template <class T> constexpr int lanes_of = BERTH_CUDA_ACCESS_BYTES / (int)sizeof(T);

/// N neighbours, a power of two, in registers of 32 bits. Kept like that, they need no more of
/// those than their bytes, and compilers make the widest accesses of them; of structs they do not
/// always.
template <class T, int N> struct pack {
    static constexpr int BYTES = N * (int)sizeof(T);
    uint32_t words[(BYTES + 3) / 4];

    // Word by word: what is copied from an address that is chosen would have to be in memory.
    MEMBER T get(int n) const {
        T x;
        if constexpr (sizeof(T) == 8) {
            const uint64_t bits = words[2 * n] | (uint64_t)words[2 * n + 1] << 32;
            memcpy(&x, &bits, sizeof x);
        } else {
            constexpr int a_word = 4 / (int)sizeof(T);
            constexpr uint32_t mask = sizeof(T) == 4 ? ~0u : (1u << (8 * sizeof(T) % 32)) - 1u;
            const uint32_t bits = words[n / a_word] >> (n % a_word * 8 * (int)sizeof(T)) & mask;
            memcpy(&x, &bits, sizeof x);
        }
        return x;
    }

    /// Elements of less than a word come in order.
    MEMBER void put(int n, T x) {
        if constexpr (sizeof(T) == 8) {
            uint64_t bits;
            memcpy(&bits, &x, sizeof x);
            words[2 * n] = (uint32_t)bits;
            words[2 * n + 1] = (uint32_t)(bits >> 32);
        } else {
            constexpr int a_word = 4 / (int)sizeof(T);
            uint32_t bits = 0;
            memcpy(&bits, &x, sizeof x);
            const uint32_t before = n % a_word == 0 ? 0 : words[n / a_word];
            words[n / a_word] = before | bits << (n % a_word * 8 * (int)sizeof(T));
        }
    }
};

/// The pack at `at`, a multiple of its bytes or, if they are fewer, of 16.
template <class T, int N> DEVICE pack<T, N> load_pack(const void* at) {
    typedef pack<T, N> made_type;
    made_type made;
    if constexpr (made_type::BYTES == 1) {
        made.words[0] = *(const uint8_t*)at;
    } else if constexpr (made_type::BYTES == 2) {
        made.words[0] = *(const uint16_t*)at;
    } else {
        constexpr int WORDS = made_type::BYTES / 4, A_LOAD = WORDS < 4 ? WORDS : 4;
        UNROLL
        for (int i = 0; i < WORDS; i += A_LOAD) {
            const auto part = ((const lanes<uint32_t, A_LOAD>*)at)[i / A_LOAD];
            UNROLL
            for (int w = 0; w < A_LOAD; ++w)
                made.words[i + w] = part.of[w];
        }
    }
    return made;
}

/// `at` is in global memory.
template <class T, int N> DEVICE void store_pack(void* at, const pack<T, N>& from) {
    typedef pack<T, N> from_type;
    if constexpr (from_type::BYTES == 1) {
        *(uint8_t*)at = (uint8_t)from.words[0];
    } else if constexpr (from_type::BYTES == 2) {
        *(uint16_t*)at = (uint16_t)from.words[0];
    } else {
        constexpr int WORDS = from_type::BYTES / 4, A_STORE = WORDS < 4 ? WORDS : 4;
        UNROLL
        for (int i = 0; i < WORDS; i += A_STORE)
            store_words((uint32_t*)at + i, from.words + i, lanes_count<A_STORE>());
    }
}

/// The same with elements in an array.
template <class T, int N> DEVICE void load_dense(const T* at, T (&to)[N]) {
    const auto made = load_pack<T, N>(at);
    UNROLL
    for (int i = 0; i < N; ++i)
        to[i] = made.get(i);
}

template <class T, int N> DEVICE void store_dense(T* at, const T (&from)[N]) {
    pack<T, N> made;
    UNROLL
    for (int i = 0; i < N; ++i)
        made.put(i, from[i]);
    store_pack(at, made);
}

/// One element, N times.
template <class T, int N> DEVICE pack<T, N> repeat_pack(T x) {
    pack<T, N> made;
    UNROLL
    for (int n = 0; n < N; ++n)
        made.put(n, x);
    return made;
}

// --- Indices ------------------------------------------------------------------------------------

/// Index `at` of i32 or i64.
DEVICE int64_t index_at(const void* index, uint32_t is_wide, int64_t at) {
    return is_wide != 0 ? ((const int64_t*)index)[at] : ((const int32_t*)index)[at];
}

#endif // BERTH_DEVICE_CUDA_ACCESS_CUH
