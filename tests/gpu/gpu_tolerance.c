// SPDX-License-Identifier: Apache-2.0
// Bounds by what an op does with its operands: copies and comparisons are exact; functions of one
// number have a relative error; sums have one that grows with what is added up and, as rounding
// errors have either sign, with the root of how much that is.
#include "gpu/gpu_tolerance.h"

#include "device/kernel_kit.h"

typedef enum error_kind {
    EXACT,
    POINT,     ///< a function of one number, or of two
    BOUNDED,   ///< the same with results of up to 1, whose error is absolute
    FOLD,      ///< a sum of elements
    MEAN,      ///< a sum of elements over their number
    SQUARES,   ///< a sum of squares over their number
    PRODUCTS,  ///< a sum of products of two operands
    NORM,      ///< elements over the root of a mean of squares
    LOGARITHM, ///< of a sum of powers
    MIX,       ///< a weighted mean of the third operand's elements
} error_kind;

/// Of ops that are not named here results are exact.
static const error_kind kinds[BERTH_OP_COUNT] = {
    [BERTH_OP_RAND] = POINT,
    [BERTH_OP_RANDN] = BOUNDED,
    [BERTH_OP_CAST] = EXACT,
    [BERTH_OP_AFFINE] = MEAN,
    [BERTH_OP_EXP] = POINT,
    [BERTH_OP_LOG] = BOUNDED,
    [BERTH_OP_LOG1P] = BOUNDED,
    [BERTH_OP_SQRT] = POINT,
    [BERTH_OP_RSQRT] = POINT,
    [BERTH_OP_RECIPROCAL] = POINT,
    [BERTH_OP_SIN] = BOUNDED,
    [BERTH_OP_COS] = BOUNDED,
    [BERTH_OP_TANH] = BOUNDED,
    [BERTH_OP_SIGMOID] = BOUNDED,
    [BERTH_OP_SILU] = BOUNDED,
    [BERTH_OP_GELU] = BOUNDED,
    [BERTH_OP_GELU_TANH] = BOUNDED,
    [BERTH_OP_DIV] = POINT,
    [BERTH_OP_POW] = POINT,
    [BERTH_OP_OUTER] = POINT,
    [BERTH_OP_SUM] = FOLD,
    [BERTH_OP_MEAN] = MEAN,
    [BERTH_OP_PROD] = POINT,
    [BERTH_OP_VAR] = SQUARES,
    [BERTH_OP_LOGSUMEXP] = LOGARITHM,
    [BERTH_OP_SOFTMAX] = BOUNDED,
    [BERTH_OP_LOG_SOFTMAX] = LOGARITHM,
    [BERTH_OP_CUMSUM] = FOLD,
    [BERTH_OP_LAYER_NORM] = NORM,
    [BERTH_OP_RMS_NORM] = NORM,
    [BERTH_OP_MATMUL] = PRODUCTS,
    [BERTH_OP_LINEAR] = PRODUCTS,
    [BERTH_OP_ROPE] = MEAN,
    [BERTH_OP_ATTENTION] = MIX,
    [BERTH_OP_PAGED_ATTENTION] = MIX,
    [BERTH_OP_SCATTER_ADD] = FOLD,
};

/// The largest magnitude of a number that is finite.
static double largest_of(const berth_view* view) {
    double largest = 0;
    const int64_t count = kit_count(view);
    for (int64_t i = 0; i < count; ++i) {
        const double value = fabs(kit_get(view, i));
        if (isfinite(value) && value > largest) largest = value;
    }
    return largest;
}

/// How many elements of operand 0 come together in one of the output.
static double terms_of(berth_op_id op, const berth_op_call* call) {
    if (call->input_count == 0) return 1;
    const berth_view* in = &call->inputs[0];
    if (op == BERTH_OP_MATMUL || op == BERTH_OP_LINEAR)
        return in->rank > 0 ? (double)in->dims[in->rank - 1] : 1;
    const double results = (double)kit_count(&call->outputs[0]);
    const double terms = (double)kit_count(in);
    // a running sum, and sums into given places, may add everything up
    if (op == BERTH_OP_CUMSUM || op == BERTH_OP_SCATTER_ADD || results < 1) return terms;
    return terms / results;
}

/// Half the distance of neighbouring numbers around 1.
static double precision_of(berth_dtype dtype) {
    return dtype == BERTH_F16 ? 0x1p-11 : dtype == BERTH_BF16 ? 0x1p-8 : 0x1p-24;
}

gpu_tolerance gpu_tolerance_of(berth_op_id op, const berth_op_call* call) {
    const berth_dtype dtype = call->outputs[0].dtype;
    const error_kind kind = kinds[op];
    if (kind == EXACT || !berth_dtype_is_float(dtype)) return (gpu_tolerance){0, 0};
    const double step = 32 * precision_of(BERTH_F32); // of what is computed in f32
    const double root = sqrt(terms_of(op, call) + 1);
    gpu_tolerance allowed = {step, 0};
    switch (kind) {
    case BOUNDED:
        allowed.absolute = step;
        break;
    case FOLD:
        allowed.absolute = step * root * largest_of(&call->inputs[0]);
        if (op == BERTH_OP_SCATTER_ADD)
            allowed.absolute += step * root * largest_of(&call->inputs[2]);
        break;
    case MEAN:
        allowed.absolute = step * (1 + largest_of(&call->inputs[0]));
        break;
    case SQUARES:
        allowed.absolute = step * pow(largest_of(&call->inputs[0]), 2);
        break;
    case PRODUCTS:
        allowed.absolute =
            step * root * largest_of(&call->inputs[0]) * largest_of(&call->inputs[1]);
        break;
    case NORM: // the mean of squares may be as small as what is added to it, often 1e-5
        allowed.absolute = step * 320 * largest_of(&call->inputs[0]);
        allowed.relative = 4 * step;
        break;
    case LOGARITHM:
        allowed.absolute = step * (1 + largest_of(&call->inputs[0]));
        break;
    case MIX: // scores and weights between the products have the operands' type
        allowed.absolute =
            (step + 4 * precision_of(call->inputs[0].dtype)) * largest_of(&call->inputs[2]);
        break;
    case EXACT:
    case POINT:
        if (op == BERTH_OP_PROD) allowed.relative *= root * root;
        break;
    }
    return allowed;
}

/// The distance of neighbouring numbers of a type around `value`.
static double place_of(berth_dtype dtype, double value) {
    const double smallest = dtype == BERTH_F16    ? 0x1p-24
                            : dtype == BERTH_BF16 ? 0x1p-133
                                                  : 0x1p-149;
    const double place = 2 * precision_of(dtype) * fabs(value);
    return place > smallest ? place : smallest;
}

/// True if an infinite number is fine beside `other`: the last ones before it are rounded to it.
static bool is_nearly_infinite(berth_dtype dtype, double infinite, double other) {
    const double most = dtype == BERTH_F16 ? 65504 : 0x1.fep127;
    return signbit(infinite) == signbit(other) && fabs(other) >= 0.999 * most;
}

double gpu_tolerance_share(gpu_tolerance allowed,
                           berth_dtype dtype,
                           double expected,
                           double found) {
    if (expected == found || (isnan(expected) && isnan(found))) return 0;
    if (allowed.relative <= 0 && allowed.absolute <= 0) return (double)INFINITY;
    if (isinf(expected) != isinf(found) && !isnan(expected) && !isnan(found)) {
        const bool is_fine = isinf(expected) ? is_nearly_infinite(dtype, expected, found)
                                             : is_nearly_infinite(dtype, found, expected);
        return is_fine ? 1 : (double)INFINITY;
    }
    const double slack =
        allowed.relative * fabs(expected) + allowed.absolute + place_of(dtype, expected);
    const double share = fabs(expected - found) / slack;
    return isnan(share) ? (double)INFINITY : share;
}
