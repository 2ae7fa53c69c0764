// SPDX-License-Identifier: Apache-2.0
// One pointer for each thread.
#include "device/native_stream.h"

#include <stddef.h>

static _Thread_local void* current;

void berth_native_stream_note(void* native) { current = native; }

void* berth_native_stream_query(void) { return current; }
