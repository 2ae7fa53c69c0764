// SPDX-License-Identifier: Apache-2.0
// Reading a request trace line by line.
#include "request_trace.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "request_trace_internal.h"

const char* llm_trace_format_text(llm_trace_format format) {
    static const char* const words[] = {
#define FORMAT_WORD(id, word, block_tokens, help) word,
        LLM_TRACE_FORMAT_MAP(FORMAT_WORD)
#undef FORMAT_WORD
    };
    return (unsigned)format < LLM_TRACE_FORMAT_COUNT ? words[format] : "unknown";
}

static int64_t block_tokens_of(llm_trace_format format) {
    static const int64_t tokens[] = {
#define FORMAT_TOKENS(id, word, block_tokens, help) block_tokens,
        LLM_TRACE_FORMAT_MAP(FORMAT_TOKENS)
#undef FORMAT_TOKENS
    };
    return tokens[format];
}

berth_status llm_trace_fail(llm_trace_reader* reader, const char* format, ...) {
    if (reader->error == NULL) return BERTH_ERR_CORRUPT;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return llm_fail(
        reader->error, BERTH_ERR_CORRUPT, "%s:%zu: %s", reader->name, reader->number, text);
}

berth_status llm_trace_check(
    llm_trace_reader* reader, const char* what, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return BERTH_OK;
    return llm_trace_fail(reader,
                          "%s is %lld; it may be %lld to %lld",
                          what,
                          (long long)value,
                          (long long)least,
                          (long long)most);
}

/// Makes room for one more of what `*items` has `count` of; at most `most`.
static berth_status grow(llm_trace_reader* reader,
                         void** items,
                         size_t count,
                         size_t* capacity,
                         size_t most,
                         size_t item_bytes) {
    if (count == most) return llm_trace_fail(reader, "a trace has at most %zu of these", most);
    if (count < *capacity) return BERTH_OK;
    const size_t wanted = *capacity == 0 ? 1024 : *capacity * 2;
    void* grown = llm_realloc(*items, wanted, item_bytes);
    if (grown == NULL) return llm_fail_memory(reader->error, "a request trace");
    *items = grown;
    *capacity = wanted;
    return BERTH_OK;
}

berth_status llm_trace_add_row(llm_trace_reader* reader, llm_trace_row row) {
    llm_request_trace* trace = reader->trace;
    LLM_TRACE_TRY(llm_trace_check(
        reader, "the number of prompt tokens", row.prompt_tokens, 1, LLM_TRACE_MOST_TOKENS));
    LLM_TRACE_TRY(llm_trace_check(
        reader, "the number of answer tokens", row.answer_tokens, 0, LLM_TRACE_MOST_TOKENS));
    LLM_TRACE_TRY(grow(reader,
                       (void**)&trace->rows,
                       trace->row_count,
                       &trace->row_capacity,
                       LLM_TRACE_MOST_ROWS,
                       sizeof *trace->rows));
    row.first_id = trace->id_count;
    trace->rows[trace->row_count++] = row;
    return BERTH_OK;
}

berth_status llm_trace_add_id(llm_trace_reader* reader, int64_t id) {
    llm_request_trace* trace = reader->trace;
    LLM_TRACE_TRY(grow(reader,
                       (void**)&trace->ids,
                       trace->id_count,
                       &trace->id_capacity,
                       LLM_TRACE_MOST_IDS,
                       sizeof *trace->ids));
    trace->ids[trace->id_count++] = id;
    return BERTH_OK;
}

// --- Lines ---------------------------------------------------------------------------------------

static int next_char(llm_trace_reader* reader) {
    if (reader->file != NULL) return getc(reader->file);
    if (reader->rest.size == 0) return EOF;
    --reader->rest.size;
    return (unsigned char)*reader->rest.data++;
}

/// Reads the next line that is not blank, without its end. `*out_is_line` is false behind the last
/// one.
static berth_status next_line(llm_trace_reader* reader, bool* out_is_line) {
    int c = 0;
    bool is_blank = true;
    while (is_blank && c != EOF) {
        reader->line.size = 0;
        ++reader->number;
        while ((c = next_char(reader)) != EOF && c != '\n') {
            const char byte = (char)c;
            if (c == '\0') return llm_trace_fail(reader, "a zero byte in a text");
            if (reader->line.size == LLM_TRACE_MOST_LINE_BYTES)
                return llm_trace_fail(
                    reader, "a line of more than %zu bytes", LLM_TRACE_MOST_LINE_BYTES);
            LLM_TRACE_TRY(llm_bytes_append(&reader->line, &byte, 1, reader->error));
            if (strchr(" \t\r", c) == NULL) is_blank = false;
        }
    }
    if (reader->file != NULL && ferror(reader->file) != 0)
        return llm_fail(
            reader->error, BERTH_ERR_IO, "%s: cannot be read: %s", reader->name, strerror(errno));
    *out_is_line = !is_blank;
    if (is_blank) return BERTH_OK;
    while (strchr(" \t\r", reader->line.data[reader->line.size - 1]) != NULL)
        --reader->line.size;
    return llm_bytes_append(&reader->line, "", 1, reader->error);
}

/// Forgets the mark of UTF-8 that some programs write first.
static void skip_mark(llm_bytes* line) {
    if (line->size > 3 && memcmp(line->data, "\xEF\xBB\xBF", 3) == 0) {
        line->size -= 3;
        memmove(line->data, line->data + 3, line->size);
    }
}

static berth_status read_lines(llm_trace_reader* reader) {
    bool is_line;
    LLM_TRACE_TRY(next_line(reader, &is_line));
    if (!is_line) return llm_trace_fail(reader, "no requests");
    skip_mark(&reader->line);
    const bool is_json = reader->line.data[0] == '{';
    if (is_json ? !llm_trace_read_first_object(reader) : !llm_trace_read_header(reader))
        return llm_trace_fail(reader,
                              "neither the header of a known CSV nor a known object of JSON: '%s'",
                              llm_quote(llm_str_of(reader->line.data)).text);
    reader->trace->block_tokens = block_tokens_of(reader->trace->format);
    if (is_json) LLM_TRACE_TRY(llm_trace_read_json_line(reader));
    for (;;) {
        LLM_TRACE_TRY(next_line(reader, &is_line));
        if (!is_line) break;
        LLM_TRACE_TRY(is_json ? llm_trace_read_json_line(reader) : llm_trace_read_csv_line(reader));
    }
    return reader->trace->row_count > 0 ? BERTH_OK : llm_trace_fail(reader, "no requests");
}

/// Lets the arrivals of a calendar begin at 0.
static void begin_at_zero(llm_request_trace* trace) {
    double first = trace->rows[0].arrival_ms;
    for (size_t i = 1; i < trace->row_count; i++)
        if (trace->rows[i].arrival_ms < first) first = trace->rows[i].arrival_ms;
    for (size_t i = 0; i < trace->row_count; i++)
        trace->rows[i].arrival_ms -= first;
}

static berth_status read_all(llm_trace_reader* reader) {
    *reader->trace = (llm_request_trace){0};
    const berth_status status = read_lines(reader);
    llm_bytes_fini(&reader->line);
    if (status != BERTH_OK)
        llm_request_trace_fini(reader->trace);
    else if (reader->trace->format == LLM_TRACE_AZURE)
        begin_at_zero(reader->trace);
    return status;
}

berth_status llm_request_trace_read(const char* path,
                                    llm_request_trace* out_trace,
                                    llm_error* error) {
    *out_trace = (llm_request_trace){0};
    FILE* file = path == NULL ? NULL : fopen(path, "r");
    if (file == NULL)
        return llm_fail(error,
                        BERTH_ERR_IO,
                        "%s: cannot be read: %s",
                        path == NULL ? "(no path)" : path,
                        strerror(path == NULL ? EINVAL : errno));
    llm_trace_reader reader = {.name = path, .file = file, .trace = out_trace, .error = error};
    const berth_status status = read_all(&reader);
    (void)fclose(file);
    return status;
}

berth_status llm_request_trace_parse(llm_str text,
                                     const char* name,
                                     llm_request_trace* out_trace,
                                     llm_error* error) {
    llm_trace_reader reader = {.name = name, .rest = text, .trace = out_trace, .error = error};
    return read_all(&reader);
}

void llm_request_trace_fini(llm_request_trace* trace) {
    llm_free(trace->rows);
    llm_free(trace->ids);
    *trace = (llm_request_trace){0};
}
