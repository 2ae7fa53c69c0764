// SPDX-License-Identifier: Apache-2.0
// A ring of peaks, weighted by a smooth step of their age as jemalloc's decay is.
#include "memory/use_window.h"

#include <math.h>

#define DEVIATIONS_KEPT 2.0

static void push(berth_use_window* window, uint64_t peak_bytes) {
    window->newest++;
    window->peaks[window->newest % BERTH_USE_EPOCHS] = peak_bytes;
    if (window->count < BERTH_USE_EPOCHS) window->count++;
}

/// Lets the epochs up to `epoch` begin.
static void advance(berth_use_window* window, uint64_t epoch) {
    if (window->count == 0) {
        window->newest = epoch;
        window->count = 1;
        window->peaks[epoch % BERTH_USE_EPOCHS] = 0;
        return;
    }
    if (epoch > window->newest + BERTH_USE_EPOCHS) window->newest = epoch - BERTH_USE_EPOCHS;
    while (window->newest < epoch)
        push(window, window->level_bytes);
}

void berth_use_window_note(berth_use_window* window,
                           uint64_t epoch,
                           uint64_t peak_bytes,
                           uint64_t level_bytes) {
    advance(window, epoch);
    uint64_t* peak = &window->peaks[window->newest % BERTH_USE_EPOCHS];
    if (*peak < peak_bytes) *peak = peak_bytes;
    if (*peak < level_bytes) *peak = level_bytes;
    window->level_bytes = level_bytes;
}

/// 1 for the current epoch, falling smoothly to 0 for one that is BERTH_USE_EPOCHS old.
static double weight_of(uint64_t age) {
    const double x = (double)age / BERTH_USE_EPOCHS;
    return 1.0 - x * x * x * (x * (x * 6.0 - 15.0) + 10.0);
}

uint64_t berth_use_window_expect(const berth_use_window* window, uint64_t epoch) {
    berth_use_window now = *window;
    if (now.count == 0) return 0;
    advance(&now, epoch);
    double weights = 0, sum = 0, squares = 0, highest = 0, fading = 0;
    for (uint32_t age = 0; age < now.count; age++) {
        const double peak = (double)now.peaks[(now.newest - age) % BERTH_USE_EPOCHS];
        const double weight = weight_of(age);
        weights += weight;
        sum += weight * peak;
        squares += weight * peak * peak;
        if (peak > highest) highest = peak;
        if (weight * peak > fading) fading = weight * peak;
    }
    const double mean = sum / weights;
    const double variance = squares / weights - mean * mean;
    double expected = mean + DEVIATIONS_KEPT * sqrt(variance > 0 ? variance : 0);
    if (expected < fading) expected = fading;
    if (expected > highest) expected = highest;
    const uint64_t bytes = (uint64_t)expected;
    return bytes > now.level_bytes ? bytes : now.level_bytes;
}
