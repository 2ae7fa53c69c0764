// SPDX-License-Identifier: Apache-2.0
// Plans one problem, with progress on stderr, until it is solved or interrupted.
#ifndef BERTH_PLAN_SEARCH_H
#define BERTH_PLAN_SEARCH_H

#include "plan_options.h"

/// A problem with its name, and what planning it came to.
typedef struct plan_case {
    char* name;             ///< as printed: the file, and step and path where there are any
    char* stem;             ///< the same fit for the name of a file, without folder and suffix
    berth_problem* problem; ///< owned
    bool has_symbols;       ///< its sizes may depend on symbols
    uint64_t* offsets;      ///< [buffers], owned
    berth_pack_result result;
    double cpu_ms;
} plan_case;

/// Lets an interrupt end the search that runs, and those after it, instead of the program; the
/// second one ends the program.
void plan_search_catch_interrupt(void);

/// CPU time of this thread, in seconds.
double plan_search_cpu_s(void);

/// Plans `item` and checks the result with the library's verifier.
/// Errors: as berth_problem_solve().
BERTH_NODISCARD berth_status plan_search_run(plan_case* item, const plan_options* options);

#endif // BERTH_PLAN_SEARCH_H
