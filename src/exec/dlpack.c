// SPDX-License-Identifier: Apache-2.0
// DLPack: other libraries' tensors in, ours out.
#include "berth/dlpack.h"

#include <dlpack/dlpack.h>
#include <inttypes.h>

#include "base/error.h"
#include "exec/foreign.h"

/// The code of booleans, which headers of version 0.6 do not name.
#define CODE_BOOL 6u

typedef struct type_pair {
    uint8_t code;
    uint8_t bits;
    berth_dtype dtype;
} type_pair;

static const type_pair type_pairs[] = {
    {kDLFloat, 32, BERTH_F32},
    {kDLFloat, 16, BERTH_F16},
    {kDLBfloat, 16, BERTH_BF16},
    {kDLInt, 8, BERTH_I8},
    {kDLInt, 32, BERTH_I32},
    {kDLInt, 64, BERTH_I64},
    {kDLUInt, 8, BERTH_U8},
    {CODE_BOOL, 8, BERTH_BOOL},
};
enum { TYPE_PAIRS = sizeof type_pairs / sizeof type_pairs[0] };

static berth_status import_type(DLDataType type, berth_dtype* out_dtype) {
    static const char* const kinds[] = {
        "int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    *out_dtype = BERTH_DTYPE_COUNT;
    for (size_t i = 0; i < TYPE_PAIRS; ++i)
        if (type.code == type_pairs[i].code && type.bits == type_pairs[i].bits)
            *out_dtype = type_pairs[i].dtype;
    if (type.code >= sizeof kinds / sizeof kinds[0])
        return berth_fail(
            BERTH_ERR_UNSUPPORTED, "there is no element type for code %u", (unsigned)type.code);
    if (*out_dtype == BERTH_DTYPE_COUNT || type.lanes != 1)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "there is no element type for %s%u with %u lane(s): convert it first",
                          kinds[type.code],
                          (unsigned)type.bits,
                          (unsigned)type.lanes);
    return BERTH_OK;
}

static DLDataType export_type(berth_dtype dtype) {
    DLDataType type = {.lanes = 1};
    for (size_t i = 0; i < TYPE_PAIRS; ++i) {
        if (type_pairs[i].dtype != (dtype == BERTH_BOOL ? BERTH_U8 : dtype)) continue;
        type.code = type_pairs[i].code;
        type.bits = type_pairs[i].bits;
    }
    return type;
}

// --- In -----------------------------------------------------------------------------------------

/// berth_deleter of a tensor that came in.
static void give_back(void* self, void* data) {
    (void)data;
    DLManagedTensor* managed = self;
    if (managed->deleter != NULL) managed->deleter(managed);
}

static berth_status describe(const DLTensor* tensor, berth_foreign* out) {
    if (tensor->device.device_type != kDLCPU)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "the memory is on device %d of type %d: copy it to the host (type %d)",
                          tensor->device.device_id,
                          (int)tensor->device.device_type,
                          (int)kDLCPU);
    BERTH_TRY(import_type(tensor->dtype, &out->dtype));
    const uintptr_t at = (uintptr_t)tensor->data;
    if (tensor->byte_offset > UINTPTR_MAX - at)
        return berth_fail(BERTH_ERR_OVERFLOW,
                          "an offset of %" PRIu64 " bytes ends beyond all addresses",
                          tensor->byte_offset);
    // without memory the offset means nothing, and must not hide that
    out->data = at == 0 ? NULL : (unsigned char*)tensor->data + tensor->byte_offset;
    out->limit_bytes = UINT64_MAX;
    out->rank = tensor->ndim;
    out->dims = tensor->shape;
    out->strides = tensor->strides;
    return BERTH_OK;
}

berth_tensor* berth_tensor_from_dlpack(berth_context* context,
                                       struct DLManagedTensor* managed,
                                       bool read_only) {
    if (context == NULL || berth_home_is_forked(&context->home)) return NULL;
    berth_foreign foreign = {
        .is_read_only = read_only, .deleter = give_back, .deleter_self = managed};
    if (berth_context_error(context) != BERTH_OK) return NULL;
    const berth_status status =
        managed != NULL ? describe(&managed->dl_tensor, &foreign)
                        : berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the managed tensor is NULL");
    return berth_foreign_bring_in(context, "tensor_from_dlpack", status, &foreign);
}

// --- Out ----------------------------------------------------------------------------------------

/// A tensor that has been lent.
typedef struct loan {
    DLManagedTensor managed;
    berth_tensor* tensor; ///< one reference and one mark of its storage are the loan's
    int64_t dims[BERTH_MAX_RANK];
    int64_t strides[BERTH_MAX_RANK];
} loan;

/// Any thread; neither waits for a lock nor fails.
static void end_loan(DLManagedTensor* managed) {
    if (managed == NULL) return;
    loan* ended = managed->manager_ctx;
    berth_tensor* tensor = ended->tensor;
    if (berth_home_is_forked(tensor->home)) return;
    atomic_fetch_sub_explicit(&tensor->storage->marks, 1, memory_order_acq_rel);
    // before the release: the host may end with the tensor
    berth_host_free(tensor->home->host, ended);
    berth_release(tensor);
}

static void fill_in(loan* made, berth_tensor* tensor) {
    made->tensor = tensor;
    for (uint32_t i = 0; i < tensor->rank; ++i) {
        made->dims[i] = tensor->dims[i];
        made->strides[i] = tensor->strides[i];
    }
    made->managed = (DLManagedTensor){
        .dl_tensor = {.data = berth_tensor_data(tensor),
                      .device = {.device_type = kDLCPU},
                      .ndim = tensor->rank,
                      .dtype = export_type((berth_dtype)tensor->dtype),
                      .shape = made->dims,
                      .strides = made->strides},
        .manager_ctx = made,
        .deleter = end_loan,
    };
}

static berth_status check_lendable(const berth_tensor* tensor) {
    BERTH_TRY(berth_tensor_check(tensor));
    const berth_dtype dtype = (berth_dtype)tensor->dtype;
    if (!berth_dtype_is_plain(dtype))
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "DLPack has no type for %s: export a berth_cast() to f32",
                          berth_dtype_info_of(dtype)->name);
    if (tensor->storage->is_read_only)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "the tensor is read-only, which DLPack cannot say: export a "
                          "berth_copy() of it");
    return BERTH_OK;
}

berth_status berth_tensor_to_dlpack(berth_tensor* tensor, struct DLManagedTensor** out_managed) {
    if (out_managed == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_managed = NULL;
    BERTH_TRY(check_lendable(tensor));
    loan* made = berth_host_calloc(tensor->home->host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for an export");
    void* data; // pins the storage where it is
    const berth_status status = berth_tensor_map(tensor, &data);
    if (status != BERTH_OK) {
        berth_host_free(tensor->home->host, made);
        return status;
    }
    fill_in(made, berth_retain(tensor));
    *out_managed = &made->managed;
    return BERTH_OK;
}
