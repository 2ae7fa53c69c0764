// SPDX-License-Identifier: Apache-2.0
// Recent use of memory, and how much of it is worth keeping mapped. Time is counted in epochs, of
// which the last BERTH_USE_EPOCHS matter, older ones less than newer ones: so what is not used any
// more fades out smoothly. Plain numbers; no clock is read here.
#ifndef BERTH_MEMORY_USE_WINDOW_H
#define BERTH_MEMORY_USE_WINDOW_H

#include <stdint.h>

#define BERTH_USE_EPOCHS 32u

/// The most bytes in use in each of the last epochs. Zeroed: nothing seen yet.
typedef struct berth_use_window {
    uint64_t peaks[BERTH_USE_EPOCHS]; ///< that of epoch e at e % BERTH_USE_EPOCHS
    uint64_t newest;                  ///< the last epoch noted
    uint32_t count;                   ///< epochs known, `newest` included
    uint64_t level_bytes;             ///< in use when last noted
} berth_use_window;

/// Notes at time `epoch`, which does not run backwards, that up to `peak_bytes` were in use since
/// the last note and `level_bytes` are now. In epochs between the two it was as much as at the last
/// note.
void berth_use_window_note(berth_use_window* window,
                           uint64_t epoch,
                           uint64_t peak_bytes,
                           uint64_t level_bytes);

/// Bytes that recent use suggests to have at hand at time `epoch`: mean + 2 deviations of the
/// epochs' peaks, at least what is left of each peak as it fades out, at most the highest of them.
/// With nothing noted for BERTH_USE_EPOCHS epochs, as much as is in use.
uint64_t berth_use_window_expect(const berth_use_window* window, uint64_t epoch);

#endif // BERTH_MEMORY_USE_WINDOW_H
