// SPDX-License-Identifier: Apache-2.0
// Numbers as reports print them.
#ifndef BERTH_SAMPLES_LLM_REPORT_TEXT_H
#define BERTH_SAMPLES_LLM_REPORT_TEXT_H

#include <stdint.h>

/// A cell of a table.
typedef struct llm_cell {
    char text[32];
} llm_cell;

/// A whole number.
llm_cell llm_cell_count(uint64_t count);

/// A number with so many digits behind the point, and a unit.
llm_cell llm_cell_number(double number, int digits, const char* unit);

/// Bytes, in the unit that suits them.
llm_cell llm_cell_bytes(uint64_t bytes);

/// A time, in the unit that suits it.
llm_cell llm_cell_time(uint64_t ns);

/// `part` of `whole`, 0 of nothing.
double llm_ratio(double part, double whole);

#endif // BERTH_SAMPLES_LLM_REPORT_TEXT_H
