// SPDX-License-Identifier: Apache-2.0
// Crossings alternate, so a number and the present state say which ones have not been told.
#include "memory/watermarks.h"

void berth_watermarks_note(berth_watermarks* marks, uint64_t used_bytes) {
    if (marks->high_bytes == 0) return;
    if (!marks->is_above && used_bytes >= marks->high_bytes) {
        marks->is_above = true;
        marks->rise_bytes = used_bytes;
        marks->rises++;
        marks->untold++;
    } else if (marks->is_above && used_bytes <= marks->low_bytes) {
        marks->is_above = false;
        marks->fall_bytes = used_bytes;
        marks->untold++;
    }
}

static berth_crossing crossing_of(const berth_watermarks* marks, bool is_rise) {
    return (berth_crossing){
        .is_rise = is_rise,
        .used_bytes = is_rise ? marks->rise_bytes : marks->fall_bytes,
        .mark_bytes = is_rise ? marks->high_bytes : marks->low_bytes,
    };
}

size_t berth_watermarks_take(berth_watermarks* marks,
                             berth_crossing out_crossings[BERTH_CROSSINGS_MOST]) {
    if (!berth_watermarks_has_news(marks)) return 0;
    size_t count = 0;
    // an even number has come back to what was told last, and the peak, or dip, between is news
    if (marks->untold % 2 == 0) out_crossings[count++] = crossing_of(marks, !marks->is_above);
    out_crossings[count++] = crossing_of(marks, marks->is_above);
    marks->untold = 0;
    marks->is_telling = true;
    return count;
}

void berth_watermarks_end_telling(berth_watermarks* marks) { marks->is_telling = false; }
