// SPDX-License-Identifier: Apache-2.0
// Chains of ops whose kernel does nothing. Functions of their own, so that an instruction counter
// can be told to count them alone.
#ifndef BERTH_BENCH_DISPATCH_CHAIN_H
#define BERTH_BENCH_DISPATCH_CHAIN_H

#include "berth/berth.h"

/// `ops` ops, each with a fresh output; takes `x`, gives the last result.
berth_tensor* bench_chain_fresh(berth_context* ctx, berth_tensor* x, int64_t ops);
/// The same in place: the dispatch without a placement.
berth_tensor* bench_chain_in_place(berth_context* ctx, berth_tensor* x, int64_t ops);

#endif // BERTH_BENCH_DISPATCH_CHAIN_H
