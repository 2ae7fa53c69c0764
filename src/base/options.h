// SPDX-License-Identifier: Apache-2.0
// The table of options, and the values of one runtime: read once, then frozen.
#ifndef BERTH_BASE_OPTIONS_H
#define BERTH_BASE_OPTIONS_H

#include <stdbool.h>

#include "berth/config.h"

/// What an option's text means.
typedef enum berth_option_type {
    BERTH_OPTION_TYPE_BOOL,             ///< 1/0, true/false, yes/no, on/off
    BERTH_OPTION_TYPE_COUNT,            ///< a whole number
    BERTH_OPTION_TYPE_BYTES,            ///< with K, M, G, T or KiB, KB, ...: always 1024-based
    BERTH_OPTION_TYPE_BYTES_OR_PERCENT, ///< bytes, or a share of a whole such as 80%
    BERTH_OPTION_TYPE_SHARE,            ///< 0.3 or 30%, at most all; "off" is more than all
    BERTH_OPTION_TYPE_WORD,             ///< one of `words`
    BERTH_OPTION_TYPE_WORD_OR_BYTES,    ///< one of `words`, or bytes
    BERTH_OPTION_TYPE_TEXT,             ///< anything that is not empty; its user checks it
} berth_option_type;

#define BERTH_OPTION_UNLIMITED UINT64_MAX ///< a maximum that is none

// clang-format off
/// The words of each option that has an enum, in its order: X(ID, word) with NEXT() between them.
#define BERTH_DEVICE_WORDS(X, NEXT)                                                                \
    X(DEVICE_WORD_CPU, "cpu") NEXT() X(DEVICE_WORD_CUDA, "cuda") NEXT()                            \
    X(DEVICE_WORD_SIM, "sim") NEXT() X(DEVICE_WORD_HIDDEN, "hidden") NEXT()                        \
    X(DEVICE_WORD_DRY, "dry")
#define BERTH_MODE_WORDS(X, NEXT)                                                                  \
    X(MODE_AUTO, "auto") NEXT() X(MODE_POOL, "pool") NEXT() X(MODE_PLAN, "plan") NEXT()            \
    X(MODE_SYSTEM, "system")
#define BERTH_KEEP_WORDS(X, NEXT)                                                                  \
    X(KEEP_ALL, "all") NEXT() X(KEEP_AUTO, "auto") NEXT() X(KEEP_NONE, "none")
#define BERTH_COMPACT_WORDS(X, NEXT)                                                               \
    X(COMPACT_OFF, "off") NEXT() X(COMPACT_AUTO, "auto") NEXT() X(COMPACT_ALWAYS, "always")
#define BERTH_HUGE_WORDS(X, NEXT)                                                                  \
    X(HUGE_WORD_OFF, "off") NEXT() X(HUGE_WORD_MADVISE, "madvise") NEXT()                          \
    X(HUGE_WORD_HUGETLB, "hugetlb")
#define BERTH_POISON_WORDS(X, NEXT)                                                                \
    X(POISON_OFF, "off") NEXT() X(POISON_FREE, "free") NEXT() X(POISON_ALLOC, "alloc") NEXT()      \
    X(POISON_BOTH, "both")

#define BERTH_WORD_ENUM(id, word) BERTH_##id
#define BERTH_WORD_COMMA() ,
#define BERTH_WORD_TEXT(id, word) word
#define BERTH_WORD_BAR() "|"
#define BERTH_WORDS_ENUM(LIST) LIST(BERTH_WORD_ENUM, BERTH_WORD_COMMA)
#define BERTH_WORDS_TEXT(LIST) LIST(BERTH_WORD_TEXT, BERTH_WORD_BAR)

/// The path in an option that names no file.
#define BERTH_OPTION_NO_FILE "-"

/// Every option: X(ID, type, default, min, max, unit, words, help). `words` lists the words of an
/// enum, or for texts the forms they may take. A minimum of 0 makes the word "off" a 0 (but not for a
/// count without a maximum, where it could mean either end), a maximum of BERTH_OPTION_UNLIMITED
/// makes "unlimited" that number.
#define BERTH_OPTION_MAP(X)                                                                        \
    X(DEVICE, WORD, "cpu", 0, 0, "", BERTH_WORDS_TEXT(BERTH_DEVICE_WORDS),                         \
      "where tensors live; cuda is an NVIDIA GPU; sim is a small simulated device for tests, "     \
      "hidden the same with memory that the host cannot reach; dry places, plans and counts as a " \
      "device of BERTH_MEMORY bytes would, but computes nothing and needs no memory: what is "     \
      "read is 0")                                                                                 \
    X(CUDA_ORDINAL, COUNT, "0", 0, 1023, "", "",                                                   \
      "which of the GPUs that the driver lists, counted from 0")                                   \
    X(CUDA_MODULE, TEXT, BERTH_OPTION_NO_FILE, 0, 0, "", "a path, - to look for it",               \
      "the file libberth_cuda.so; looked for beside the library (or the program that holds it), "  \
      "in ../lib from there, then by the system's linker")                                         \
    X(CUDA_DRIVER, TEXT, "libcuda.so.1", 0, 0, "", "a name or a path",                             \
      "the CUDA driver's library")                                                                 \
    X(CUDA_BLAS, TEXT, BERTH_OPTION_NO_FILE, 0, 0, "", "a name or a path, - to look for it",       \
      "cuBLASLt, whose matrix products are used with BERTH_BATCH_INVARIANT=0 where it is found")   \
    X(LAUNCH_BLOCKING, BOOL, "0", 0, 1, "", "",                                                    \
      "on the cuda device, wait for each op's work, so that the op whose work fails is named")     \
    X(THREADS, COUNT, "0", 0, 1024, "threads", "",                                                 \
      "threads that compute, the calling one included; 0 takes all cores")                         \
    X(MEMORY, BYTES_OR_PERCENT, "unlimited", 65536, BERTH_OPTION_UNLIMITED, "bytes", "",           \
      "the most device memory to use; unlimited means what the device has; the dry one has what "  \
      "is asked for, and no less than the machine")                                                \
    X(PREALLOC, BYTES_OR_PERCENT, "0", 0, BERTH_OPTION_UNLIMITED, "bytes", "",                     \
      "device memory to map at once, for steps and pool alike; so much stays mapped whatever "     \
      "BERTH_KEEP says")                                                                           \
    X(PINNED, BYTES_OR_PERCENT, "256M", 0, BERTH_OPTION_UNLIMITED, "bytes", "",                    \
      "the most host memory to lock for transfers; per cent are of the device's memory")           \
    X(FRAMES_QUOTA, BYTES_OR_PERCENT, "unlimited", 65536, BERTH_OPTION_UNLIMITED, "bytes", "",     \
      "the most to map for frames of steps; per cent are of what BERTH_MEMORY allows")             \
    X(POOL_QUOTA, BYTES_OR_PERCENT, "unlimited", 65536, BERTH_OPTION_UNLIMITED, "bytes", "",       \
      "the most to map for the pools of all contexts together; per cent as above")                 \
    X(KV_QUOTA, BYTES_OR_PERCENT, "unlimited", 65536, BERTH_OPTION_UNLIMITED, "bytes", "",         \
      "the most to map for KV caches; per cent as above")                                          \
    X(CONTEXT_QUOTA, BYTES_OR_PERCENT, "unlimited", 65536, BERTH_OPTION_UNLIMITED, "bytes", "",    \
      "the most to map for one context; per cent as above")                                        \
    X(CONTEXT_SHARE, BYTES_OR_PERCENT, "0", 0, BERTH_OPTION_UNLIMITED, "bytes", "",                \
      "kept for each context from its creation on, whatever others ask for; per cent as above")    \
    X(HIGH_WATERMARK, BYTES_OR_PERCENT, "off", 0, BERTH_OPTION_UNLIMITED, "bytes", "",             \
      "memory in use or promised at which a line is logged and the alarm callback called; per "    \
      "cent as above")                                                                             \
    X(LOW_WATERMARK, BYTES_OR_PERCENT, "0", 0, BERTH_OPTION_UNLIMITED, "bytes", "",                \
      "to which it must fall before that can happen again; 0: a tenth below the other; per cent "  \
      "as above")                                                                                  \
    X(MODE, WORD, "auto", 0, 0, "", BERTH_WORDS_TEXT(BERTH_MODE_WORDS),                            \
      "where tensors are placed: by plans and pool, by the pool alone, by plans even for steps "   \
      "that keep leaving them, or by the system's allocator")                                      \
    X(BUCKETS, TEXT, "geometric:4", 0, 0, "",                                                      \
      "geometric:N, pow2, linear:N, list:A,B,..., adaptive:N",                                     \
      "which values of a symbol share a plan: N steps an octave, powers of two, steps of N, a "    \
      "list of bounds, or N bounds that follow the values seen")                                   \
    X(PLAN_QUANTUM, COUNT, "64", 0, 65536, "", "",                                                 \
      "parts of an octave that symbols are rounded up to when offsets are remembered; 0 rounds "   \
      "nothing")                                                                                   \
    X(PLAN_CACHE_BYTES, BYTES, "16M", 65536, BERTH_OPTION_UNLIMITED, "bytes", "",                  \
      "host memory for what is learned and planned of one kind of step")                           \
    X(PLAN_CACHE_ENTRIES, COUNT, "65536", 1, BERTH_OPTION_UNLIMITED, "entries", "",                \
      "plans and placements kept of one kind of step; the least worth keeping go first")           \
    X(PLAN_CACHE_FILE, TEXT, BERTH_OPTION_NO_FILE, 0, 0, "", "a path, - for none",                 \
      "file that keeps what is learned and planned for the next process")                         \
    X(PLAN_BUDGET_MS, COUNT, "250", 0, 3600000, "ms", "",                                          \
      "CPU time of a background search for a tighter plan, where one is used often; a plan is "    \
      "searched for twice at most, the second time four times as long; 0: plans stay as made")     \
    X(TRACE_FILE, TEXT, BERTH_OPTION_NO_FILE, 0, 0, "", "a path, - for none",                      \
      "file that a runtime writes at its end: what its steps allocate, for berth-plan")            \
    X(TRACE_MAX, COUNT, "1048576", 16, 1073741824, "events", "",                                   \
      "events that one run of a step may record; a longer run stays on the pool")                  \
    X(PATHS_MAX, COUNT, "8", 1, 4096, "paths", "",                                                 \
      "paths that one step may take and have planned")                                             \
    X(KEEP, WORD_OR_BYTES, "auto", 0, BERTH_OPTION_UNLIMITED, "bytes",                             \
      BERTH_WORDS_TEXT(BERTH_KEEP_WORDS),                                                          \
      "idle memory kept mapped: all of it, as much as recent use suggests, none (the pool's goes "  \
      "back with the release that makes it idle, but for a 64th of what is in use), or so many "   \
      "bytes")                                                                                     \
    X(DECAY_MS, COUNT, "10000", 0, BERTH_OPTION_UNLIMITED, "ms", "",                               \
      "time in which idle memory that BERTH_KEEP does not keep goes back to the system, also "     \
      "while the program sleeps; 0: at each step's end, unlimited: never")                         \
    X(FRAG_HORIZON, COUNT, "32", 8,  1073741824, "allocations", "",                                \
      "how far ahead fragmentation is foretold")                                                   \
    X(COMPACT_FI, SHARE, "30%", 0, 0, "", "",                                                      \
      "fragmentation index, measured or foretold, over which the pool is compacted; off: never "   \
      "for the index's sake")                                                                      \
    X(COMPACT_COOLDOWN_MS, COUNT, "100", 0, 3600000, "ms", "",                                     \
      "rest between two compactions, doubled after each one that brings nothing; failing "         \
      "allocations do not wait for it")                                                            \
    X(COMPACT, WORD, "auto", 0, 0, "", BERTH_WORDS_TEXT(BERTH_COMPACT_WORDS),                      \
      "whether tensors of the pool are moved to make room: never, where that pays, or at every "   \
      "opportunity (for tests)")                                                                   \
    X(COMPACT_BUDGET_US, COUNT, "500", 1, 1000000, "us", "",                                       \
      "time that one slice of compaction may take between two ops")                                \
    X(COMPACT_BUDGET_BYTES, BYTES, "8M", 4096, BERTH_OPTION_UNLIMITED, "bytes", "",                \
      "bytes that one slice of compaction may copy")                                               \
    X(HUGE, WORD, "madvise", 0, 0, "", BERTH_WORDS_TEXT(BERTH_HUGE_WORDS),                         \
      "huge pages of the CPU device: none, asked for, or from the system's reserve")               \
    X(NUMA, TEXT, "auto", 0, 0, "", "auto, off, local, interleave, bind:N",                        \
      "memory nodes of the CPU device where there are several: interleaved if several threads "    \
      "compute, as the process was started, that of the thread that maps, all in turn, or node N") \
    X(BATCH_INVARIANT, BOOL, "1", 0, 1, "", "",                                                    \
      "each row of a result has the same bits for every batch size and thread count")              \
    X(POISON, WORD, "off", 0, 0, "", BERTH_WORDS_TEXT(BERTH_POISON_WORDS),                         \
      "fill memory with a pattern when it is freed, placed, or both")                              \
    X(GUARD, BOOL, "0", 0, 1, "", "",                                                              \
      "put a pattern behind each block, looked at when it is given back, and granules that are "   \
      "not mapped around large blocks and frames")                                                 \
    X(LEAKS, BOOL, "0", 0, 1, "", "",                                                              \
      "log what is still out, by the place that took it, when the runtime is released and when "   \
      "the process ends")                                                                          \
    X(HISTORY, COUNT, "0", 0, 16777216, "events", "",                                              \
      "takes and gives of the pools that are remembered, 32 bytes each, for "                      \
      "berth_runtime_save_history; 0: none")                                                       \
    X(SNAPSHOT_ON_OOM, TEXT, BERTH_OPTION_NO_FILE, 0, 0, "", "a path, - for none",                 \
      "file that gets report and options when a request for memory is first refused; the history " \
      "goes to the same path with .history behind it")                                             \
    X(CHECK_ORDER, BOOL, "0", 0, 1, "", "",                                                        \
      "on an asynchronous device, refuse work on bytes that another stream may still be using")    \
    X(LOG, TEXT, "warn", 0, 0, "", "LEVEL, LEVEL:FILE",                                            \
      "what to log (off, error, warn, info, debug) and where; stderr if there is no file")         \
    X(PRINT_CONFIG, BOOL, "0", 0, 1, "", "",                                                       \
      "print every option's value and origin once to stderr")                                      \
    X(STRICT, BOOL, "0", 0, 1, "", "",                                                             \
      "an unknown BERTH_ variable is an error instead of a warning")                               \
    X(CONF, TEXT, "-", 0, 0, "", "NAME=VALUE,...",                                                 \
      "options in one variable; an option's own variable wins")
// clang-format on

typedef enum berth_option {
#define BERTH_OPTION_ENUM(id, type, text, min, max, unit, words, help) BERTH_OPTION_##id,
    BERTH_OPTION_MAP(BERTH_OPTION_ENUM)
#undef BERTH_OPTION_ENUM
        BERTH_OPTION_COUNT
} berth_option;

typedef enum berth_option_device { BERTH_WORDS_ENUM(BERTH_DEVICE_WORDS) } berth_option_device;
typedef enum berth_mode { BERTH_WORDS_ENUM(BERTH_MODE_WORDS) } berth_mode;
typedef enum berth_keep {
    BERTH_WORDS_ENUM(BERTH_KEEP_WORDS),
    BERTH_KEEP_BYTES, ///< so many as berth_options_u64 says
} berth_keep;
typedef enum berth_compact_mode { BERTH_WORDS_ENUM(BERTH_COMPACT_WORDS) } berth_compact_mode;
typedef enum berth_option_huge { BERTH_WORDS_ENUM(BERTH_HUGE_WORDS) } berth_option_huge;
typedef enum berth_poison { BERTH_WORDS_ENUM(BERTH_POISON_WORDS) } berth_poison;

/// Where a value comes from, the weakest first.
typedef enum berth_option_origin {
    BERTH_OPTION_ORIGIN_DEFAULT,
    BERTH_OPTION_ORIGIN_CONF,
    BERTH_OPTION_ORIGIN_ENVIRONMENT,
    BERTH_OPTION_ORIGIN_CALL,
} berth_option_origin;

#define BERTH_OPTION_TEXT_BYTES 512 ///< the longest value, with its zero byte

/// The value of one option.
typedef struct berth_option_value {
    uint64_t number; ///< counts, bytes, 0 or 1
    double ratio;    ///< shares and percentages, 0.3 for 30%; -1 if the value is none
    uint32_t word;   ///< index among the option's words; their number if the value is no word
    berth_option_origin origin;
    char text[BERTH_OPTION_TEXT_BYTES]; ///< as given
} berth_option_value;

/// The options of one runtime. Plain memory: no fini.
typedef struct berth_options {
    berth_option_value values[BERTH_OPTION_COUNT];
} berth_options;

/// Reads defaults, BERTH_CONF, the environment and `settings` [count], in this order.
///
/// Unknown names in BERTH_CONF and unknown BERTH_ variables give one warning, which names the
/// nearest known ones, or with BERTH_STRICT an error; unknown names in `settings` are always an
/// error. Prints the result to stderr, once in the process, if BERTH_PRINT_CONFIG says so.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT with a text that names variable, value and accepted range;
///          then `*out` is undefined.
/// Threads: any, while nobody changes the environment.
BERTH_NODISCARD berth_status berth_options_init(berth_options* out,
                                                const berth_option_setting* settings,
                                                size_t count);

/// The value of a count or of bytes.
uint64_t berth_options_u64(const berth_options* options, berth_option option);
/// Bytes: as given, a percentage being of `whole`.
uint64_t berth_options_bytes(const berth_options* options, berth_option option, uint64_t whole);
/// A share, 0.3 for 30%; more than 1 if the option is off.
double berth_options_share(const berth_options* options, berth_option option);
/// True if it is on.
bool berth_options_bool(const berth_options* options, berth_option option);
/// The index of a word in the table's list; for words or bytes, the number of words if bytes.
uint32_t berth_options_word(const berth_options* options, berth_option option);
/// The value as it was given, of any option.
const char* berth_options_text(const berth_options* options, berth_option option);

/// Writes one line "BERTH_NAME = value unit (origin)" for each option, cut to `size` bytes with the
/// zero byte; returns the length of the whole text without it.
size_t berth_options_format(const berth_options* options, char* buffer, size_t size);

#endif // BERTH_BASE_OPTIONS_H
