// SPDX-License-Identifier: Apache-2.0
// Options by name, and what they are set to.
//
// Each option has a default, which BERTH_CONF=name=value,... replaces, which the variable
// BERTH_<NAME> replaces, which a setting in a call replaces.
#ifndef BERTH_CONFIG_H
#define BERTH_CONFIG_H

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// One option set by a call.
typedef struct berth_option_setting {
    const char* name;  ///< as in the environment, in any case, with or without BERTH_: "threads"
    const char* value; ///< as in the environment: "2", "512M", "30%"
} berth_option_setting;

/// Writes what the options of a runtime created now with `settings` [setting_count] would be: one
/// line "BERTH_NAME = value unit (origin)" for each option.
///
/// `buffer` [size] receives the text, cut to fit and ended by a zero byte; it may be NULL if size
/// is 0. `*out_needed` is the length of the whole text without the zero byte.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT as the creation of a runtime would report it; then
///          `*out_needed` is 0.
/// Threads: any, while nobody changes the environment.
BERTH_API BERTH_NODISCARD berth_status berth_config_format(const berth_option_setting* settings,
                                                           size_t setting_count,
                                                           char* buffer,
                                                           size_t size,
                                                           size_t* out_needed);

/// Writes the table of all options in Markdown: name, values, default, meaning. Does not depend on
/// the environment. `buffer`, `size` and `*out_needed` are as in berth_config_format.
BERTH_API BERTH_NODISCARD berth_status berth_config_markdown(char* buffer,
                                                             size_t size,
                                                             size_t* out_needed);

#ifdef __cplusplus
}
#endif

#endif // BERTH_CONFIG_H
