// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a .npy file. What a header promises is there.
#include "fuzz_target.h"

#include <stdlib.h>

#include "tensor/npy.h"

static volatile uint64_t sink; // keeps the reads

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    berth_npy npy;
    if (berth_npy_parse(data, size, &npy) != BERTH_OK) return 0;
    if (npy.data_offset > size || npy.data_bytes != size - npy.data_offset) abort();
    for (uint64_t i = 0; i < npy.data_bytes; i++)
        sink += data[npy.data_offset + i];
    uint64_t count = 1;
    for (int32_t i = 0; i < npy.rank; i++)
        count *= (uint64_t)npy.dims[i];
    if (count * berth_dtype_query_info(npy.dtype)->block_bytes != npy.data_bytes) abort();
    char header[BERTH_NPY_HEADER_BYTES];
    if (berth_npy_write_header(header, npy.dtype, npy.rank, npy.dims) == 0) abort();
    return 0;
}
