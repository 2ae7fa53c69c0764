// SPDX-License-Identifier: Apache-2.0
// Numbers as reports print them.
#include "report_text.h"

#include <inttypes.h>
#include <stdio.h>

llm_cell llm_cell_count(uint64_t count) {
    llm_cell c;
    snprintf(c.text, sizeof c.text, "%" PRIu64, count);
    return c;
}

llm_cell llm_cell_number(double number, int digits, const char* unit) {
    llm_cell c;
    snprintf(c.text, sizeof c.text, "%.*f%s", digits, number, unit);
    return c;
}

llm_cell llm_cell_bytes(uint64_t bytes) {
    static const char* const units[] = {" B", " KiB", " MiB", " GiB"};
    double number = (double)bytes;
    size_t unit = 0;
    for (; number >= 1024.0 && unit < 3; unit++)
        number /= 1024.0;
    return llm_cell_number(number, unit == 0 ? 0 : 2, units[unit]);
}

llm_cell llm_cell_time(uint64_t ns) {
    if (ns < 1000000) return llm_cell_number((double)ns * 1e-3, 1, " us");
    if (ns < 1000000000) return llm_cell_number((double)ns * 1e-6, 1, " ms");
    return llm_cell_number((double)ns * 1e-9, 2, " s");
}

double llm_ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }
