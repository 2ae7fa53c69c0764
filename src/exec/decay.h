// SPDX-License-Identifier: Apache-2.0
// The thread that lets idle memory age while nobody calls: one for each runtime, from its first
// context on, where there is anything to age. It never waits for a thread of the program.
#ifndef BERTH_EXEC_DECAY_H
#define BERTH_EXEC_DECAY_H

#include "exec/exec_impl.h"

/// The unit in which age is counted: BERTH_DECAY_MS holds BERTH_USE_EPOCHS of them, and as many
/// more as the thread may sleep through.
uint64_t berth_decay_epoch_ns(const berth_runtime* runtime);

/// `decay` is zeroed.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; fini all the same.
BERTH_NODISCARD berth_status berth_decay_init(berth_decay* decay);
/// There is no thread any more. Accepts a zeroed one.
void berth_decay_fini(berth_decay* decay);

/// Starts the thread if it is needed and not there. Without one, steps' ends do what they can.
void berth_decay_start(berth_runtime* runtime);
/// Ends and joins it; no context is left.
void berth_decay_stop(berth_runtime* runtime);

/// Lets no visit of a context begin until unhold, and waits for those under way, as long as they
/// take usually: so that the caller finds memory as if there were no thread. Holds add up. The
/// runtime's lock is free.
void berth_decay_hold(berth_runtime* runtime);
/// Lets memory age again.
void berth_decay_unhold(berth_runtime* runtime);

/// Lets the memory of all contexts age up to now, in parts; returns for how long nothing more will
/// have to be done. What the thread calls; tests do with a clock of their own.
uint64_t berth_decay_pass(berth_runtime* runtime);

#endif // BERTH_EXEC_DECAY_H
