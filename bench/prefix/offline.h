// SPDX-License-Identifier: Apache-2.0
// How much could be found by somebody who knows what will come: a yardstick for policies.
#ifndef BERTH_BENCH_PREFIX_OFFLINE_H
#define BERTH_BENCH_PREFIX_OFFLINE_H

#include "prefix/stream.h"

/// Blocks of prompts found if, of the blocks that nothing follows, the one goes first whose next
/// prompt is farthest away. `capacity` in blocks.
uint64_t offline_hits(const stream* s, size_t capacity);

#endif // BERTH_BENCH_PREFIX_OFFLINE_H
