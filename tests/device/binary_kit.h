// SPDX-License-Identifier: Apache-2.0
// What the tests of kernels on two operands share: operands that broadcast, and what is to come of
// two values, computed one by one in double and int64_t.
#ifndef BERTH_TESTS_DEVICE_BINARY_KIT_H
#define BERTH_TESTS_DEVICE_BINARY_KIT_H

#include "device/kernel_kit.h"
#include "ops/promote.h"

enum { PAIR_TYPE_COUNT = 8 };
static const berth_dtype pair_types[PAIR_TYPE_COUNT] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};

// --- Values --------------------------------------------------------------------------------------

/// An element, as a number of either kind.
typedef struct pair_value {
    berth_dtype dtype;
    double real;
    int64_t whole; ///< of integers and bool
} pair_value;

/// The value of `bits` kept in an integer type.
static inline int64_t pair_wrap(berth_dtype dtype, int64_t bits) {
    switch ((int)dtype) {
    case BERTH_I32:
        return (int32_t)(uint32_t)bits;
    case BERTH_I8:
        return (int8_t)(uint8_t)bits;
    case BERTH_U8:
        return (uint8_t)bits;
    default:
        return bits;
    }
}

static inline pair_value pair_load(berth_dtype dtype, const void* at) {
    pair_value value = {.dtype = dtype, .real = kit_load(dtype, at)};
    if (dtype == BERTH_I64)
        memcpy(&value.whole, at, sizeof value.whole);
    else if (!berth_dtype_is_float(dtype))
        value.whole = (int64_t)value.real;
    return value;
}

/// Rounded to a float type.
static inline double pair_round(berth_dtype dtype, double value) {
    unsigned char bytes[8];
    kit_store(dtype, bytes, value);
    return kit_load(dtype, bytes);
}

/// The value in the type where it meets another.
static inline pair_value pair_convert(pair_value value, berth_dtype dtype) {
    pair_value result = {.dtype = dtype};
    if (dtype == BERTH_BOOL) {
        result.whole = berth_dtype_is_float(value.dtype) ? value.real != 0 : value.whole != 0;
        result.real = (double)result.whole;
    } else if (berth_dtype_is_float(dtype)) {
        const bool is_float = berth_dtype_is_float(value.dtype);
        result.real = pair_round(dtype, is_float ? value.real : (double)(float)value.whole);
    } else {
        result.whole = pair_wrap(dtype, value.whole);
        result.real = (double)result.whole;
    }
    return result;
}

// --- What is to come of them ---------------------------------------------------------------------

static inline double pair_float(berth_op_id op, double a, double b) {
    switch ((int)op) {
    case BERTH_OP_ADD:
        return a + b;
    case BERTH_OP_SUB:
        return a - b;
    case BERTH_OP_MUL:
        return a * b;
    case BERTH_OP_DIV:
        return a / b;
    case BERTH_OP_MINIMUM:
        return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    case BERTH_OP_MAXIMUM:
        return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    case BERTH_OP_POW:
        return pow(a, b);
    default:
        break;
    }
    const double rest = fmod(a, b); // exact
    if (rest == 0 || isnan(rest) || (rest < 0) == (b < 0)) return rest;
    return (double)((float)rest + (float)b);
}

static inline int64_t pair_power(berth_dtype dtype, int64_t base, int64_t exponent) {
    if (exponent < 0) {
        if (base == -1) return exponent % 2 == 0 ? 1 : -1;
        return base == 1 ? 1 : 0;
    }
    uint64_t power = 1;
    for (int64_t i = 0; i < exponent; ++i)
        power *= (uint64_t)base;
    return pair_wrap(dtype, (int64_t)power);
}

static inline int64_t pair_integer(berth_op_id op, berth_dtype dtype, int64_t a, int64_t b) {
    switch ((int)op) {
    case BERTH_OP_ADD:
        return pair_wrap(dtype, (int64_t)((uint64_t)a + (uint64_t)b));
    case BERTH_OP_SUB:
        return pair_wrap(dtype, (int64_t)((uint64_t)a - (uint64_t)b));
    case BERTH_OP_MUL:
        return pair_wrap(dtype, (int64_t)((uint64_t)a * (uint64_t)b));
    case BERTH_OP_MINIMUM:
        return a < b ? a : b;
    case BERTH_OP_MAXIMUM:
        return a > b ? a : b;
    case BERTH_OP_POW:
        return pair_power(dtype, a, b);
    default:
        break;
    }
    if (b == 0 || b == -1) return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline bool pair_logic(berth_op_id op, bool a, bool b) {
    if (op == BERTH_OP_LOGICAL_AND || op == BERTH_OP_MUL || op == BERTH_OP_MINIMUM) return a && b;
    return op == BERTH_OP_LOGICAL_XOR ? a != b : a || b;
}

static inline bool pair_order(berth_op_id op, pair_value a, pair_value b) {
    const bool is_float = berth_dtype_is_float(a.dtype);
    const bool less = is_float ? a.real < b.real : a.whole < b.whole;
    const bool equal = is_float ? a.real == b.real : a.whole == b.whole;
    const bool more = is_float ? a.real > b.real : a.whole > b.whole;
    switch ((int)op) {
    case BERTH_OP_EQ:
        return equal;
    case BERTH_OP_NE:
        return !equal;
    case BERTH_OP_LT:
        return less;
    case BERTH_OP_LE:
        return less || equal;
    case BERTH_OP_GT:
        return more;
    default:
        return more || equal;
    }
}

static inline bool pair_is_logic(berth_op_id op) {
    return op >= BERTH_OP_LOGICAL_AND && op <= BERTH_OP_LOGICAL_XOR;
}

/// The type in which operands of two types meet.
static inline berth_dtype pair_meeting(berth_op_id op, berth_dtype a, berth_dtype b) {
    if (pair_is_logic(op)) return BERTH_BOOL;
    const berth_dtype promoted = berth_promote_dtypes(a, b);
    return op == BERTH_OP_DIV ? berth_promote_to_float(promoted) : promoted;
}

static inline bool pair_is_accepted(berth_op_id op, berth_dtype meeting) {
    const bool is_number = op == BERTH_OP_SUB || op == BERTH_OP_REMAINDER || op == BERTH_OP_POW;
    return meeting != BERTH_BOOL || !is_number;
}

static inline berth_dtype pair_result(berth_op_id op, berth_dtype meeting) {
    return op >= BERTH_OP_EQ && op <= BERTH_OP_LOGICAL_XOR ? BERTH_BOOL : meeting;
}

/// Checks what op gave, as element `index` of `out`, for two values that met in a type.
static inline void pair_expect(berth_op_id op,
                               berth_dtype meeting,
                               pair_value x,
                               pair_value y,
                               const berth_view* out,
                               int64_t index) {
    const pair_value a = pair_convert(x, meeting);
    const pair_value b = pair_convert(y, meeting);
    const pair_value found = pair_load(out->dtype, kit_at(out, index));
    if (out->dtype == BERTH_BOOL) {
        const bool is_order = op >= BERTH_OP_EQ && op <= BERTH_OP_GE;
        const bool expected =
            is_order ? pair_order(op, a, b) : pair_logic(op, a.whole != 0, b.whole != 0);
        kit_expect(out, index, expected ? 1 : 0, 0);
    } else if (!berth_dtype_is_float(out->dtype)) {
        const int64_t expected = pair_integer(op, meeting, a.whole, b.whole);
        if (found.whole != expected)
            fail_msg("op %d of %lld and %lld: found %lld, expected %lld",
                     (int)op,
                     (long long)a.whole,
                     (long long)b.whole,
                     (long long)found.whole,
                     (long long)expected);
    } else {
        // in f32, then rounded to the type; a power may be a little off
        const double exact = pair_float(op, a.real, b.real);
        const double expected = pair_round(out->dtype, pair_round(BERTH_F32, exact));
        const bool is_power = op == BERTH_OP_POW && isfinite(expected);
        kit_expect(
            out, index, expected, is_power ? kit_tolerance(out->dtype, expected, 0x1p-24) : 0);
    }
}

// --- Operands ------------------------------------------------------------------------------------

/// An operand whose dimensions broadcast to `dims`: some 1, some left off in front.
static inline kit_tensor pair_operand(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    int64_t own[BERTH_MAX_RANK];
    const bool is_whole = kit_int(0, 2) == 0;
    const int32_t missing = is_whole ? 0 : (int32_t)kit_int(0, rank);
    for (int32_t d = missing; d < rank; ++d)
        own[d - missing] = !is_whole && kit_int(0, 3) == 0 ? 1 : dims[d];
    return kit_strided(dtype, rank - missing, own, false, true);
}

/// What two operands of at most `rank` dimensions broadcast to.
static inline void pair_shape(const berth_view* a,
                              const berth_view* b,
                              int32_t rank,
                              int64_t* out_dims) {
    for (int32_t d = 0; d < rank; ++d) {
        const int32_t in_a = d - (rank - a->rank);
        const int32_t in_b = d - (rank - b->rank);
        const int64_t from_a = in_a >= 0 ? a->dims[in_a] : 1;
        const int64_t from_b = in_b >= 0 ? b->dims[in_b] : 1;
        out_dims[d] = from_a == 1 ? from_b : from_a;
    }
}

/// The element of `operand` that goes with element `index` of the broadcast shape.
static inline pair_value pair_at(const berth_view* operand,
                                 const berth_view* shape,
                                 int64_t index) {
    int64_t offset = 0;
    const int32_t missing = shape->rank - operand->rank;
    for (int32_t d = shape->rank; d-- > 0;) {
        const int64_t at = index % shape->dims[d];
        index /= shape->dims[d];
        if (d >= missing && operand->dims[d - missing] > 1)
            offset += at * operand->strides[d - missing];
    }
    return pair_load(operand->dtype,
                     (unsigned char*)operand->data + offset * (int64_t)kit_bytes(operand->dtype));
}

/// Numbers that are worth being operands of `op`: small, some equal, some 0 or special.
static inline void pair_fill(kit_tensor* tensor, berth_op_id op) {
    static const double specials[] = {0.0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN};
    const berth_dtype dtype = tensor->view.dtype;
    kit_fill(tensor, dtype == BERTH_U8 ? 0 : -9, 9);
    if (!berth_dtype_is_float(dtype)) return;
    const int64_t count = kit_count(&tensor->view);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t kind = kit_int(0, 20);
        void* at = kit_at(&tensor->view, i);
        if (kind < 4) kit_store(dtype, at, (double)kit_int(-3, 3));
        // sums and products of infinities make NaN of another sign on some instruction sets
        if (kind == 5 && (op >= BERTH_OP_EQ || op == BERTH_OP_MINIMUM)) {
            kit_store(dtype, at, specials[kit_int(0, 4)]);
        }
    }
}

#endif // BERTH_TESTS_DEVICE_BINARY_KIT_H
