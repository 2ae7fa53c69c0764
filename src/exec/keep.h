// SPDX-License-Identifier: Apache-2.0
// How much idle memory contexts keep (BERTH_KEEP), and how the rest ages (BERTH_DECAY_MS).
#ifndef BERTH_EXEC_KEEP_H
#define BERTH_EXEC_KEEP_H

#include "exec/exec_impl.h"

/// When a context's memory is worth a look again.
typedef enum berth_keep_outlook {
    BERTH_KEEP_SETTLED, ///< nothing more goes back unless something new happens
    BERTH_KEEP_AGEING,  ///< more goes back in the next epochs
    BERTH_KEEP_MORE,    ///< more goes back now
} berth_keep_outlook;

/// True if idle memory of the runtime's contexts ages: neither all nor nothing is kept, nor at once
/// or never given back.
bool berth_keep_is_ageing(const berth_runtime* runtime);

/// Notes the use of memory by an outermost step that has just ended, and gives back what is not to
/// be kept any longer, unless a thread does that. Under the context's lock.
void berth_context_keep(berth_context* context);

/// The same when the program is idle; returns the bytes given back. Under the context's lock.
uint64_t berth_context_give_back(berth_context* context);

/// Gives back up to `limit_bytes` of what has aged by now; any thread that keeps the context valid.
/// Waits for nobody: what is in use at the moment is left alone.
berth_keep_outlook berth_context_age(berth_context* context, uint64_t limit_bytes);

#endif // BERTH_EXEC_KEEP_H
