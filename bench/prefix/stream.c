// SPDX-License-Identifier: Apache-2.0
// Streams from traces.
#include "prefix/stream.h"

#include <stdlib.h>

#include "kit/fail.h"
#include "request_trace.h"

static void* grow(void* items, size_t count, size_t* capacity, size_t item_bytes) {
    if (count < *capacity) return items;
    *capacity = *capacity == 0 ? 4096 : 2 * *capacity;
    items = realloc(items, *capacity * item_bytes);
    if (items == NULL) bench_fail_for("stream", "no memory");
    return items;
}

void stream_begin_request(stream* s, uint32_t tenant) {
    s->requests = grow(s->requests, s->request_count, &s->request_capacity, sizeof *s->requests);
    s->requests[s->request_count++] = (stream_request){.first = s->id_count, .tenant = tenant};
}

void stream_add_block(stream* s, int64_t id, int is_prompt) {
    s->ids = grow(s->ids, s->id_count, &s->id_capacity, sizeof *s->ids);
    s->ids[s->id_count++] = id;
    stream_request* r = &s->requests[s->request_count - 1];
    if (is_prompt) ++r->prompt_blocks;
    if (++r->all_blocks > s->longest) s->longest = r->all_blocks;
}

void stream_read(stream* out_stream, const char* path, size_t skip, size_t count) {
    llm_request_trace trace;
    llm_error error;
    if (llm_request_trace_read(path, &trace, &error) != BERTH_OK)
        bench_fail_for("trace", error.text);
    if (trace.block_tokens == 0) bench_fail_for(path, "names no blocks");
    *out_stream = (stream){.block_tokens = (uint32_t)trace.block_tokens};
    for (size_t i = skip; i < trace.row_count && i - skip < count; ++i) {
        const llm_trace_row* row = &trace.rows[i];
        stream_begin_request(out_stream, 0);
        for (size_t j = 0; j < row->prompt_ids + row->tail_ids; ++j)
            stream_add_block(out_stream, trace.ids[row->first_id + j], j < row->prompt_ids);
    }
    llm_request_trace_fini(&trace);
    if (out_stream->id_count == 0) bench_fail_for(path, "has no such rows");
}

void stream_fini(stream* s) {
    free(s->requests);
    free(s->ids);
    *s = (stream){0};
}
