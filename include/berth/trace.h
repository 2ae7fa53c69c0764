// SPDX-License-Identifier: Apache-2.0
// Files of packing problems: plain ones, one buffer a line, and traces of allocations, which may
// hold several steps with sizes that depend on symbols. docs/trace-format.md describes both.
#ifndef BERTH_TRACE_H
#define BERTH_TRACE_H

#include "berth/pack.h"
#include "berth/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A file that has been read. Immutable: any thread may use it.
typedef struct berth_trace_file berth_trace_file;

/// Reads the file at `path`: a packing problem (columns `id,lower,upper,size` and optional ones) or
/// a trace (columns `op,id,bytes,t_us,site`), told apart by the header. Pipes are read to their
/// end.
/// Ownership: berth_trace_file_destroy().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND, BERTH_ERR_IO,
///            BERTH_ERR_OUT_OF_MEMORY, and BERTH_ERR_CORRUPT with a sentence that begins with the
///            path and the number of the line at fault; then `*out_file` is NULL.
/// Threads:   any.
BERTH_API BERTH_NODISCARD berth_status berth_trace_file_read(const char* path,
                                                             berth_trace_file** out_file);

/// Reads `text` [size], which is copied, as berth_trace_file_read() reads a file; `name` stands for
/// the path in errors.
BERTH_API BERTH_NODISCARD berth_status berth_trace_file_parse(const char* name,
                                                              const void* text,
                                                              size_t size,
                                                              berth_trace_file** out_file);

/// Ends the file; its problems have ended. Accepts NULL.
BERTH_API void berth_trace_file_destroy(berth_trace_file* file);

/// A part of a file that is planned by itself: one path of one step, or all of a file without
/// steps. Texts live as long as the file.
typedef struct berth_trace_part {
    const char* step;    ///< name of the step; NULL outside of steps
    const char* path;    ///< number of the path in its step; NULL where none is told
    size_t buffer_count; ///< allocations
    size_t symbol_count; ///< symbols that sizes may depend on
} berth_trace_part;

/// A symbol of a part: a dimension or an integer that has a value of its own at each run.
typedef struct berth_trace_symbol {
    const char* name; ///< such as tokens.0
    int64_t value;    ///< at which the sizes in the file were seen; without one, the highest
    int64_t lowest;   ///< of the values from which the sizes were learned
    int64_t highest;  ///< of them; a symbol with lowest == highest == value is fixed
} berth_trace_symbol;

/// Number of parts: 1 for a packing problem; 0 for NULL.
BERTH_API size_t berth_trace_file_query_part_count(const berth_trace_file* file);

/// Describes the `part`-th part.
/// Errors: BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND; then `*out_part` is zero.
BERTH_API BERTH_NODISCARD berth_status berth_trace_file_query_part(const berth_trace_file* file,
                                                                   size_t part,
                                                                   berth_trace_part* out_part);

/// Describes the `symbol`-th symbol of a part.
/// Errors: BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND; then `*out_symbol` is zero.
BERTH_API BERTH_NODISCARD berth_status berth_trace_file_query_symbol(
    const berth_trace_file* file, size_t part, size_t symbol, berth_trace_symbol* out_symbol);

/// A symbol and the value it is to have.
typedef struct berth_trace_setting {
    const char* name; ///< of the symbol
    int64_t value;    ///< >= 0
} berth_trace_setting;

/// A part of a file with all sizes known, ready to be packed.
typedef struct berth_problem berth_problem;

/// Makes the problem of the `part`-th part where its symbols have the values of `settings` [count];
/// those that are not named have the values they were seen at.
/// Ownership: berth_problem_destroy(); `file`, borrowed, outlives it.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT (NULL, no such symbol, a value below 0 or other than that
///            of a fixed symbol), BERTH_ERR_NOT_FOUND (no such part), BERTH_ERR_OVERFLOW (the sizes
///            sum up to more than 2^62), BERTH_ERR_OUT_OF_MEMORY; then `*out_problem` is NULL.
/// Threads:   any.
BERTH_API BERTH_NODISCARD berth_status berth_problem_create(const berth_trace_file* file,
                                                            size_t part,
                                                            const berth_trace_setting* settings,
                                                            size_t count,
                                                            berth_problem** out_problem);

/// Ends the problem; accepts NULL.
BERTH_API void berth_problem_destroy(berth_problem* problem);

/// What berth_pack() takes; borrowed, lives as long as the problem. NULL for NULL.
BERTH_API const berth_pack_problem* berth_problem_query_pack(const berth_problem* problem);

/// How sure the sizes are where the symbols have the values asked for: EXACT, BOUND (hypotheses
/// differ; the largest), OBSERVED (some sizes were seen, not understood), UNKNOWN for NULL.
BERTH_API berth_estimate_kind berth_problem_query_kind(const berth_problem* problem);

/// No buffer, where one may be named.
#define BERTH_PROBLEM_NONE SIZE_MAX

/// One buffer as the file has it. Texts live as long as the file.
typedef struct berth_problem_row {
    const char* id;       ///< as in the file
    const char* label;    ///< op that made it; "" where none is told
    uint64_t lower;       ///< first moment at which it is wanted, in the file's own unit of time;
                          ///< in a trace allocations and releases are counted
    uint64_t upper;       ///< first moment at which it is wanted no more
    uint64_t size;        ///< bytes, rounded up to the alignment of a trace's step
    uint64_t alignment;   ///< of its offset; 0: none of its own
    uint64_t offset;      ///< given offset, or BERTH_PACK_ANYWHERE
    int64_t site;         ///< number of the place that allocated it; -1 where none is told
    size_t in_place_from; ///< index of the buffer whose place it may take, or BERTH_PROBLEM_NONE
    bool exclusive;       ///< shares its bytes with nobody
    bool escapes;         ///< in a trace: never released
    uint32_t line;        ///< in the file, from 1
} berth_problem_row;

/// Describes the `index`-th buffer, in the file's order.
/// Errors: BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND; then `*out_row` is zero.
BERTH_API BERTH_NODISCARD berth_status berth_problem_query_row(const berth_problem* problem,
                                                               size_t index,
                                                               berth_problem_row* out_row);

/// Packs the problem as berth_pack() does, within the same budget. Where buffers escape it also
/// tries all others first with those that escape above them, as a running step does, and keeps the
/// better of the two.
///
/// `out_offsets` is [buffers], in bytes.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (NULL), and as berth_pack(); then `*out_result` is zero.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_problem_solve(const berth_problem* problem,
                                                           const berth_pack_options* options,
                                                           uint64_t* out_offsets,
                                                           berth_pack_result* out_result);

#ifdef __cplusplus
}
#endif

#endif // BERTH_TRACE_H
