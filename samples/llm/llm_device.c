// SPDX-License-Identifier: Apache-2.0
// Asks the library for the value of its option, so that its environment and spellings hold.
#include "llm_device.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "berth/config.h"

/// The text of all options, for the caller to free; NULL if there is none.
static char* format_options(const berth_option_setting* settings, size_t count) {
    size_t needed;
    if (berth_config_format(settings, count, NULL, 0, &needed) != BERTH_OK) return NULL;
    char* text = malloc(needed + 1);
    if (text == NULL) return NULL;
    if (berth_config_format(settings, count, text, needed + 1, &needed) == BERTH_OK) return text;
    free(text);
    return NULL;
}

bool llm_device_is_apart(const char* device) {
    const berth_option_setting setting = {"device", device};
    char* text = format_options(&setting, device != NULL ? 1 : 0);
    static const char name[] = "BERTH_DEVICE = ";
    const char* found = text == NULL ? NULL : strstr(text, name);
    const bool is_apart = found != NULL && strncasecmp(found + sizeof name - 1, "cpu ", 4) != 0;
    free(text);
    return is_apart;
}
