// SPDX-License-Identifier: Apache-2.0
// The runtime's table of kinds of step, and what a description must agree with.
#ifndef BERTH_EXEC_STEP_ENTRY_H
#define BERTH_EXEC_STEP_ENTRY_H

#include "exec/exec_impl.h"

/// Finds the entry of desc->name, or makes it if `may_create` or if the plan file knows it (else
/// `*out_entry` is NULL). Entries live as long as the runtime. The context's lock is held, the
/// runtime's is not.
/// Errors: BERTH_ERR_INVALID_ARGUMENT if the description is malformed or differs from the first one
///         of that name in inputs, ranks or integers; BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_step_entry_find(berth_context* context,
                                                   const berth_step_desc* desc,
                                                   bool may_create,
                                                   berth_step_entry** out_entry);

/// Writes the values of one run, named as the entry names them. `desc` has passed find.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_step_entry_bind(const berth_step_entry* entry,
                                                   const berth_step_desc* desc,
                                                   const berth_host* host,
                                                   berth_binding_vec* out_bindings);

/// The entry of the step called `name`; NULL: there is none. Under the runtime's lock.
berth_step_entry* berth_step_entry_look_up(berth_runtime* runtime, const char* name);

/// The entry after `entry`, or with NULL the first; NULL: there is none. Takes the runtime's lock.
berth_step_entry* berth_step_entry_next(berth_runtime* runtime, berth_step_entry* entry);

void berth_step_entry_destroy(const berth_host* host, berth_step_entry* entry); ///< accepts NULL

#endif // BERTH_EXEC_STEP_ENTRY_H
