// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a safetensors file. What opens is walked whole.
#include "fuzz_target.h"

#include <stdlib.h>

#include "tensor/safetensors_index.h"

static volatile uint64_t sink; // keeps the reads

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    berth_safetensors_index index;
    if (berth_safetensors_parse(berth_host_default(), data, size, &index) != BERTH_OK) return 0;
    uint64_t end = 0;
    for (size_t i = 0; i < index.items.count; i++) {
        const berth_safetensors_item* item = &index.items.items[i];
        if (item->begin != end || item->end < end) abort();
        for (; end < item->end; end++)
            sink += data[index.data_offset + end];
        if (berth_safetensors_index_find(&index, item->name) != i) abort();
    }
    if (index.data_offset + end != size) abort();
    berth_safetensors_index_fini(&index);
    return 0;
}
