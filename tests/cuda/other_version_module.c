// SPDX-License-Identifier: Apache-2.0
// A module as a later version of Berth would bring it: the door is the same, what is behind is not.
#include "berth/version.h"
#include "device/cuda/cuda_module.h"

BERTH_API const berth_cuda_module* berth_cuda_module_query_v1(const berth_cuda_core* core);

const berth_cuda_module* berth_cuda_module_query_v1(const berth_cuda_core* core) {
    static const berth_cuda_module module = {
        .abi_version = BERTH_CUDA_MODULE_ABI_VERSION,
        .version = BERTH_VERSION + 1,
        .create = NULL, // so that a core that does not look crashes
    };
    (void)core;
    return &module;
}
