// SPDX-License-Identifier: Apache-2.0
// SUM MEAN PROD VAR LOGSUMEXP.
#include "device/cuda/cuda_row_reduce.cuh"

REDUCE_FLOATS(sum_floats, fold_sum_floats)
REDUCE_FLOATS(prod_floats, fold_prod_floats)
REDUCE_FLOATS(variance, fold_variance)
REDUCE_FLOATS(logsumexp, fold_powers)
REDUCE_INTEGERS(sum_integers, fold_sum_integers)
REDUCE_INTEGERS(prod_integers, fold_prod_integers)
