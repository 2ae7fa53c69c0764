// SPDX-License-Identifier: Apache-2.0
// Where a runtime's tensors are going to be, asked before there is one: budgets depend on it.
#ifndef LLM_DEVICE_H
#define LLM_DEVICE_H

#include <stdbool.h>

/// True unless a runtime whose device is set to `device` (NULL: to what the environment says) has
/// its tensors in the memory of this process. False of a device that there is not: its creation
/// says so.
bool llm_device_is_apart(const char* device);

#endif // LLM_DEVICE_H
