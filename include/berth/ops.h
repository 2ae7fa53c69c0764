// SPDX-License-Identifier: Apache-2.0
// The ops, in families. Each returns a new tensor that the caller owns, or NULL with the first
// error kept in the context; an op given NULL returns NULL. Operands are borrowed, or handed over
// with berth_move(). Element types are written after the shape; "floats" are f32, f16, bf16;
// "plain" is everything but the quantised types. Negative dimensions count from the end.
#ifndef BERTH_OPS_H
#define BERTH_OPS_H

#include "berth/ops_binary.h"
#include "berth/ops_create.h"
#include "berth/ops_index.h"
#include "berth/ops_model.h"
#include "berth/ops_reduce.h"
#include "berth/ops_unary.h"
#include "berth/ops_view.h"

#endif // BERTH_OPS_H
