// SPDX-License-Identifier: Apache-2.0
// Names and texts of status codes.
#include "berth/status.h"

const char* berth_status_name(berth_status status) {
    switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
    case BERTH_##name:                                                                             \
        return "BERTH_" #name;
        BERTH_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "BERTH_ERR_UNKNOWN";
}

const char* berth_status_text(berth_status status) {
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case BERTH_##name:                                                                             \
        return text;
        BERTH_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "not a status code";
}
