// SPDX-License-Identifier: Apache-2.0
// Gathers every family's launchers, once.
#include <pthread.h>

#include "device/cuda/cuda_launch.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static berth_cuda_table table;

static void fill(void) {
    berth_cuda_fill_elementwise(&table);
    berth_cuda_fill_row(&table);
    berth_cuda_fill_index(&table);
    berth_cuda_fill_matrix(&table);
    berth_cuda_fill_attention(&table);
    berth_cuda_fill_sort(&table);
}

const berth_cuda_table* berth_cuda_kernel_table(void) {
    pthread_once(&once, fill);
    return &table;
}
