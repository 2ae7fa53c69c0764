// SPDX-License-Identifier: Apache-2.0
// Opening and checking GGUF files.
#include "gguf.h"

#include "gguf_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are read from the file as they lie, in little-endian order"
#endif

enum {
    MAX_KEY_BYTES = 65535,
    MAX_TENSOR_NAME_BYTES = 63,
    MAX_NESTING = 8,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    // the least a pair and a tensor can occupy, to judge counts before believing them
    MIN_PAIR_BYTES = 8 + 1 + 4 + 1,
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8,
};

/// A place in the file. `what` and `name` say in errors what was being read.
typedef struct reader {
    const char* base;
    size_t size;
    size_t at;
    const char* what;
    llm_str name;
    llm_error* error;
} reader;

static size_t bytes_left(const reader* r) { return r->size - r->at; }

static berth_status fail_truncated(const reader* r, uint64_t wanted) {
    return llm_fail(r->error,
                    BERTH_ERR_CORRUPT,
                    "the file ends inside %s '%s': %llu bytes wanted at byte %zu of %zu",
                    r->what,
                    llm_quote(r->name).text,
                    (unsigned long long)wanted,
                    r->at,
                    r->size);
}

static berth_status take(reader* r, void* out, size_t width) {
    if (width > bytes_left(r)) return fail_truncated(r, width);
    memcpy(out, r->base + r->at, width);
    r->at += width;
    return BERTH_OK;
}

static berth_status take_string(reader* r, llm_str* out) {
    uint64_t size = 0;
    *out = (llm_str){NULL, 0};
    berth_status status = take(r, &size, sizeof size);
    if (status != BERTH_OK) return status;
    if (size > bytes_left(r)) return fail_truncated(r, size);
    *out = (llm_str){r->base + r->at, (size_t)size};
    r->at += (size_t)size;
    return BERTH_OK;
}

static berth_status check_bools(const reader* r, llm_str bytes) {
    for (size_t i = 0; i < bytes.size; i++) {
        if ((unsigned char)bytes.data[i] > 1)
            return llm_fail(r->error,
                            BERTH_ERR_CORRUPT,
                            "%s '%s' holds a bool of %u; only 0 and 1 are bools",
                            r->what,
                            llm_quote(r->name).text,
                            (unsigned)(unsigned char)bytes.data[i]);
    }
    return BERTH_OK;
}

/// Takes `count` elements of a type that has a fixed width.
static berth_status take_numbers(reader* r, uint32_t type, uint64_t count) {
    size_t width = llm_gguf_type_bytes(type);
    if (count > bytes_left(r) / width)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "%s '%s' claims %llu values of %s, but %zu bytes are left in the file",
                        r->what,
                        llm_quote(r->name).text,
                        (unsigned long long)count,
                        llm_gguf_type_name(type),
                        bytes_left(r));
    llm_str bytes = {r->base + r->at, (size_t)count * width};
    r->at += bytes.size;
    return type == LLM_GGUF_BOOL ? check_bools(r, bytes) : BERTH_OK;
}

static berth_status take_array(reader* r, int depth, uint32_t* out_type, uint64_t* out_count);

static berth_status take_elements(reader* r, uint32_t type, uint64_t count, int depth) {
    if (type > LLM_GGUF_F64)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "%s '%s' has the unknown value type %u",
                        r->what,
                        llm_quote(r->name).text,
                        type);
    if (llm_gguf_type_bytes(type) != 0) return take_numbers(r, type, count);
    // every string and every inner array takes bytes, so that a false count meets the file's end
    for (uint64_t i = 0; i < count; i++) {
        llm_str text;
        uint32_t inner_type;
        uint64_t inner_count;
        berth_status status = type == LLM_GGUF_STRING
                                  ? take_string(r, &text)
                                  : take_array(r, depth + 1, &inner_type, &inner_count);
        if (status != BERTH_OK) return status;
    }
    return BERTH_OK;
}

static berth_status take_array(reader* r, int depth, uint32_t* out_type, uint64_t* out_count) {
    *out_type = 0;
    *out_count = 0;
    if (depth > MAX_NESTING)
        return llm_fail(r->error,
                        BERTH_ERR_UNSUPPORTED,
                        "%s '%s' nests arrays more than %d deep",
                        r->what,
                        llm_quote(r->name).text,
                        MAX_NESTING);
    berth_status status = take(r, out_type, sizeof *out_type);
    if (status == BERTH_OK) status = take(r, out_count, sizeof *out_count);
    if (status != BERTH_OK) return status;
    return take_elements(r, *out_type, *out_count, depth);
}

static berth_status take_value(reader* r, llm_gguf_value* out) {
    *out = (llm_gguf_value){.count = 1};
    berth_status status = take(r, &out->type, sizeof out->type);
    if (status != BERTH_OK) return status;
    out->element_type = out->type;
    if (out->type == LLM_GGUF_STRING) return take_string(r, &out->bytes);
    size_t begin = r->at;
    if (out->type == LLM_GGUF_ARRAY) {
        status = take_array(r, 1, &out->element_type, &out->count);
        begin += sizeof out->element_type + sizeof out->count;
    } else {
        status = take_elements(r, out->type, 1, 1);
    }
    if (status != BERTH_OK) return status;
    out->bytes = (llm_str){r->base + begin, r->at - begin};
    return BERTH_OK;
}

/// Makes room for one more item: the table grows with what was read, not with what is announced.
static void* grow_table(void* items, size_t count, size_t item_bytes, size_t* capacity) {
    if (count < *capacity) return items;
    size_t wanted = *capacity == 0 ? 32 : *capacity * 2;
    void* grown = llm_realloc(items, wanted, item_bytes);
    if (grown != NULL) *capacity = wanted;
    return grown;
}

static berth_status read_pair(llm_gguf* gguf, reader* r) {
    llm_gguf_pair* pairs =
        grow_table(gguf->pairs, gguf->pair_count, sizeof *pairs, &gguf->pair_capacity);
    if (pairs == NULL) return llm_fail_memory(r->error, "the metadata table");
    gguf->pairs = pairs;
    llm_gguf_pair* pair = &pairs[gguf->pair_count];
    r->what = "the key after";
    berth_status status = take_string(r, &pair->key);
    if (status != BERTH_OK) return status;
    if (pair->key.size == 0 || pair->key.size > MAX_KEY_BYTES)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "metadata pair %zu has a key of %zu bytes; 1 to %d are allowed",
                        gguf->pair_count,
                        pair->key.size,
                        MAX_KEY_BYTES);
    r->what = "the value of";
    r->name = pair->key;
    status = take_value(r, &pair->value);
    if (status == BERTH_OK) gguf->pair_count++;
    return status;
}

static int compare_names(const void* left, const void* right) {
    const llm_gguf_name* a = left;
    const llm_gguf_name* b = right;
    return llm_str_compare(a->name, b->name);
}

/// Sorts a table of names in place; two equal names are an error.
static berth_status sort_names(llm_gguf_name* names,
                               size_t count,
                               const char* what,
                               llm_error* error) {
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++) {
        if (llm_str_equal(names[i - 1].name, names[i].name))
            return llm_fail(error,
                            BERTH_ERR_CORRUPT,
                            "the file has two %s called '%s'",
                            what,
                            llm_quote(names[i].name).text);
    }
    return BERTH_OK;
}

static berth_status read_pairs(llm_gguf* gguf, reader* r, uint64_t count) {
    if (count > bytes_left(r) / MIN_PAIR_BYTES)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "the file claims %llu metadata pairs, but only %zu bytes are left",
                        (unsigned long long)count,
                        bytes_left(r));
    for (uint64_t i = 0; i < count; i++) {
        berth_status status = read_pair(gguf, r);
        if (status != BERTH_OK) return status;
    }
    gguf->pair_names = llm_alloc(gguf->pair_count, sizeof *gguf->pair_names);
    if (gguf->pair_names == NULL) return llm_fail_memory(r->error, "the index of keys");
    for (size_t i = 0; i < gguf->pair_count; i++)
        gguf->pair_names[i] = (llm_gguf_name){gguf->pairs[i].key, i};
    return sort_names(gguf->pair_names, gguf->pair_count, "keys", r->error);
}

static berth_status read_alignment(llm_gguf* gguf, llm_error* error) {
    uint64_t alignment = 0;
    berth_status status =
        llm_gguf_get_u64_or(gguf, "general.alignment", DEFAULT_ALIGNMENT, &alignment, error);
    if (status != BERTH_OK) return status;
    if (alignment < MIN_ALIGNMENT || alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "general.alignment is %llu; it must be a power of two, at least %d",
                        (unsigned long long)alignment,
                        MIN_ALIGNMENT);
    gguf->alignment = alignment;
    return BERTH_OK;
}

static berth_status check_tensor_type(const llm_gguf_tensor* tensor, llm_error* error) {
    const llm_tensor_type_info* info = llm_tensor_type_describe(tensor->type);
    if (info != NULL && info->block_values != 0) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_UNSUPPORTED,
                    "tensor '%s' has type %u (%s), which cannot be read",
                    llm_quote(tensor->name).text,
                    tensor->type,
                    info == NULL ? "unknown" : info->name);
}

/// Computes the tensor's bytes from its type and dims.
static berth_status measure_tensor(llm_gguf_tensor* tensor, llm_error* error) {
    const llm_tensor_type_info* info = llm_tensor_type_describe(tensor->type);
    if (tensor->dims[0] % info->block_values != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "tensor '%s' has rows of %llu values; %s needs a multiple of %u",
                        llm_quote(tensor->name).text,
                        (unsigned long long)tensor->dims[0],
                        info->name,
                        info->block_values);
    uint64_t bytes = 0;
    bool overflow =
        __builtin_mul_overflow(tensor->dims[0] / info->block_values, info->block_bytes, &bytes);
    // an empty tensor must not hide absurd dims: users multiply some of them, not all
    uint64_t values = tensor->dims[0] == 0 ? 1 : tensor->dims[0];
    for (int i = 1; i < 4; i++) {
        uint64_t dim = tensor->dims[i];
        overflow |= __builtin_mul_overflow(bytes, dim, &bytes);
        overflow |= __builtin_mul_overflow(values, dim == 0 ? 1 : dim, &values);
    }
    if (overflow || values > INT64_MAX || bytes > INT64_MAX)
        return llm_fail(
            error,
            BERTH_ERR_CORRUPT,
            "the product of the dims of tensor '%s' overflows: %llu x %llu x %llu x %llu",
            llm_quote(tensor->name).text,
            (unsigned long long)tensor->dims[0],
            (unsigned long long)tensor->dims[1],
            (unsigned long long)tensor->dims[2],
            (unsigned long long)tensor->dims[3]);
    tensor->size_bytes = bytes;
    return BERTH_OK;
}

static berth_status take_dims(reader* r, llm_gguf_tensor* tensor) {
    berth_status status = take(r, &tensor->rank, sizeof tensor->rank);
    if (status != BERTH_OK) return status;
    if (tensor->rank > 4)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "tensor '%s' has %u dims; at most 4 are allowed",
                        llm_quote(tensor->name).text,
                        tensor->rank);
    for (uint32_t i = 0; i < 4; i++)
        tensor->dims[i] = 1;
    for (uint32_t i = 0; i < tensor->rank && status == BERTH_OK; i++)
        status = take(r, &tensor->dims[i], sizeof tensor->dims[i]);
    return status;
}

static berth_status read_tensor(llm_gguf* gguf, reader* r) {
    llm_gguf_tensor* tensors =
        grow_table(gguf->tensors, gguf->tensor_count, sizeof *tensors, &gguf->tensor_capacity);
    if (tensors == NULL) return llm_fail_memory(r->error, "the tensor table");
    gguf->tensors = tensors;
    llm_gguf_tensor* tensor = &tensors[gguf->tensor_count];
    r->what = "the tensor name after";
    berth_status status = take_string(r, &tensor->name);
    if (status != BERTH_OK) return status;
    if (tensor->name.size == 0 || tensor->name.size > MAX_TENSOR_NAME_BYTES)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "tensor %zu has a name of %zu bytes ('%s'); 1 to %d are allowed",
                        gguf->tensor_count,
                        tensor->name.size,
                        llm_quote(tensor->name).text,
                        MAX_TENSOR_NAME_BYTES);
    r->what = "tensor";
    r->name = tensor->name;
    status = take_dims(r, tensor);
    if (status == BERTH_OK) status = take(r, &tensor->type, sizeof tensor->type);
    if (status == BERTH_OK) status = take(r, &tensor->offset_bytes, sizeof tensor->offset_bytes);
    if (status == BERTH_OK) status = check_tensor_type(tensor, r->error);
    if (status == BERTH_OK) status = measure_tensor(tensor, r->error);
    if (status == BERTH_OK) gguf->tensor_count++;
    return status;
}

/// Turns the tensor's offset, which counts from `data_start`, into a place in the file.
static berth_status place_tensor(const llm_gguf* gguf,
                                 llm_gguf_tensor* tensor,
                                 uint64_t data_start,
                                 llm_error* error) {
    if (tensor->offset_bytes % gguf->alignment != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "tensor '%s' begins at offset %llu, no multiple of the alignment %llu",
                        llm_quote(tensor->name).text,
                        (unsigned long long)tensor->offset_bytes,
                        (unsigned long long)gguf->alignment);
    uint64_t available = gguf->size < data_start ? 0 : gguf->size - data_start;
    if (gguf->size < data_start || tensor->offset_bytes > available ||
        tensor->size_bytes > available - tensor->offset_bytes)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "tensor '%s' lies outside the file: %llu bytes at offset %llu, where the "
                        "file holds %llu bytes of tensors",
                        llm_quote(tensor->name).text,
                        (unsigned long long)tensor->size_bytes,
                        (unsigned long long)tensor->offset_bytes,
                        (unsigned long long)available);
    tensor->offset_bytes += data_start;
    tensor->data = gguf->base + tensor->offset_bytes;
    return BERTH_OK;
}

static berth_status read_tensors(llm_gguf* gguf, reader* r, uint64_t count) {
    if (count > bytes_left(r) / MIN_TENSOR_BYTES)
        return llm_fail(r->error,
                        BERTH_ERR_CORRUPT,
                        "the file claims %llu tensors, but only %zu bytes are left",
                        (unsigned long long)count,
                        bytes_left(r));
    for (uint64_t i = 0; i < count; i++) {
        berth_status status = read_tensor(gguf, r);
        if (status != BERTH_OK) return status;
    }
    uint64_t data_start = (r->at + gguf->alignment - 1) & ~(gguf->alignment - 1);
    gguf->tensor_names = llm_alloc(gguf->tensor_count, sizeof *gguf->tensor_names);
    if (gguf->tensor_names == NULL) return llm_fail_memory(r->error, "the index of tensors");
    for (size_t i = 0; i < gguf->tensor_count; i++) {
        berth_status status = place_tensor(gguf, &gguf->tensors[i], data_start, r->error);
        if (status != BERTH_OK) return status;
        gguf->tensor_names[i] = (llm_gguf_name){gguf->tensors[i].name, i};
    }
    return sort_names(gguf->tensor_names, gguf->tensor_count, "tensors", r->error);
}

static berth_status check_version(uint32_t version, llm_error* error) {
    if (version == 2 || version == 3) return BERTH_OK;
    if (version != 0 && (version & 0xffff) == 0)
        return llm_fail(error,
                        BERTH_ERR_UNSUPPORTED,
                        "the file is in big-endian byte order (version field 0x%08x)",
                        version);
    return llm_fail(error,
                    BERTH_ERR_UNSUPPORTED,
                    "GGUF version %u cannot be read; versions 2 and 3 can",
                    version);
}

static berth_status parse(llm_gguf* gguf, llm_error* error) {
    reader r = {gguf->base, gguf->size, 0, "the header", {NULL, 0}, error};
    char magic[4] = {0};
    uint64_t tensor_count = 0;
    uint64_t pair_count = 0;
    berth_status status = take(&r, magic, sizeof magic);
    if (status != BERTH_OK) return status;
    if (memcmp(magic, "GGUF", sizeof magic) != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "not a GGUF file: it begins with '%s'",
                        llm_quote((llm_str){magic, sizeof magic}).text);
    status = take(&r, &gguf->version, sizeof gguf->version);
    if (status == BERTH_OK) status = check_version(gguf->version, error);
    if (status == BERTH_OK) status = take(&r, &tensor_count, sizeof tensor_count);
    if (status == BERTH_OK) status = take(&r, &pair_count, sizeof pair_count);
    if (status == BERTH_OK) status = read_pairs(gguf, &r, pair_count);
    if (status == BERTH_OK) status = read_alignment(gguf, error);
    if (status == BERTH_OK) status = read_tensors(gguf, &r, tensor_count);
    return status;
}

static berth_status fail_io(const char* path, const char* verb, llm_error* error) {
    return llm_fail(error, BERTH_ERR_IO, "cannot %s %s: %s", verb, path, strerror(errno));
}

static berth_status read_whole(llm_gguf* gguf, int file, const char* path, llm_error* error) {
    // a whole number of cache lines, from an aligned start: tensors keep the file's alignment
    gguf->copy = llm_alloc(gguf->size / 64 + 2, 64);
    if (gguf->copy == NULL) return llm_fail_memory(error, "the model file");
    char* base = (char*)(((uintptr_t)gguf->copy + 63) & ~(uintptr_t)63);
    size_t done = 0;
    while (done < gguf->size) {
        ssize_t got = pread(file, base + done, gguf->size - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_io(path, "read", error);
        if (got == 0) break; // cut short since it was measured: the parser says where it ends
        done += (size_t)got;
    }
    gguf->size = done;
    gguf->base = base;
    return BERTH_OK;
}

static berth_status map_whole(llm_gguf* gguf, int file, const char* path, llm_error* error) {
    void* mapping = mmap(NULL, gguf->size, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping == MAP_FAILED) return fail_io(path, "map", error);
    gguf->mapping = mapping;
    gguf->base = mapping;
    return BERTH_OK;
}

static berth_status load_bytes(llm_gguf* gguf, const char* path, bool use_mmap, llm_error* error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail_io(path, "open", error);
    struct stat facts;
    berth_status status = BERTH_OK;
    if (fstat(file, &facts) != 0) {
        status = fail_io(path, "examine", error);
    } else if (!S_ISREG(facts.st_mode)) {
        status = llm_fail(error, BERTH_ERR_IO, "%s is not a regular file", path);
    } else if (facts.st_size == 0) {
        status = llm_fail(error, BERTH_ERR_CORRUPT, "%s is empty", path);
    } else {
        gguf->size = (size_t)facts.st_size;
        status =
            use_mmap ? map_whole(gguf, file, path, error) : read_whole(gguf, file, path, error);
    }
    close(file);
    return status;
}

berth_status llm_gguf_open(const char* path, bool use_mmap, llm_gguf** out_gguf, llm_error* error) {
    *out_gguf = NULL;
    llm_gguf* gguf = llm_alloc_zeroed(1, sizeof *gguf);
    if (gguf == NULL) return llm_fail_memory(error, "an open model file");
    berth_status status = load_bytes(gguf, path, use_mmap, error);
    if (status == BERTH_OK) status = parse(gguf, error);
    if (status != BERTH_OK) {
        llm_gguf_close(gguf);
        return status;
    }
    *out_gguf = gguf;
    return BERTH_OK;
}

berth_status llm_gguf_open_memory(const void* data,
                                  size_t size,
                                  llm_gguf** out_gguf,
                                  llm_error* error) {
    *out_gguf = NULL;
    llm_gguf* gguf = llm_alloc_zeroed(1, sizeof *gguf);
    if (gguf == NULL) return llm_fail_memory(error, "an open model file");
    gguf->base = data;
    gguf->size = size;
    berth_status status = parse(gguf, error);
    if (status != BERTH_OK) {
        llm_gguf_close(gguf);
        return status;
    }
    *out_gguf = gguf;
    return BERTH_OK;
}

void llm_gguf_close(llm_gguf* gguf) {
    if (gguf == NULL) return;
    llm_free(gguf->pairs);
    llm_free(gguf->pair_names);
    llm_free(gguf->tensors);
    llm_free(gguf->tensor_names);
    llm_free(gguf->copy);
    if (gguf->mapping != NULL) munmap(gguf->mapping, gguf->size);
    llm_free(gguf);
}
