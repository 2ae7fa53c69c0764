// SPDX-License-Identifier: Apache-2.0
// Who takes part in the benchmark of the pool: one interface over Berth's pools, other allocators
// and the models of PyTorch's.
#ifndef BERTH_BENCH_POOL_CONTENDERS_H
#define BERTH_BENCH_POOL_CONTENDERS_H

#include "memory/pool.h"

#define MAX_THREADS 8
#define CONTENDERS 7

/// An allocator with what belongs to each thread. Threads are numbered; a block is given back by
/// the number of the thread that took it.
typedef struct contender {
    const char* name;
    bool is_there;
    bool is_made_up; ///< addresses lead nowhere
    void* of_thread[MAX_THREADS];
    void (*take)(void* of_thread, uint64_t size, berth_block* out_block);
    void (*give)(void* of_thread, const berth_block* block);
    /// `of_thread` is that of the thread that took the block, which is not the calling one.
    void (*give_remote)(void* of_thread, const berth_block* block);
    void (*enter)(void* of_thread); ///< a thread begins to use what is its own; may be NULL
    void (*leave)(void* of_thread); ///< it ends, and gives idle memory back; may be NULL
} contender;

/// Fills `contenders` [CONTENDERS]; ends the program if Berth's cannot be made.
void contenders_open(contender* contenders);
void contenders_close(contender* contenders);

#endif // BERTH_BENCH_POOL_CONTENDERS_H
