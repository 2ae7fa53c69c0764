// SPDX-License-Identifier: Apache-2.0
// Files that berth-plan writes: offsets as CSV, packings as drawings. A file appears whole or not
// at all.
#ifndef BERTH_PLAN_OUTPUT_H
#define BERTH_PLAN_OUTPUT_H

#include <stdio.h>

#include "plan_search.h"

/// A file being written beside its place.
typedef struct plan_file {
    FILE* stream;
    char* path;      ///< where it will be; NULL: the standard output
    char* temporary; ///< where it is now
} plan_file;

/// Begins to write `pattern`, in which the first % stands for the stem of `item`; "-" is the
/// standard output. False after saying on stderr what failed.
bool plan_file_begin(plan_file* file, const char* pattern, const plan_case* item);

/// Puts the file in its place if all of it was written. False after saying what failed; then
/// nothing is left of it.
bool plan_file_end(plan_file* file);

/// Writes the problem's columns and the offsets of `item`.
bool plan_write_offsets(const plan_case* item, const char* pattern);

/// Draws the packing of `item`. `capacity` 0: none.
bool plan_write_svg(const plan_case* item, uint64_t capacity, const char* pattern);

#endif // BERTH_PLAN_OUTPUT_H
