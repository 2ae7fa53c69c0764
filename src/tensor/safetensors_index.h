// SPDX-License-Identifier: Apache-2.0
// What the header of a safetensors file says: names, types, shapes, and where the bytes are.
//
// A file is the header's length (u64), the header (a JSON object), and the bytes of all tensors one
// after another.
#ifndef BERTH_TENSOR_SAFETENSORS_INDEX_H
#define BERTH_TENSOR_SAFETENSORS_INDEX_H

#include "base/vec.h"
#include "berth/dtype.h"

#define BERTH_SAFETENSORS_MAX_HEADER_BYTES 100000000u ///< the format's own limit
#define BERTH_SAFETENSORS_METADATA "__metadata__"     ///< the name that no tensor may have

/// A tensor of the file.
typedef struct berth_safetensors_item {
    char* name;
    char dtype_text[16]; ///< as in the file
    berth_dtype dtype;   ///< BERTH_DTYPE_COUNT if Berth has no such type
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
    uint64_t begin; ///< of its bytes in the data, which ends with `end` of the last item
    uint64_t end;
} berth_safetensors_item;
BERTH_VEC_DEFINE(berth_safetensors_item_vec, berth_safetensors_item);

/// An entry of the metadata.
typedef struct berth_safetensors_pair {
    char* key;
    char* value;
} berth_safetensors_pair;
BERTH_VEC_DEFINE(berth_safetensors_pair_vec, berth_safetensors_pair);

/// A header that has been read. Owns its texts.
typedef struct berth_safetensors_index {
    const berth_host* host;           ///< borrowed
    uint64_t data_offset;             ///< of the data in the file
    berth_safetensors_item_vec items; ///< in the order of their bytes
    berth_safetensors_pair_vec pairs; ///< in the order of the file
    uint32_t* by_name;                ///< [items.count], sorted by their names
} berth_safetensors_index;

/// Reads the header of a file that lies at `file` [size]. Nothing in it is trusted: every byte of
/// the data belongs to exactly one tensor, and to each as many as its type and shape need (where
/// the type is known).
/// Errors: BERTH_ERR_CORRUPT, BERTH_ERR_UNSUPPORTED (a rank that Berth does not have),
///         BERTH_ERR_OUT_OF_MEMORY; `*out_index` is empty then.
BERTH_NODISCARD berth_status berth_safetensors_parse(const berth_host* host,
                                                     const void* file,
                                                     uint64_t size,
                                                     berth_safetensors_index* out_index);

/// Accepts an empty one.
void berth_safetensors_index_fini(berth_safetensors_index* index);

/// Number of the item called `name`; items.count if there is none.
size_t berth_safetensors_index_find(const berth_safetensors_index* index, const char* name);

/// The format's name of an element type; NULL if it has none.
const char* berth_safetensors_dtype_text(berth_dtype dtype);

#endif // BERTH_TENSOR_SAFETENSORS_INDEX_H
