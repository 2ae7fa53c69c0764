// SPDX-License-Identifier: Apache-2.0
// The compiled kernels that the module carries: one fat binary for each .cu file. The build makes
// the table (cmake/BerthCuda.cmake).
#ifndef BERTH_DEVICE_CUDA_IMAGES_H
#define BERTH_DEVICE_CUDA_IMAGES_H

#include <stddef.h>

typedef struct berth_cuda_image {
    const char* name; ///< of the .cu file, without the ending
    const void* data; ///< what the driver loads; it holds its own length
} berth_cuda_image;

extern const berth_cuda_image berth_cuda_images[];
extern const size_t berth_cuda_image_count;

#endif // BERTH_DEVICE_CUDA_IMAGES_H
