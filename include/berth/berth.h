// SPDX-License-Identifier: Apache-2.0
// Berth: an eager tensor runtime with a just-in-time memory planner. This header is the whole API.
#ifndef BERTH_BERTH_H
#define BERTH_BERTH_H

#include "berth/config.h"
#include "berth/cuda.h"
#include "berth/debug.h"
#include "berth/dims.h"
#include "berth/dlpack.h"
#include "berth/dtype.h"
#include "berth/files.h"
#include "berth/health.h"
#include "berth/host.h"
#include "berth/inspect.h"
#include "berth/kv.h"
#include "berth/kv_miss.h"
#include "berth/log.h"
#include "berth/memory.h"
#include "berth/op.h"
#include "berth/op_register.h"
#include "berth/ops.h"
#include "berth/pack.h"
#include "berth/print.h"
#include "berth/quota.h"
#include "berth/runtime.h"
#include "berth/stats.h"
#include "berth/status.h"
#include "berth/step.h"
#include "berth/tensor.h"
#include "berth/trace.h"
#include "berth/version.h"

#endif // BERTH_BERTH_H
