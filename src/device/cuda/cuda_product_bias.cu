// SPDX-License-Identifier: Apache-2.0
// Adds a bias to a product that a library has computed without.
#include "device/cuda/cuda_weights.cuh"

KERNEL(product_bias, berth_cuda_bias_args) {
    for (int64_t i = grid_first(); i < args.count; i += grid_step()) {
        float value[1];
        load_floats(args.dtype, args.out, i, 1, false, 1, value);
        store_float(args.dtype, args.out, i, value[0] + args.bias[i % args.columns]);
    }
}
