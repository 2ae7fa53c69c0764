// SPDX-License-Identifier: Apache-2.0
// Reads the calls and results that make_values.py stored.
#include "torch_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static void take(torch_file* file, void* target, size_t size) {
    if (size > file->size - file->at) fail_msg("the file of stored values is cut off");
    memcpy(target, file->bytes + file->at, size);
    file->at += size;
}

static uint8_t take_u8(torch_file* file) {
    uint8_t value;
    take(file, &value, sizeof value);
    return value;
}

berth_dtype torch_dtype(int32_t number) {
    static const berth_dtype dtypes[] = {
        BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
    const int32_t count = (int32_t)(sizeof dtypes / sizeof dtypes[0]);
    return number >= 0 && number < count ? dtypes[number] : BERTH_DTYPE_COUNT;
}

static void take_tensor(torch_file* file, torch_tensor* out) {
    out->dtype = torch_dtype(take_u8(file));
    assert_true(out->dtype < BERTH_DTYPE_COUNT);
    out->rank = take_u8(file);
    assert_true(out->rank <= BERTH_MAX_RANK);
    take(file, out->dims, (size_t)out->rank * sizeof out->dims[0]);
    out->count = 1;
    for (int32_t d = 0; d < out->rank; ++d)
        out->count *= out->dims[d];
    out->bytes = (uint64_t)out->count * berth_dtype_query_info(out->dtype)->block_bytes;
    out->data = file->bytes + file->at;
    if (out->bytes > file->size - file->at) fail_msg("the file of stored values is cut off");
    file->at += out->bytes;
}

static size_t take_tensors(torch_file* file, torch_tensor* out) {
    const size_t count = take_u8(file);
    assert_true(count <= TORCH_MOST_TENSORS);
    for (size_t i = 0; i < count; ++i)
        take_tensor(file, &out[i]);
    return count;
}

bool torch_file_open(torch_file* file, const char* path) {
    *file = (torch_file){0};
    FILE* stream = fopen(path, "rb");
    if (stream == NULL) return false;
    bool is_read = fseek(stream, 0, SEEK_END) == 0;
    const long size = is_read ? ftell(stream) : -1;
    is_read = size >= 8 && fseek(stream, 0, SEEK_SET) == 0;
    if (is_read) file->bytes = malloc((size_t)size);
    is_read = file->bytes != NULL && fread(file->bytes, 1, (size_t)size, stream) == (size_t)size;
    fclose(stream);
    file->size = (size_t)(size < 0 ? 0 : size);
    if (!is_read || memcmp(file->bytes, "BTHV", 4) != 0) return false;
    file->at = 4;
    take(file, &file->left, sizeof file->left);
    return true;
}

bool torch_file_next(torch_file* file, torch_case* out) {
    if (file->left == 0) {
        assert_int_equal(file->at, file->size);
        return false;
    }
    --file->left;
    const size_t length = take_u8(file);
    assert_true(length < sizeof out->name);
    take(file, out->name, length);
    out->name[length] = '\0';
    out->param_count = take_u8(file);
    assert_true(out->param_count <= TORCH_MOST_PARAMS);
    take(file, out->params, out->param_count * sizeof out->params[0]);
    out->input_count = take_tensors(file, out->inputs);
    out->output_count = take_tensors(file, out->outputs);
    return true;
}
