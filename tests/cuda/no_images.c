// SPDX-License-Identifier: Apache-2.0
// In the place of compiled kernels: the stand-in has them in itself, and loads anything.
#include "device/cuda/cuda_images.h"

static const char nothing[] = "no image";

const berth_cuda_image berth_cuda_images[] = {{"nothing", nothing}};
const size_t berth_cuda_image_count = 1;
