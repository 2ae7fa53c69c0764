// SPDX-License-Identifier: Apache-2.0
// A model of the caching allocator of PyTorch, written from its public description: it keeps books
// about the segments that the allocator would hold and returns made-up addresses.
//
// Requests are rounded up to 512 bytes. Those up to 1 MiB come from segments of 2 MiB, those below
// 10 MiB from segments of 20 MiB, larger ones from segments of their own, rounded up to 2 MiB. The
// smallest free block that is large enough is taken, and split if 512 bytes (small) or more than
// 1 MiB (large) would be left; neighbours in a segment are joined when they are free. With
// expandable segments there is one range for small and one for large requests, which grows at its
// end by whole 2 MiB or 20 MiB, and every block is split from 512 bytes on. Nothing goes back to
// the system before it refuses: then segments without a block in use do, and whole 2 MiB or 20 MiB
// of an expandable range, whose addresses get memory again before the range is lengthened.
// Source: PyTorch's notes on CUDA memory management, the comments of CUDACachingAllocator.
#ifndef BERTH_BENCH_TORCH_ALLOCATOR_H
#define BERTH_BENCH_TORCH_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/pool.h"

typedef struct torch_allocator torch_allocator;

torch_allocator* torch_allocator_create(bool is_expandable); ///< NULL without memory
void torch_allocator_destroy(torch_allocator* allocator);    ///< accepts NULL

/// The pair that a runtime in BERTH_MODE=system takes storage from; the allocator is borrowed.
berth_pool_bypass torch_allocator_bypass(torch_allocator* allocator);

/// The most that segments may have in all; no limit at first.
void torch_allocator_set_capacity(torch_allocator* allocator, uint64_t bytes);

/// Gives what no block uses back to the system, as torch.cuda.empty_cache does.
void torch_allocator_trim(torch_allocator* allocator);

/// Bytes of segments, now.
uint64_t torch_allocator_query_reserved(const torch_allocator* allocator);

/// Bytes of blocks that are out, with what rounding adds.
uint64_t torch_allocator_query_used(const torch_allocator* allocator);

/// The most bytes that were live at one time since the last call, each request rounded up to
/// Berth's alignment as a step's lower bound is.
uint64_t torch_allocator_take_live_peak(torch_allocator* allocator);

#endif // BERTH_BENCH_TORCH_ALLOCATOR_H
