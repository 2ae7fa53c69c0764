// SPDX-License-Identifier: Apache-2.0
// Streams of prompts as ids of their blocks: recorded ones, and made ones.
#ifndef BERTH_BENCH_PREFIX_STREAM_H
#define BERTH_BENCH_PREFIX_STREAM_H

#include <stddef.h>
#include <stdint.h>

/// One prompt.
typedef struct stream_request {
    size_t first; ///< among the ids of the stream
    size_t prompt_blocks;
    size_t all_blocks; ///< with those of its answer
    uint32_t tenant;
} stream_request;

/// Prompts one after the other. Equal ids stand for equal tokens in a block and before it.
typedef struct stream {
    uint32_t block_tokens;
    stream_request* requests; ///< [request_count]
    size_t request_count;
    size_t request_capacity;
    int64_t* ids; ///< [id_count]
    size_t id_count;
    size_t id_capacity;
    size_t longest; ///< most blocks of a request
} stream;

/// Reads rows [skip, skip + count) of the trace at `path`, which has ids; ends the program if it
/// cannot.
void stream_read(stream* out_stream, const char* path, size_t skip, size_t count);

/// A stream that is made from seeded random numbers.
typedef struct stream_kind {
    const char* name;
    void (*make)(stream* out_stream);
} stream_kind;

/// The kinds; the last one has no name.
extern const stream_kind stream_kinds[];

/// Begins a request without blocks.
void stream_begin_request(stream* s, uint32_t tenant);
/// Adds a block to the request begun last, of its answer if it is not of the prompt.
void stream_add_block(stream* s, int64_t id, int is_prompt);

void stream_fini(stream* s);

#endif // BERTH_BENCH_PREFIX_STREAM_H
