// SPDX-License-Identifier: Apache-2.0
// Public reading and writing of safetensors files.
#include <string.h>

#include "base/error.h"
#include "berth/files.h"
#include "exec/api.h"
#include "exec/file_tensor.h"
#include "tensor/safetensors_header.h"
#include "tensor/safetensors_index.h"

struct berth_safetensors {
    berth_runtime* runtime; ///< retained
    berth_file_map* map;
    berth_safetensors_index index;
};

static berth_status open_file(berth_safetensors* file, const char* path) {
    const berth_host* host = file->runtime->host;
    BERTH_TRY(berth_file_map_open(host, path, &file->map));
    const berth_status status =
        berth_safetensors_parse(host, file->map->data, file->map->size, &file->index);
    return status == BERTH_OK ? status : berth_fail_prefix(status, "%s", path);
}

berth_status berth_safetensors_open(berth_runtime* runtime,
                                    const char* path,
                                    berth_safetensors** out_file) {
    if (out_file == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_file = NULL;
    if (runtime == NULL || path == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a path are needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_safetensors* file = berth_host_calloc(runtime->host, 1, sizeof *file);
    if (file == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to open '%s'", path);
    berth_runtime_retain(runtime);
    file->runtime = runtime;
    const berth_status status = open_file(file, path);
    if (status != BERTH_OK) {
        berth_safetensors_close(file);
        return status;
    }
    *out_file = file;
    return BERTH_OK;
}

void berth_safetensors_close(berth_safetensors* file) {
    if (file == NULL || file->runtime->fork_generation != berth_fork_generation) return;
    berth_runtime* runtime = file->runtime;
    berth_safetensors_index_fini(&file->index);
    berth_file_map_release(file->map);
    berth_host_free(runtime->host, file);
    berth_runtime_drop(runtime);
}

size_t berth_safetensors_count(const berth_safetensors* file) {
    return file != NULL ? file->index.items.count : 0;
}

static berth_status fail_missing(const char* what, size_t index, size_t count) {
    return berth_fail(BERTH_ERR_NOT_FOUND,
                      "there is no %s %zu in the safetensors file, it has %zu",
                      what,
                      index,
                      count);
}

berth_status berth_safetensors_query(const berth_safetensors* file,
                                     size_t index,
                                     berth_safetensors_entry* out_entry) {
    if (out_entry == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_entry = (berth_safetensors_entry){0};
    if (file == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the file is NULL");
    if (index >= file->index.items.count)
        return fail_missing("tensor", index, file->index.items.count);
    const berth_safetensors_item* item = &file->index.items.items[index];
    *out_entry = (berth_safetensors_entry){.name = item->name,
                                           .dtype_text = item->dtype_text,
                                           .dtype = item->dtype,
                                           .rank = item->rank,
                                           .bytes = item->end - item->begin};
    for (int32_t d = 0; d < item->rank; ++d)
        out_entry->dims[d] = item->dims[d];
    return BERTH_OK;
}

berth_status berth_safetensors_find(const berth_safetensors* file,
                                    const char* name,
                                    size_t* out_index) {
    if (out_index == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_index = 0;
    if (file == NULL || name == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a file and a name are needed");
    const size_t index = berth_safetensors_index_find(&file->index, name);
    if (index == file->index.items.count)
        return berth_fail(
            BERTH_ERR_NOT_FOUND, "there is no tensor '%s' in the safetensors file", name);
    *out_index = index;
    return BERTH_OK;
}

const char* berth_safetensors_metadata(const berth_safetensors* file, const char* key) {
    if (file == NULL || key == NULL) return NULL;
    const berth_safetensors_pair_vec* pairs = &file->index.pairs;
    for (size_t i = 0; i < pairs->count; ++i)
        if (strcmp(pairs->items[i].key, key) == 0) return pairs->items[i].value;
    return NULL;
}

berth_status berth_safetensors_query_metadata(const berth_safetensors* file,
                                              size_t index,
                                              berth_safetensors_note* out_note) {
    if (out_note == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place is needed");
    *out_note = (berth_safetensors_note){0};
    if (file == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the file is NULL");
    const berth_safetensors_pair_vec* pairs = &file->index.pairs;
    if (index >= pairs->count) return fail_missing("metadata", index, pairs->count);
    *out_note = (berth_safetensors_note){pairs->items[index].key, pairs->items[index].value};
    return BERTH_OK;
}

static berth_status check_tensor(const berth_context* context,
                                 const berth_safetensors* file,
                                 size_t index) {
    if (file == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the file is NULL");
    if (file->runtime != context->runtime)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the file was opened for another runtime");
    if (index >= file->index.items.count)
        return fail_missing("tensor", index, file->index.items.count);
    const berth_safetensors_item* item = &file->index.items.items[index];
    if (item->dtype == BERTH_DTYPE_COUNT)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "tensor '%s' has the element type %s, which Berth does not have",
                          item->name,
                          item->dtype_text);
    return BERTH_OK;
}

berth_tensor* berth_safetensors_tensor(berth_context* context,
                                       const berth_safetensors* file,
                                       size_t index) {
    if (context == NULL || berth_context_error(context) != BERTH_OK) return NULL;
    const berth_status status = check_tensor(context, file, index);
    if (status != BERTH_OK) return berth_api_refuse(context, status, "safetensors_tensor", NULL, 0);
    const berth_safetensors_item* item = &file->index.items.items[index];
    return berth_file_tensor(context,
                             "safetensors_tensor",
                             file->map,
                             file->index.data_offset + item->begin,
                             item->dtype,
                             item->rank,
                             item->dims);
}

static berth_status write_tensors(berth_file_writer* writer,
                                  const berth_safetensors_source* sources,
                                  const size_t* order,
                                  size_t count) {
    for (size_t i = 0; i < count; ++i)
        BERTH_TRY(berth_file_write_elements(writer, sources[order[i]].tensor));
    return BERTH_OK;
}

/// Writes the whole file, once `order` [count] is there.
static berth_status write_file(const berth_host* host,
                               const char* path,
                               const berth_safetensors_source* sources,
                               size_t* order,
                               size_t count,
                               const berth_safetensors_note* notes,
                               size_t note_count) {
    BERTH_TRY(berth_safetensors_order(sources, count, notes, note_count, order));
    char* header;
    uint64_t bytes;
    BERTH_TRY(
        berth_safetensors_compose(host, sources, order, count, notes, note_count, &header, &bytes));
    berth_file_writer writer;
    berth_status status = berth_file_writer_init(&writer, host, &berth_file_ops_system, path);
    if (status == BERTH_OK) {
        status = berth_file_writer_add(&writer, header, bytes);
        if (status == BERTH_OK) status = write_tensors(&writer, sources, order, count);
        status = berth_file_writer_finish(&writer, status);
    }
    berth_host_free(host, header);
    return status;
}

berth_status berth_safetensors_write(const char* path,
                                     const berth_safetensors_source* sources,
                                     size_t count,
                                     const berth_safetensors_note* notes,
                                     size_t note_count) {
    if ((sources == NULL && count > 0) || (notes == NULL && note_count > 0))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "the tensors or the metadata are NULL");
    const berth_host* host = berth_host_default();
    for (size_t i = 0; i < count; ++i) {
        if (sources[i].tensor == NULL) continue; // reported with its number later
        BERTH_TRY(berth_fork_check(sources[i].tensor->home->fork_generation));
        host = sources[i].tensor->home->host;
    }
    size_t* order = berth_host_calloc(host, count, sizeof *order);
    if (order == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to write %zu tensors", count);
    const berth_status status = write_file(host, path, sources, order, count, notes, note_count);
    berth_host_free(host, order);
    return status;
}
