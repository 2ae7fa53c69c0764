// SPDX-License-Identifier: Apache-2.0
// Reading the numbers of command lines.
#include "option_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool llm_parse_whole(const char* text, int64_t least, int64_t most, int64_t* out_value) {
    char* end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most) return false;
    *out_value = value;
    return true;
}

bool llm_parse_number(const char* text, double least, double most, double* out_value) {
    char* end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < least || value > most)
        return false;
    *out_value = value;
    return true;
}

bool llm_parse_bytes(const char* text, uint64_t* out_bytes) {
    static const char units[] = "KMGT";
    char* end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9') return false;
    const char* unit = strchr(units, *end); // the end of `units` for a number alone
    if (unit == NULL) return false;
    bool has_unit = *unit != '\0';
    if (has_unit && strcmp(end + 1, "") != 0 && strcmp(end + 1, "iB") != 0) return false;
    unsigned shift = has_unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (value > UINT64_MAX >> shift) return false;
    *out_bytes = (uint64_t)value << shift;
    return true;
}
