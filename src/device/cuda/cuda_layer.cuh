// SPDX-License-Identifier: Apache-2.0
// The thin layer under the kernels: thread indices, shared memory, waiting for other threads,
// element types. nvcc makes device code of it. Any other C++17 compiler makes functions of the
// host, which tests run thread by thread (tests/cuda/emulation.h) to hold the kernels' arithmetic
// against the CPU's ops.
#ifndef BERTH_DEVICE_CUDA_LAYER_CUH
#define BERTH_DEVICE_CUDA_LAYER_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device/cuda/cuda_kernels.h"

#define BERTH_CUDA_WARP 32u

/// A number of words, as a type.
template <int N> struct lanes_count {};

/// Elements of the half types, as the arguments' pointers see them.
struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DEVICE __device__ __forceinline__
/// The same of a member of a struct.
#define MEMBER __device__ __forceinline__
/// Defines the kernel `name` of BERTH_CUDA_KERNEL_MAP, whose struct of arguments is `args_type`,
/// for blocks of at most `most_threads`: the compiler leaves registers for so many.
#define KERNEL_OF(most_threads, name, args_type)                                                   \
    extern "C" __global__ void __launch_bounds__(most_threads)                                     \
        berth_cuda_##name(const __grid_constant__ args_type args)
/// An array that the threads of a block share.
#define SHARED(type, name, count) __shared__ type name[count]
#define UNROLL _Pragma("unroll")
#define UNROLL_BY(count) _Pragma(BERTH_CUDA_TEXT(unroll count))
#define BERTH_CUDA_TEXT(...) #__VA_ARGS__
/// A function that is not made part of its callers.
#define CALLED static __device__ __noinline__

DEVICE uint32_t thread_index() { return threadIdx.x; }
DEVICE uint32_t thread_count() { return blockDim.x; }
DEVICE uint32_t block_index() { return blockIdx.x; }
DEVICE uint32_t block_count() { return gridDim.x; }
/// Waits for all threads of the block; what they wrote to shared and global memory is seen.
DEVICE void sync_block() { __syncthreads(); }
/// The value of thread `lane ^ mask` of the warp; all 32 threads call it.
template <class T> DEVICE T warp_xor(T value, uint32_t mask) {
    return __shfl_xor_sync(0xffffffffu, value, (int)mask);
}
/// The value of thread `lane` of the warp; all 32 threads call it.
template <class T> DEVICE T warp_from(T value, uint32_t lane) {
    return __shfl_sync(0xffffffffu, value, (int)lane);
}
DEVICE void sync_warp() { __syncwarp(); }

DEVICE float f16_to_f32(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
DEVICE uint16_t f32_to_f16(float value) { return __half_as_ushort(__float2half_rn(value)); }
DEVICE float bf16_to_f32(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }
DEVICE uint16_t f32_to_bf16(float value) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
/// Products that are rounded before anything is added to them.
DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
DEVICE double rounded_product(double a, double b) { return __dmul_rn(a, b); }
/// The upper 64 bits of a product.
DEVICE uint64_t high_product(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
// In one instruction or two, wrong by 2^-17 at most: good for what is rounded to a half type. An
// inverse below the least normal number is 0.
DEVICE float quick_exp(float x) { return __expf(x); }
DEVICE float quick_inverse(float x) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
DEVICE float quick_inverse_root(float x) { return rsqrtf(x); }

/// Writes words of 32 bits to global memory in one access. The compiler makes several of what it is
/// only told by a type's alignment.
DEVICE void store_words(void* at, const uint32_t* words, lanes_count<1>) {
    *(uint32_t*)at = words[0];
}
DEVICE void store_words(void* at, const uint32_t* words, lanes_count<2>) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(at)),
                 "r"(words[0]),
                 "r"(words[1])
                 : "memory");
}
DEVICE void store_words(void* at, const uint32_t* words, lanes_count<4>) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(at)),
                 "r"(words[0]),
                 "r"(words[1]),
                 "r"(words[2]),
                 "r"(words[3])
                 : "memory");
}

// The instructions of sm_80 and newer for matrices of halves, which a warp's 32 threads call
// together. `volatile`: they must not be moved to where only some of the threads are.

/// sums [16, 8] += a [16, 16] * b [16, 8], of f16 or of bf16 by the first argument. With g = lane /
/// 4 and t = lane % 4 a thread has, two to a register, the lower one first:
///   a     [g, 2t..], [g + 8, 2t..], [g, 2t + 8..], [g + 8, 2t + 8..]
///   b     [2t.., g], [2t + 8.., g]
///   sums  [g, 2t], [g, 2t + 1], [g + 8, 2t], [g + 8, 2t + 1]
#define MULTIPLY_MATRICES(tag, name)                                                               \
    DEVICE void multiply_matrices(                                                                 \
        tag, float(&sums)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {                      \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 "                \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
    }
MULTIPLY_MATRICES(f16, "f16")
MULTIPLY_MATRICES(bf16, "bf16")
#undef MULTIPLY_MATRICES
/// The transpose of a matrix [8, 8] of which each thread has [lane / 4, lane % 4 * 2..].
DEVICE uint32_t turn_matrix(uint32_t two) {
    uint32_t turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(two));
    return turned;
}
/// The transposes of four matrices [8, 8]. Row r of matrix m is at the `row` of thread m * 8 + r,
/// in shared memory, 16 bytes that are aligned.
DEVICE void load_turned_matrices(const void* row, uint32_t (&to)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
/// Begins a copy of 16 bytes, both ends aligned, from global to shared memory; all but the first
/// `bytes` become zeros.
DEVICE void copy_later(void* to, const void* from, uint32_t bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)),
                 "r"(bytes)
                 : "memory");
}
/// The copies that this thread has begun since it last called this make a group.
DEVICE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for all groups of this thread but the last `COUNT`.
template <int COUNT> DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
}

#else // of the host

#include "emulation.h"

#define DEVICE static inline
#define MEMBER inline
#define KERNEL_OF(most_threads, name, args_type)                                                   \
    extern "C" {                                                                                   \
    extern const uint32_t berth_cuda_most_threads_##name;                                          \
    const uint32_t berth_cuda_most_threads_##name = most_threads;                                  \
    }                                                                                              \
    extern "C" void berth_cuda_##name(const args_type& args)
#define SHARED(type, name, count)                                                                  \
    static char name##_key;                                                                        \
    auto& name = *static_cast<type(*)[count]>(emulation_shared(&name##_key, sizeof(type[count])))
#define UNROLL
#define UNROLL_BY(count)
#define CALLED static inline

DEVICE uint32_t thread_index() { return emulation_thread()->thread; }
DEVICE uint32_t thread_count() { return emulation_thread()->threads; }
DEVICE uint32_t block_index() { return emulation_thread()->block; }
DEVICE uint32_t block_count() { return emulation_thread()->blocks; }
DEVICE void sync_block() { emulation_sync_block(); }
DEVICE void sync_warp() { emulation_sync_warp(); }
template <class T> DEVICE T warp_from(T value, uint32_t lane) {
    emulation_exchange(&value, sizeof value, lane);
    return value;
}
template <class T> DEVICE T warp_xor(T value, uint32_t mask) {
    return warp_from(value, (thread_index() % BERTH_CUDA_WARP) ^ mask);
}

DEVICE float f16_to_f32(uint16_t bits) { return emulation_f16_to_f32(bits); }
DEVICE uint16_t f32_to_f16(float value) { return emulation_f32_to_f16(value); }
DEVICE float bf16_to_f32(uint16_t bits) { return emulation_bf16_to_f32(bits); }
DEVICE uint16_t f32_to_bf16(float value) { return emulation_f32_to_bf16(value); }
DEVICE float rounded_product(float a, float b) { return a * b; } // with -ffp-contract=off
DEVICE double rounded_product(double a, double b) { return a * b; }
DEVICE uint64_t high_product(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)a * b >> 64);
}
template <int N> DEVICE void store_words(void* at, const uint32_t* words, lanes_count<N>) {
    memcpy(at, words, N * sizeof *words);
}
DEVICE float quick_exp(float x) { return expf(x); }
DEVICE float quick_inverse(float x) { return 1.0f / x; }
DEVICE float quick_inverse_root(float x) { return 1.0f / sqrtf(x); }
DEVICE void multiply_matrices(f16,
                              float (&sums)[4],
                              const uint32_t (&a)[4],
                              const uint32_t (&b)[2]) {
    emulation_multiply_matrices(sums, a, b, emulation_f16_to_f32);
}
DEVICE void multiply_matrices(bf16,
                              float (&sums)[4],
                              const uint32_t (&a)[4],
                              const uint32_t (&b)[2]) {
    emulation_multiply_matrices(sums, a, b, emulation_bf16_to_f32);
}
DEVICE uint32_t turn_matrix(uint32_t two) { return emulation_turn_matrix(two); }
DEVICE void load_turned_matrices(const void* row, uint32_t (&to)[4]) {
    emulation_load_turned_matrices(row, to);
}
DEVICE void copy_later(void* to, const void* from, uint32_t bytes) {
    emulation_copy_later(to, from, bytes);
}
DEVICE void end_copies() { emulation_end_copies(); }
template <int COUNT> DEVICE void wait_for_copies() { emulation_wait_for_copies(COUNT); }

#endif

/// The same for blocks of the usual size.
#define KERNEL(name, args_type) KERNEL_OF(256, name, args_type)

// --- Types --------------------------------------------------------------------------------------

DEVICE float to_f32(float x) { return x; }
DEVICE float to_f32(f16 x) { return f16_to_f32(x.bits); }
DEVICE float to_f32(bf16 x) { return bf16_to_f32(x.bits); }
template <class T> DEVICE T from_f32(float x);
#ifdef __CUDACC__
#define SPECIALISED template <> __device__ __forceinline__
#else
#define SPECIALISED template <> inline
#endif
SPECIALISED float from_f32<float>(float x) { return x; }
SPECIALISED f16 from_f32<f16>(float x) {
    f16 made;
    made.bits = f32_to_f16(x);
    return made;
}
SPECIALISED bf16 from_f32<bf16>(float x) {
    bf16 made;
    made.bits = f32_to_bf16(x);
    return made;
}

/// N elements that are read and written in one access of up to 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N) lanes { T of[N]; };

// --- Collective sums ----------------------------------------------------------------------------

/// Every thread of the warp gets `join` over the 32 values, always in the same order.
template <class T, class Join> DEVICE T warp_reduce(T value, Join join) {
    UNROLL
    for (uint32_t mask = BERTH_CUDA_WARP / 2; mask > 0; mask /= 2)
        value = join(value, warp_xor(value, mask));
    return value;
}

/// Every thread of the block (whole warps, at most 1024) gets `join` over its values, always in the
/// same order; `identity` changes nothing. May be called again at once.
template <class T, class Join> DEVICE T block_reduce(T value, T identity, Join join) {
    SHARED(T, of_warps, 32);
    const uint32_t lane = thread_index() % BERTH_CUDA_WARP;
    value = warp_reduce(value, join);
    sync_block(); // the last call's readers are done
    if (lane == 0) of_warps[thread_index() / BERTH_CUDA_WARP] = value;
    sync_block();
    value = lane < thread_count() / BERTH_CUDA_WARP ? of_warps[lane] : identity;
    return warp_reduce(value, join);
}

// --- Loops over the whole grid ------------------------------------------------------------------

/// The first item of this thread, and the step from one of its items to the next.
DEVICE int64_t grid_first() { return (int64_t)block_index() * thread_count() + thread_index(); }
DEVICE int64_t grid_step() { return (int64_t)block_count() * thread_count(); }

#endif // BERTH_DEVICE_CUDA_LAYER_CUH
