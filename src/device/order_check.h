// SPDX-License-Identifier: Apache-2.0
// The happens-before check (BERTH_CHECK_ORDER): on an asynchronous device nothing keeps two streams
// off the same bytes but the waits between them. This stands before the device's table of
// functions and follows every wait with vector clocks, so that work that comes to bytes which
// another stream may still be using is refused, by name, whether it would have gone wrong this time
// or not. Where it is not started the device has its own table, and nothing is paid.
//
// What it does not know it takes for ordered: streams beyond BERTH_ORDER_STREAMS at one time, uses
// and tickets that are older than what it keeps. So it overlooks, and never cries wolf.
#ifndef BERTH_DEVICE_ORDER_CHECK_H
#define BERTH_DEVICE_ORDER_CHECK_H

#include "device/device.h"

/// The most streams that are watched at one time.
#define BERTH_ORDER_STREAMS 32u

/// Begins to watch `device`, which has no streams yet, until it is destroyed. Nothing to do on a
/// device that is not asynchronous. From then on launches, copies, unmaps and remaps that nothing
/// orders behind another stream's use fail with BERTH_ERR_STATE, and are logged.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_order_check_start(berth_device* device);

/// Uses that were refused so far; 0 where nothing is watched.
uint64_t berth_order_check_query_refused(const berth_device* device);

#endif // BERTH_DEVICE_ORDER_CHECK_H
