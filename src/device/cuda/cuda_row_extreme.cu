// SPDX-License-Identifier: Apache-2.0
// MAX MIN ARGMAX ARGMIN.
#include "device/cuda/cuda_row_reduce.cuh"

namespace {
template <class T> using fold_max = fold_extreme<T, false>;
template <class T> using fold_min = fold_extreme<T, true>;
template <class T> using fold_argmax = fold_place<T, false>;
template <class T> using fold_argmin = fold_place<T, true>;
} // namespace

REDUCE_FLOATS(max_floats, fold_max)
REDUCE_FLOATS(min_floats, fold_min)
REDUCE_FLOATS(argmax_floats, fold_argmax)
REDUCE_FLOATS(argmin_floats, fold_argmin)
REDUCE_INTEGERS(max_integers, fold_max)
REDUCE_INTEGERS(min_integers, fold_min)
REDUCE_INTEGERS(argmax_integers, fold_argmax)
REDUCE_INTEGERS(argmin_integers, fold_argmin)
