// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, loaded by hand when the first one asks for it: what is used where
// results may depend on the number of rows. Where it is not found, or does not take a product, the
// caller's own kernels do.
#ifndef BERTH_DEVICE_CUDA_BLAS_H
#define BERTH_DEVICE_CUDA_BLAS_H

#include "base/host.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_launch.h"

typedef struct berth_cuda_blas berth_cuda_blas;

/// `library` is a name for the system's linker or a path, or NULL: whichever version is found. It
/// is loaded at the first product, since it is large and most programs never ask for it.
BERTH_NODISCARD berth_status berth_cuda_blas_create(const berth_host* host,
                                                    const char* library,
                                                    berth_cuda_blas** out_blas);

/// Accepts NULL. Where the device's context is not current (the driver has ended, or the process is
/// a forked child) the library is not asked, and what it holds is given up.
void berth_cuda_blas_destroy(berth_cuda_blas* blas, bool has_context);

/// Enqueues a product; the device's context is current. False if nothing has been enqueued.
/// Threads: any.
/// Cost: a few microseconds, once the library has seen such a product.
bool berth_cuda_blas_multiply(berth_cuda_blas* blas,
                              cu_stream stream,
                              const berth_cuda_library_product* product,
                              void* workspace,
                              uint64_t workspace_bytes);

#endif // BERTH_DEVICE_CUDA_BLAS_H
