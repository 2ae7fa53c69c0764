// SPDX-License-Identifier: Apache-2.0
// Files of packing problems in memory: parts, and the buffers, symbols and dimensions of each. Two
// readers fill them (problem_file.c, trace_lines.c), problems are made of them (problem.c).
#ifndef BERTH_PLAN_TRACE_FILE_H
#define BERTH_PLAN_TRACE_FILE_H

#include "base/vec.h"
#include "berth/trace.h"
#include "plan/csv.h"

/// No index.
#define BERTH_TRACE_NONE UINT32_MAX
/// Most bytes, and moments, in a number of a file.
#define BERTH_TRACE_BYTES_MAX (UINT64_C(1) << 62)
/// The longest text that is read.
#define BERTH_TRACE_TEXT_MAX (UINT64_C(1) << 31)

/// A buffer. Texts lie in the file's text.
typedef struct berth_trace_block {
    const char* id;
    const char* label; ///< op that made it, or ""
    const char* model; ///< expression of its bytes, or NULL
    uint64_t lower;    ///< moments; a trace's count allocations and releases
    uint64_t upper;
    uint64_t bytes;
    uint64_t alignment;
    uint64_t offset; ///< or BERTH_PACK_ANYWHERE
    int64_t site;    ///< or -1
    uint32_t from;   ///< index in the part of the buffer whose place it may take
    uint32_t line;
    bool exclusive;
    bool escapes;
} berth_trace_block;

/// A symbol.
typedef struct berth_trace_line_symbol {
    berth_trace_symbol shown;
    bool has_value;
    bool has_range;
} berth_trace_line_symbol;

/// A dimension by name.
typedef struct berth_trace_definition {
    const char* name;
    const char* text; ///< expression
    uint32_t line;
} berth_trace_definition;

/// A part: stretches of the file's arrays.
typedef struct berth_trace_section {
    const char* step; ///< or NULL
    const char* path; ///< or NULL
    uint64_t alignment;
    uint32_t first_block;
    uint32_t block_count;
    uint32_t first_symbol;
    uint32_t symbol_count;
    uint32_t first_definition;
    uint32_t definition_count;
} berth_trace_section;

BERTH_VEC_DEFINE(berth_trace_block_vec, berth_trace_block);
BERTH_VEC_DEFINE(berth_trace_symbol_vec, berth_trace_line_symbol);
BERTH_VEC_DEFINE(berth_trace_definition_vec, berth_trace_definition);
BERTH_VEC_DEFINE(berth_trace_section_vec, berth_trace_section);

struct berth_trace_file {
    const berth_host* host;
    char* name;
    char* text; ///< the file, split in place
    berth_trace_section_vec sections;
    berth_trace_block_vec blocks;
    berth_trace_symbol_vec symbols;
    berth_trace_definition_vec definitions;
};

/// As berth_trace_file_parse, with memory of `host`.
BERTH_NODISCARD berth_status berth_trace_file_parse_with(const berth_host* host,
                                                         const char* name,
                                                         const void* text,
                                                         size_t size,
                                                         berth_trace_file** out_file);

/// Adds the one part of a packing problem, whose header is the current line of `csv`.
/// Errors: BERTH_ERR_CORRUPT naming the line, BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_problem_lines_read(berth_trace_file* file, berth_csv* csv);

/// Adds the parts of a trace, likewise.
BERTH_NODISCARD berth_status berth_trace_lines_read(berth_trace_file* file, berth_csv* csv);

/// The `index`-th buffer of a problem.
const berth_trace_block* berth_problem_block(const berth_problem* problem, size_t index);

#endif // BERTH_PLAN_TRACE_FILE_H
