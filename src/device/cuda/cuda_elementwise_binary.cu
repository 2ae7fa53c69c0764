// SPDX-License-Identifier: Apache-2.0
// Two operands with broadcasting: ADD SUB MUL DIV MINIMUM MAXIMUM REMAINDER POW, EQ NE LT LE (GT
// and GE are these, turned), LOGICAL_AND .. LOGICAL_XOR; WHERE. OUTER is MUL.
#include "device/cuda/cuda_elements.cuh"

namespace {

#define REAL(name, expression)                                                                     \
    struct name##_function {                                                                       \
        DEVICE float real(const element_args&, float a, float b) { return expression; }            \
    };
#define NUMBER(name, expression, integer_expression)                                               \
    struct name##_function {                                                                       \
        DEVICE float real(const element_args&, float a, float b) { return expression; }            \
        DEVICE int64_t whole(const element_args&, int64_t a, int64_t b) {                          \
            return integer_expression;                                                             \
        }                                                                                          \
    };
#define COMPARISON(name, sign)                                                                     \
    struct name##_function {                                                                       \
        DEVICE bool real(const element_args&, float a, float b) { return a sign b; }               \
        DEVICE bool whole(const element_args&, int64_t a, int64_t b) { return a sign b; }          \
    };
#define LOGIC(name, sign)                                                                          \
    struct name##_function {                                                                       \
        DEVICE bool whole(const element_args&, int64_t a, int64_t b) {                             \
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

DEVICE bool is_true(const void* data, berth_dtype dtype, int64_t at) {
    if (is_real_type(dtype)) return load_float(data, dtype, at) != 0.0f; // NaN is true
    return load_integer(data, dtype, at) != 0;
}

DEVICE void where_element(const element_args& args, const walk_place<3>& place, int64_t at) {
    const int chosen = is_true(args.operands[0], (berth_dtype)args.dtypes[0], place.of[0]) ? 1 : 2;
    const void* const from = chosen == 1 ? args.operands[1] : args.operands[2];
    const berth_dtype dtype = (berth_dtype)(chosen == 1 ? args.dtypes[1] : args.dtypes[2]);
    const int64_t there = chosen == 1 ? place.of[1] : place.of[2];
    const berth_dtype meeting = (berth_dtype)args.meeting;
    if (args.is_real)
        store(args.out, meeting, at, load_real(from, dtype, there, meeting));
    else
        store(args.out, meeting, at, load_whole(from, dtype, there, meeting));
}

/// As many conditions of a byte as T has lanes in a vector.
template <class T> DEVICE uint32_t load_conditions(const element_args& args, int64_t at) {
    constexpr int N = lanes_of<T>;
    const uint8_t* from = (const uint8_t*)args.operands[0] + at;
    if (args.is_repeated[0]) return *from != 0 ? (1u << N) - 1u : 0u;
    const auto bytes = *(const lanes<uint8_t, N>*)from;
    uint32_t bits = 0;
    UNROLL
    for (int n = 0; n < N; ++n)
        bits |= (bytes.of[n] != 0 ? 1u : 0u) << n;
    return bits;
}

/// Of items that are moved as they are.
template <class T> DEVICE void where_vectors(const element_args& args) {
    constexpr int N = lanes_of<T>;
    const T* const sides[2] = {(const T*)args.operands[1], (const T*)args.operands[2]};
    if (grid_first() < args.tail) {
        const int64_t at = args.tail_begin + grid_first();
        const bool yes = ((const uint8_t*)args.operands[0])[args.is_repeated[0] ? 0 : at] != 0;
        const bool repeat = yes ? args.is_repeated[1] : args.is_repeated[2];
        ((T*)args.out)[at] = (yes ? sides[0] : sides[1])[repeat ? 0 : at];
    }
    for (int64_t at = grid_first(); at < args.walk.count; at += grid_step()) {
        const auto place = vector_place<3>(args, at);
        const uint32_t conditions = load_conditions<T>(args, place.of[0]);
        const words a = load_words<T>(sides[0], place.of[1], args.is_repeated[1]);
        const words b = load_words<T>(sides[1], place.of[2], args.is_repeated[2]);
        words made;
        UNROLL
        for (int n = 0; n < N; ++n) {
            const T yes = element_of<T>(a.of, n), no = element_of<T>(b.of, n);
            put_element<T>(made.of, n, (conditions >> n & 1u) != 0 ? yes : no);
        }
        ((words*)args.out)[at] = made;
    }
}

} // namespace

// --- Kernels ------------------------------------------------------------------------------------

#define THREADS 256

#define KERNELS(name, vector_form, element_form)                                                   \
    KERNEL_OF(THREADS, name, berth_cuda_element_args) { vector_form(args); }                       \
    KERNEL_OF(THREADS, name##_any, berth_cuda_element_args) { element_form(args); }
#define NUMBER_KERNELS(name)                                                                       \
    KERNELS(name, (number_vectors<2, 2, name##_function>), (any_elements<2, name##_function>))
// Functions that take much computing, on integers more yet.
#define COSTLY_KERNELS(name)                                                                       \
    KERNELS(name, (real_vectors<2, 1, name##_function>), (any_elements<2, name##_function>))
#define TEST_KERNELS(name)                                                                         \
    KERNELS(name, (test_vectors<2, 2, name##_function>), (any_elements<2, name##_function>))
#define LOGIC_KERNELS(name)                                                                        \
    KERNELS(name,                                                                                  \
            (vectors<2, 1, uint8_t, uint8_t, name##_function>),                                    \
            (whole_elements<2, name##_function>))

NUMBER_KERNELS(add)
NUMBER_KERNELS(sub)
NUMBER_KERNELS(mul)
NUMBER_KERNELS(minimum)
NUMBER_KERNELS(maximum)
COSTLY_KERNELS(remainder)
COSTLY_KERNELS(pow)
KERNELS(div, (real_vectors<2, 2, div_function>), (real_elements<2, div_function>))
TEST_KERNELS(eq)
TEST_KERNELS(ne)
TEST_KERNELS(lt)
TEST_KERNELS(le)
LOGIC_KERNELS(logical_and)
LOGIC_KERNELS(logical_or)
LOGIC_KERNELS(logical_xor)

KERNEL_OF(THREADS, where, berth_cuda_element_args) {
    if (args.meeting == BERTH_F32 || args.meeting == BERTH_I32)
        where_vectors<uint32_t>(args);
    else if (args.meeting == BERTH_F16 || args.meeting == BERTH_BF16)
        where_vectors<uint16_t>(args);
    else if (args.meeting == BERTH_I64)
        where_vectors<uint64_t>(args);
    else
        where_vectors<uint8_t>(args);
}

KERNEL_OF(THREADS, where_any, berth_cuda_element_args) {
    for (int64_t i = grid_first(); i < args.walk.count; i += grid_step())
        where_element(args, walk_to<3>(args.walk, i), i);
}
