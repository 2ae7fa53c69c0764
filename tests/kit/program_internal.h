// SPDX-License-Identifier: Apache-2.0
// What the parts of a random tensor program share.
#ifndef BERTH_TEST_PROGRAM_INTERNAL_H
#define BERTH_TEST_PROGRAM_INTERNAL_H

#include "program.h"
#include "random.h"

enum {
    PROGRAM_SLOTS = 12,  ///< tensors that a step's ops choose from
    PROGRAM_KEPT = 10,   ///< tensors that live on across steps
    PROGRAM_PIECES = 48, ///< tensors that a hoard is made of
};

typedef struct program {
    berth_runtime* runtime;
    berth_context* ctx;
    berth_context* other;   ///< a second context that now and then reads the first one's tensors
    berth_context* hoarder; ///< a third one that takes all memory; NULL if the way has none
    berth_tensor* pieces[PROGRAM_PIECES];
    const berth_op* own; ///< an op that is registered, not built in
    uint64_t seed;
    test_random choices;  ///< differs from run to run: lengths, branches, who is kept
    test_random mischief; ///< what is tampered with: must not matter
    bool tampers;
    test_random structure; ///< the same at every run of a kind
    berth_tensor* slots[PROGRAM_SLOTS];
    berth_tensor* kept[PROGRAM_KEPT];
    bool is_mapped[PROGRAM_KEPT];
    int64_t n;
    int64_t m;
    program_result result;
} program;

/// Keeps the first failure.
void program_fail(program* p, const char* format, ...) BERTH_PRINTF(2, 3);

/// A number below `bound`, and true in one of `one_in` cases: part of the step's structure.
static inline uint32_t program_pick(program* p, uint32_t bound) {
    return (uint32_t)test_random_below(&p->structure, bound);
}
static inline bool program_may(program* p, uint32_t one_in) {
    return test_random_one_in(&p->structure, one_in);
}

/// A call has failed, with the calling thread's error text: counts it where that is borne, and
/// clears what sticks in the contexts; else the same as program_fail.
void program_refuse(program* p, const char* what);

/// Reads a tensor into the digest.
void program_digest(program* p, berth_tensor* x);

/// Storages that are alive never overlap.
void program_check_overlap(program* p, const berth_tensor* x);

/// Puts an op's result into a slot; what was there is released.
void program_put(program* p, uint32_t slot, berth_tensor* x);

/// Registers the program's own op.
berth_status program_register_own(program* p);

/// Tampers with what the steps have learned, now and then, if the way says so.
void program_tamper(program* p);

/// Has a third context take all memory of the device, and an out-of-memory callback that gives it
/// up bit by bit.
berth_status program_start_hoard(program* p);

/// Takes what there is, now and then, if there is a hoard.
void program_hoard(program* p);

/// Gives the hoard up with its context; before the books are looked at.
void program_end_hoard(program* p);

/// Runs a random op, view or release on random slots.
void program_run_op(program* p);

#endif // BERTH_TEST_PROGRAM_INTERNAL_H
