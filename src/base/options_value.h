// SPDX-License-Identifier: Apache-2.0
// What an option's text means: parsing, bounds, and the words for both in messages.
#ifndef BERTH_BASE_OPTIONS_VALUE_H
#define BERTH_BASE_OPTIONS_VALUE_H

#include "base/options.h"

/// A row of BERTH_OPTION_MAP.
typedef struct berth_option_info {
    const char* name; ///< without BERTH_
    berth_option_type type;
    const char* default_text;
    uint64_t min;
    uint64_t max;
    const char* unit;
    const char* words; ///< separated by '|'
    const char* help;
} berth_option_info;

/// The row of `option`; never NULL.
const berth_option_info* berth_option_query_info(berth_option option);

/// Parses `text` for an option like `info` into `*out` (all but the origin). Independent of the
/// locale. Returns false for what is not of its type, out of its bounds, or too long.
bool berth_option_parse(const berth_option_info* info, const char* text, berth_option_value* out);

/// Writes what `info` accepts, such as "a whole number from 0 to 1024 (threads)".
void berth_option_describe(const berth_option_info* info, char* out, size_t size);

/// Writes the value in a normal form: 16777216, 30%, unlimited, 1, auto.
void berth_option_value_format(const berth_option_info* info,
                               const berth_option_value* value,
                               char* out,
                               size_t size);

#endif // BERTH_BASE_OPTIONS_VALUE_H
