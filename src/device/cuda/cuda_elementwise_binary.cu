// SPDX-License-Identifier: Apache-2.0
// Two operands with broadcasting: ADD SUB MUL DIV MINIMUM MAXIMUM REMAINDER POW, EQ NE LT LE (GT
// and GE are these, turned), LOGICAL_AND .. LOGICAL_XOR; WHERE. OUTER is MUL.
#include "device/cuda/cuda_elements.cuh"

namespace {

#define REAL(name, expression)                                                                     \
    struct name##_function {                                                                       \
        template <class Math> MEMBER float real(const element_args&, float a, float b) const {     \
            return expression;                                                                     \
        }                                                                                          \
    };
#define NUMBER(name, expression, integer_expression)                                               \
    struct name##_function {                                                                       \
        template <class Math> MEMBER float real(const element_args&, float a, float b) const {     \
            return expression;                                                                     \
        }                                                                                          \
        MEMBER int64_t whole(const element_args&, int64_t a, int64_t b) const {                    \
            return integer_expression;                                                             \
        }                                                                                          \
    };
#define COMPARISON(name, sign)                                                                     \
    struct name##_function {                                                                       \
        template <class Math> MEMBER bool real(const element_args&, float a, float b) const {      \
            return a sign b;                                                                       \
        }                                                                                          \
                                                                                                   \
        MEMBER bool whole(const element_args&, int64_t a, int64_t b) const { return a sign b; }    \
    };
#define LOGIC(name, sign)                                                                          \
    struct name##_function {                                                                       \
        MEMBER bool whole(const element_args&, int64_t a, int64_t b) const {                       \
            return (a != 0) sign(b != 0);                                                          \
        }                                                                                          \
    };

// --- Arithmetic ---------------------------------------------------------------------------------

// As unsigned, which wraps. Sums and products of bools (0 or 1) are not 0 where or and and are.
DEVICE int64_t sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
DEVICE int64_t difference(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
DEVICE int64_t product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/// Repeated squaring, which wraps; a narrower type's result is in the low bits. A negative exponent
/// gives the whole part of the fraction: 0 unless the base is 1 or -1.
DEVICE int64_t integer_power(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : (b & 1) != 0 ? -1 : 1;
    uint64_t base = (uint64_t)a, power = 1;
    for (uint64_t rest = (uint64_t)b; rest != 0; rest >>= 1) {
        if ((rest & 1) != 0) power *= base;
        base *= base;
    }
    return (int64_t)power;
}

/// With the divisor's sign; 0 for a divisor of 0, and for -1, whose quotient may be out of range.
DEVICE int64_t integer_remainder(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
}

/// With the divisor's sign, rounded once; 0 has that of `a`.
DEVICE float real_remainder(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

/// C's pow, of a signalling NaN too.
DEVICE float real_power(float a, float b) { return a == 1.0f || b == 0.0f ? 1.0f : powf(a, b); }

NUMBER(add, a + b, sum(a, b))
NUMBER(sub, a - b, difference(a, b))
NUMBER(mul, a* b, product(a, b))
REAL(div, a / b)
NUMBER(minimum, a <= b || a != a ? a : b, a < b ? a : b) // NaN, if there is one
NUMBER(maximum, a >= b || a != a ? a : b, a > b ? a : b)
NUMBER(remainder, real_remainder(a, b), integer_remainder(a, b))
NUMBER(pow, real_power(a, b), integer_power(a, b))
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
LOGIC(logical_and, &)
LOGIC(logical_or, |)
LOGIC(logical_xor, ^)

// --- Where --------------------------------------------------------------------------------------

/// As many conditions of a byte as a vector of T has elements.
template <class T> DEVICE uint32_t load_conditions(const element_args& args, int64_t at) {
    constexpr int N = lanes_of<T>;
    const auto bytes = load_operand<uint8_t, N>(args, 0, at);
    uint32_t bits = 0;
    UNROLL
    for (int n = 0; n < N; ++n)
        bits |= (bytes.get(n) != 0 ? 1u : 0u) << n;
    return bits;
}

template <class T> DEVICE void where_tail(const element_args& args) {
    if (grid_first() >= args.tail) return;
    const int64_t at = args.tail_begin + grid_first();
    const bool yes = ((const uint8_t*)args.operands[0])[args.is_repeated[0] ? 0 : at] != 0;
    const T* side = (const T*)(yes ? args.operands[1] : args.operands[2]);
    const bool repeat = yes ? args.is_repeated[1] : args.is_repeated[2];
    ((T*)args.out)[at] = side[repeat ? 0 : at];
}

/// Of items that are moved as they are.
template <class T> DEVICE void where_vectors(const element_args& args) {
    constexpr int N = lanes_of<T>, READS = BERTH_CUDA_WHERE_READS;
    where_tail<T>(args);
    const int64_t last = args.walk.count - 1;
    const int64_t a_round = (int64_t)thread_count() * READS;
    const int64_t step = block_count() * a_round;
    for (int64_t first = block_index() * a_round + thread_index(); first <= last; first += step) {
        uint32_t conditions[READS];
        pack<T, N> yes[READS], no[READS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            const auto place = walk_near<3>(args.walk, at < last ? at : last);
            yes[r] = load_operand<T, N>(args, 1, place.of[1]);
            no[r] = load_operand<T, N>(args, 2, place.of[2]);
            conditions[r] = load_conditions<T>(args, place.of[0]);
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            pack<T, N> made;
            UNROLL
            for (int n = 0; n < N; ++n)
                made.put(n, (conditions[r] >> n & 1u) != 0 ? yes[r].get(n) : no[r].get(n));
            if (at <= last) store_pack((T*)args.out + at * N, made);
        }
    }
}

DEVICE bool truth_of(float x) { return x != 0.0f; } // NaN is true
DEVICE bool truth_of(int64_t x) { return x != 0; }

template <class Value>
DEVICE void choose_group(const element_args& args, const group_place& place, const group* held) {
    Value yes[GROUP], no[GROUP];
    bool conditions[GROUP];
    each_value(
        held[0], (berth_dtype)args.dtypes[0], conditions, [](auto x) { return truth_of(x); });
    values_of(args, 1, held[1], yes);
    values_of(args, 2, held[2], no);
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        yes[n] = conditions[n] ? yes[n] : no[n];
    store_group(args, place, yes);
}

} // namespace

// --- Kernels ------------------------------------------------------------------------------------

#define KERNELS(name, vector_form, group_form)                                                     \
    KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, name, berth_cuda_element_args) { vector_form(args); }    \
    KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, name##_any, berth_cuda_element_args) { group_form(args); }
#define NUMBER_KERNELS(name, reads)                                                                \
    KERNELS(name, (number_vectors<2, reads, name##_function>), (any_groups<2, name##_function>))
#define REAL_KERNELS(name, reads)                                                                  \
    KERNELS(name, (real_vectors<2, reads, name##_function>), (real_groups<2, name##_function>))
#define MIXED_KERNELS(name, reads)                                                                 \
    KERNELS(name, (real_vectors<2, reads, name##_function>), (any_groups<2, name##_function>))
#define TEST_KERNELS(name, reads)                                                                  \
    KERNELS(name, (test_vectors<2, reads, name##_function>), (any_groups<2, name##_function>))
#define LOGIC_KERNELS(name, reads)                                                                 \
    KERNELS(name,                                                                                  \
            (vectors<2, reads, uint8_t, uint8_t, name##_function>),                                \
            (whole_groups<2, name##_function>))
#define DEFINE(Y, OP, name, KIND, reads) KIND##_KERNELS(name, reads)
BERTH_CUDA_BINARY_MAP(DEFINE, )

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, where, berth_cuda_element_args) {
    with_item(args.item_bytes[1], [&](auto item) { where_vectors<decltype(item)>(args); });
}

KERNEL_OF(BERTH_CUDA_ELEMENT_THREADS, where_any, berth_cuda_element_args) {
    for (int64_t at = grid_first(); at < args.group_count; at += grid_step()) {
        const group_place place = find_group(args, at);
        group held[3];
        load_groups<3>(args, place, held);
        if (args.is_real)
            choose_group<float>(args, place, held);
        else
            choose_group<int64_t>(args, place, held);
    }
}
