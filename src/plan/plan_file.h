// SPDX-License-Identifier: Apache-2.0
// What is learned and planned, as bytes of a file: the format, and reading it.
//
// A file is a header, the configuration that its sizes hold for (a text, compared in full), one
// section for each kind of step, and a checksum of everything. Numbers are little-endian. A section
// has its length in front and a checksum behind:
//
//   step   name, generation, names of the bindings, paths (the one known first comes first)
//   path   identity (names of events; events; values), recency, deaths, symbols, kept runs, classes
//          of dimensions, class of each dimension, plans
//   plan   key (the upper end of each symbol's bucket), tier, cost, hits, an offset for each value
//
// Events are called by name, so that other processes find them. Equal paths have equal identities,
// byte for byte. There is no relation: only a packing, which is verified and swept anew before its
// first use, so that no file can place two values on one another (P1).
#ifndef BERTH_PLAN_PLAN_FILE_H
#define BERTH_PLAN_PLAN_FILE_H

#include "base/byte_stream.h"
#include "base/vec.h"

#define BERTH_PLAN_FILE_VERSION 1u
#define BERTH_PLAN_FILE_HEADER_BYTES 48u
/// Runs kept of one path that a reader accepts.
#define BERTH_PLAN_FILE_RUNS 64u
/// A death with this bit: the value escapes.
#define BERTH_PLAN_FILE_ESCAPES 0x80000000u

/// Bytes of one item of a path's arrays.
enum {
    BERTH_PLAN_FILE_EVENT_BYTES = 6, ///< u32 name, u16 values
    BERTH_PLAN_FILE_VALUE_BYTES = 4, ///< u8 rank, u8 dtype, u16 flags
};

/// A packing of one path in one bucket. Pointers are into the file.
typedef struct berth_file_plan {
    const unsigned char* bytes; ///< [size] the whole of it
    size_t size;
    const unsigned char* key;     ///< i64 [symbol_count], in the order of the path's symbols
    const unsigned char* offsets; ///< u64 [value_count]
    uint64_t cost;
    uint64_t hits;
    uint8_t tier; ///< berth_plan_tier
} berth_file_plan;

/// A path with what was learned on it.
typedef struct berth_file_path {
    const unsigned char* identity; ///< [identity_bytes]
    size_t identity_bytes;
    size_t first_name; ///< in the file's texts: names of events
    uint32_t recency;  ///< more than that of paths of the step that were last taken before
    uint32_t name_count;
    uint32_t event_count;
    uint32_t value_count;
    uint32_t dim_count;
    uint32_t symbol_count;
    uint32_t run_count;
    uint32_t class_count;
    uint32_t plan_count;
    const unsigned char* events;   ///< [event_count]
    const unsigned char* values;   ///< [value_count]
    const unsigned char* deaths;   ///< u32 [value_count]
    const unsigned char* learned;  ///< [learned_bytes] from the symbols to the classes' dimensions
    const unsigned char* symbols;  ///< u16 [symbol_count] indices of bindings
    const unsigned char* runs;     ///< i64 [run_count][binding_count], the oldest first
    const unsigned char* classes;  ///< [class_count] of berth_file_class_bytes()
    const unsigned char* class_of; ///< u32 [dim_count]
    size_t learned_bytes;
    size_t first_plan; ///< in the file's plans
} berth_file_path;

/// A kind of step.
typedef struct berth_file_step {
    const unsigned char* bytes; ///< [size] the section's content
    size_t size;
    berth_byte_text name;
    uint64_t generation;  ///< of the file when a process last used the step
    size_t first_binding; ///< in the file's texts
    uint32_t binding_count;
    uint32_t path_count;
    size_t first_path; ///< in the file's paths
} berth_file_step;

BERTH_VEC_DEFINE(berth_file_text_vec, berth_byte_text);
BERTH_VEC_DEFINE(berth_file_step_vec, berth_file_step);
BERTH_VEC_DEFINE(berth_file_path_vec, berth_file_path);
BERTH_VEC_DEFINE(berth_file_plan_vec, berth_file_plan);

/// Tables over the bytes of a file, which stay the caller's. A zeroed struct is an empty file.
typedef struct berth_plan_file {
    uint64_t generation;
    berth_file_text_vec texts;
    berth_file_step_vec steps;
    berth_file_path_vec paths;
    berth_file_plan_vec plans;
} berth_plan_file;

/// A class of dimensions: u8 marks, u8 misses, i64 largest, i64 for each kept run.
static inline size_t berth_file_class_bytes(uint32_t run_count) {
    return 2 + 8 + (size_t)run_count * 8;
}
/// A mark of a class: its size depends on data.
#define BERTH_FILE_CLASS_DATA 1u

/// True if `bytes` [size] begin as plan files do, whatever their version; what does not is
/// somebody else's.
bool berth_plan_file_is_ours(const unsigned char* bytes, size_t size);

/// Reads `bytes` [size], checking that everything is there, that checksums agree, and that no
/// index, count or order leads astray. `self` is empty; on failure it is again.
/// Errors: BERTH_ERR_CORRUPT (no plan file, or damaged), BERTH_ERR_UNSUPPORTED (another version, or
///         another configuration than `config`), BERTH_ERR_OUT_OF_MEMORY. The text says what.
BERTH_NODISCARD berth_status berth_plan_file_parse(berth_plan_file* self,
                                                   const berth_host* host,
                                                   const unsigned char* bytes,
                                                   size_t size,
                                                   const char* config);
void berth_plan_file_fini(berth_plan_file* self, const berth_host* host);

/// The step called `name`; NULL if there is none.
const berth_file_step* berth_plan_file_find(const berth_plan_file* self, const char* name);
/// True if binding `index` of `step` is called `name`.
bool berth_plan_file_has_binding(const berth_plan_file* self,
                                 const berth_file_step* step,
                                 uint32_t index,
                                 const char* name);

// ---- Writing. Whoever writes checks writer->failed at the end.

/// Writes the header, whose numbers berth_plan_file_end fills in, and the configuration.
void berth_plan_file_begin(berth_byte_writer* writer, const char* config);
/// Writes a section around content of `size` bytes.
void berth_plan_file_add_section(berth_byte_writer* writer,
                                 uint32_t index,
                                 const unsigned char* content,
                                 size_t size);
void berth_plan_file_end(berth_byte_writer* writer, uint64_t generation, uint32_t step_count);

#endif // BERTH_PLAN_PLAN_FILE_H
