// SPDX-License-Identifier: Apache-2.0
// Public reading and writing of .npy files.
#include "base/error.h"
#include "berth/files.h"
#include "exec/api.h"
#include "exec/file_tensor.h"
#include "tensor/npy.h"

/// The tensor of a header that has been checked. In Fortran order the elements are those of the
/// transposed array, row-major.
static berth_tensor* make_tensor(berth_context* context, berth_file_map* map, berth_npy* npy) {
    const int32_t rank = npy->rank;
    int64_t dims[BERTH_MAX_RANK];
    for (int32_t i = 0; i < rank; ++i)
        dims[i] = npy->dims[npy->is_fortran ? rank - 1 - i : i];
    berth_tensor* tensor =
        berth_file_tensor(context, "npy_read", map, npy->data_offset, npy->dtype, rank, dims);
    for (int32_t i = 0; npy->is_fortran && i < rank / 2; ++i)
        tensor = berth_transpose(context, berth_move(tensor), i, rank - 1 - i);
    return tensor;
}

berth_tensor* berth_npy_read(berth_context* context, const char* path) {
    if (context == NULL || berth_context_error(context) != BERTH_OK) return NULL;
    berth_file_map* map;
    berth_npy npy;
    berth_status status = berth_file_map_open(context->home.host, path, &map);
    if (status == BERTH_OK) {
        status = berth_npy_parse(map->data, map->size, &npy);
        if (status != BERTH_OK) berth_fail_prefix(status, "%s", path);
    }
    berth_tensor* tensor = status == BERTH_OK
                               ? make_tensor(context, map, &npy)
                               : berth_api_refuse(context, status, "npy_read", NULL, 0);
    berth_file_map_release(map);
    return tensor;
}

berth_status berth_npy_write(berth_tensor* tensor, const char* path) {
    BERTH_TRY(berth_tensor_check(tensor));
    char header[BERTH_NPY_HEADER_BYTES];
    const berth_dtype dtype = (berth_dtype)tensor->dtype;
    const size_t length = berth_npy_write_header(header, dtype, tensor->rank, tensor->dims);
    if (length == 0)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "NumPy has no element type %s: write berth_cast() of it to f32",
                          berth_dtype_info_of(dtype)->name);
    berth_file_writer writer;
    BERTH_TRY(berth_file_writer_init(&writer, tensor->home->host, &berth_file_ops_system, path));
    berth_status status = berth_file_writer_add(&writer, header, length);
    if (status == BERTH_OK) status = berth_file_write_elements(&writer, tensor);
    return berth_file_writer_finish(&writer, status);
}
