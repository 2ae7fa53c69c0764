// SPDX-License-Identifier: Apache-2.0
// Files of packing problems: loading, telling the two kinds apart, looking at parts.
#include "plan/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_ops.h"

#define FIRST_BYTES ((size_t)1 << 16)

// ---- Loading.

static berth_status fail_errno(const char* path) {
    const int error = errno;
    return berth_fail(berth_file_status(error), "'%s' cannot be read: %s", path, strerror(error));
}

static berth_status too_long(const char* name) {
    return berth_fail(BERTH_ERR_CORRUPT,
                      "'%s' has more than %llu bytes",
                      name,
                      (unsigned long long)BERTH_TRACE_TEXT_MAX);
}

/// Reads to the end of the file, into a block with one byte to spare.
static berth_status load_descriptor(
    const berth_host* host, const char* path, int descriptor, char** out_text, size_t* out_size) {
    size_t capacity = FIRST_BYTES;
    *out_size = 0;
    *out_text = berth_host_alloc(host, capacity);
    while (*out_text != NULL) {
        const ssize_t got = read(descriptor, *out_text + *out_size, capacity - *out_size - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno(path);
        if (got == 0) return BERTH_OK;
        *out_size += (size_t)got;
        if (*out_size > BERTH_TRACE_TEXT_MAX) return too_long(path);
        if (*out_size + 1 < capacity) continue;
        char* grown = berth_host_realloc(host, *out_text, capacity * 2);
        if (grown == NULL) break;
        *out_text = grown;
        capacity *= 2;
    }
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to read '%s'", path);
}

static berth_status load(const berth_host* host,
                         const char* path,
                         char** out_text,
                         size_t* out_size) {
    *out_text = NULL;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return fail_errno(path);
    const berth_status status = load_descriptor(host, path, descriptor, out_text, out_size);
    (void)close(descriptor);
    if (status == BERTH_OK) return BERTH_OK;
    berth_host_free(host, *out_text);
    *out_text = NULL;
    return status;
}

// ---- Reading.

static bool has_column(const berth_csv* csv, const char* name) {
    for (uint32_t f = 0; f < csv->count; f++)
        if (strcmp(csv->fields[f], name) == 0) return true;
    return false;
}

static berth_status read_text(berth_trace_file* file, size_t size) {
    berth_csv csv;
    bool more;
    berth_csv_init(&csv, file->name, file->text, size);
    BERTH_TRY(berth_csv_next(&csv, &more));
    if (!more) {
        csv.line = 1;
        return berth_csv_fail(&csv, "the file is empty, a line with column names is expected");
    }
    return has_column(&csv, "op") ? berth_trace_lines_read(file, &csv)
                                  : berth_problem_lines_read(file, &csv);
}

static void destroy(berth_trace_file* file) {
    const berth_host* host = file->host;
    berth_trace_section_vec_fini(&file->sections, host);
    berth_trace_block_vec_fini(&file->blocks, host);
    berth_trace_symbol_vec_fini(&file->symbols, host);
    berth_trace_definition_vec_fini(&file->definitions, host);
    berth_host_free(host, file->text);
    berth_host_free(host, file->name);
    berth_host_free(host, file);
}

/// Makes the file of `text`, which it takes over whatever happens.
static berth_status create(
    const berth_host* host, const char* name, char* text, size_t size, berth_trace_file** out) {
    berth_trace_file* file = berth_host_calloc(host, 1, sizeof *file);
    if (file == NULL) {
        berth_host_free(host, text);
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to read '%s'", name);
    }
    file->host = host;
    file->text = text;
    file->name = berth_host_strdup(host, name);
    const berth_status status =
        file->name == NULL ? berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to read '%s'", name)
                           : read_text(file, size);
    if (status == BERTH_OK)
        *out = file;
    else
        destroy(file);
    return status;
}

berth_status berth_trace_file_parse_with(const berth_host* host,
                                         const char* name,
                                         const void* text,
                                         size_t size,
                                         berth_trace_file** out_file) {
    *out_file = NULL;
    if (size > BERTH_TRACE_TEXT_MAX) return too_long(name);
    char* copy = berth_host_alloc(host, size + 1);
    if (copy == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to read '%s'", name);
    if (size > 0) memcpy(copy, text, size);
    return create(host, name, copy, size, out_file);
}

berth_status berth_trace_file_parse(const char* name,
                                    const void* text,
                                    size_t size,
                                    berth_trace_file** out_file) {
    if (out_file != NULL) *out_file = NULL;
    if (name == NULL || (text == NULL && size > 0) || out_file == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a name, a text and a place for the file are needed");
    return berth_trace_file_parse_with(berth_host_default(), name, text, size, out_file);
}

berth_status berth_trace_file_read(const char* path, berth_trace_file** out_file) {
    if (out_file != NULL) *out_file = NULL;
    if (path == NULL || out_file == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a path and a place for the file are needed");
    char* text = NULL;
    size_t size = 0;
    BERTH_TRY(load(berth_host_default(), path, &text, &size));
    return create(berth_host_default(), path, text, size, out_file);
}

void berth_trace_file_destroy(berth_trace_file* file) {
    if (file != NULL) destroy(file);
}

// ---- Looking at parts.

size_t berth_trace_file_query_part_count(const berth_trace_file* file) {
    return file != NULL ? file->sections.count : 0;
}

static berth_status check_part(const berth_trace_file* file, size_t part) {
    if (file == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a file is needed");
    if (part < file->sections.count) return BERTH_OK;
    return berth_fail(BERTH_ERR_NOT_FOUND,
                      "there is no part %zu in '%s', which has %zu",
                      part,
                      file->name,
                      file->sections.count);
}

berth_status berth_trace_file_query_part(const berth_trace_file* file,
                                         size_t part,
                                         berth_trace_part* out_part) {
    if (out_part == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the part is needed");
    *out_part = (berth_trace_part){0};
    BERTH_TRY(check_part(file, part));
    const berth_trace_section* section = &file->sections.items[part];
    *out_part = (berth_trace_part){
        section->step, section->path, section->block_count, section->symbol_count};
    return BERTH_OK;
}

berth_status berth_trace_file_query_symbol(const berth_trace_file* file,
                                           size_t part,
                                           size_t symbol,
                                           berth_trace_symbol* out_symbol) {
    if (out_symbol == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the symbol is needed");
    *out_symbol = (berth_trace_symbol){0};
    BERTH_TRY(check_part(file, part));
    const berth_trace_section* section = &file->sections.items[part];
    if (symbol >= section->symbol_count)
        return berth_fail(
            BERTH_ERR_NOT_FOUND, "there is no symbol %zu, only %u", symbol, section->symbol_count);
    *out_symbol = file->symbols.items[section->first_symbol + symbol].shown;
    return BERTH_OK;
}
