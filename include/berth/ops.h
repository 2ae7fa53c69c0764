// SPDX-License-Identifier: Apache-2.0
// The ops, in families. Each returns a new tensor that the caller owns, or NULL with the first
// error kept in the context; an op given NULL returns NULL. Operands are borrowed, or handed over
// with berth_move(). Element types are written after the shape; "floats" are f32, f16, bf16;
// "plain" is everything but the quantised types. Negative dimensions count from the end.
//
// Type promotion is PyTorch's. Where operands of several plain types meet, each is converted first,
// as by berth_cast(), to the type in the table:
//
//            bool   u8     i8     i32    i64    f16    bf16   f32
//     bool   bool   u8     i8     i32    i64    f16    bf16   f32
//     u8     u8     u8     i32    i32    i64    f16    bf16   f32
//     i8     i8     i32    i8     i32    i64    f16    bf16   f32
//     i32    i32    i32    i32    i32    i64    f16    bf16   f32
//     i64    i64    i64    i64    i64    i64    f16    bf16   f32
//     f16    f16    f16    f16    f16    f16    f16    f32    f32
//     bf16   bf16   bf16   bf16   bf16   bf16   f32    bf16   f32
//     f32    f32    f32    f32    f32    f32    f32    f32    f32
//
// (u8 with i8 gives i32, as there is no i16.) But where one operand has dimensions and the other
// has none (rank 0), the first one's type stands, unless the other's is of a higher category: bool
// is below the integers, these are below the floats. f16[3] + f32[] is f16[3]; i32[3] + f16[] is
// f16[3]. Functions of real numbers (division, exp, ...) take integers and bool as f32.
#ifndef BERTH_OPS_H
#define BERTH_OPS_H

#include "berth/ops_binary.h"
#include "berth/ops_create.h"
#include "berth/ops_index.h"
#include "berth/ops_model.h"
#include "berth/ops_reduce.h"
#include "berth/ops_sort.h"
#include "berth/ops_unary.h"
#include "berth/ops_view.h"

#endif // BERTH_OPS_H
