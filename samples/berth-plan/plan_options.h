// SPDX-License-Identifier: Apache-2.0
// What the command line of berth-plan asks for.
#ifndef BERTH_PLAN_OPTIONS_H
#define BERTH_PLAN_OPTIONS_H

#include "berth/berth.h"

/// Statuses that the command ends with; where several apply, the highest.
enum {
    PLAN_EXIT_SOLVED = 0,
    PLAN_EXIT_UNSOLVED = 1, ///< not within the capacity, or a solution that is not valid
    PLAN_EXIT_BAD_INPUT = 2 ///< a file or an argument that is wrong, or a file not written
};

/// The command line. Texts are the arguments themselves.
typedef struct plan_options {
    const char** files; ///< [file_count]
    size_t file_count;
    berth_trace_setting* settings; ///< [setting_count] of --at; names are copies
    size_t setting_count;
    double improve_s;     ///< CPU seconds for each problem; 0: the quick portfolio alone
    uint64_t capacity;    ///< bytes; 0: none given
    uint64_t seed;        ///< of the search
    const char* output;   ///< where offsets go, or NULL; "-" is the standard output
    const char* svg;      ///< where the drawing goes, or NULL
    bool verify;          ///< check the offsets of the files
    bool ignores_offsets; ///< plan as if the files gave no offsets
} plan_options;

/// Reads the arguments. Returns true to go on; otherwise `*out_status` is what to end with, and
/// help or what is wrong has been printed. plan_options_fini() is called in any case.
bool plan_options_read(plan_options* options, int argc, char** argv, int* out_status);

/// Frees what reading made.
void plan_options_fini(plan_options* options);

#endif // BERTH_PLAN_OPTIONS_H
