// SPDX-License-Identifier: Apache-2.0
// What docs/ops.md says of each public op beyond its declaration and its rows of the op table: the
// words stand beside that table, so that they are written with the op. They are no part of the
// library; the program that makes the page holds them.
#ifndef BERTH_OPS_OP_DOCS_H
#define BERTH_OPS_OP_DOCS_H

#include <stddef.h>

/// The word among the rows of an op whose result may share the operand's storage.
#define BERTH_OP_DOC_VIEW "view"

/// What there is to say of one function of include/berth/ops_*.h.
typedef struct berth_op_doc {
    const char* name;   ///< the function's, without berth_
    const char* rows;   ///< rows of the op table that it runs, BERTH_OP_DOC_VIEW; "" for none
    const char* result; ///< shape of the result
    const char* types;  ///< element types of operands and, after "->", of the result
    const char* numpy;  ///< the same in NumPy; "-" if there is nothing like it
    const char* torch;  ///< the same in PyTorch; "-" if there is nothing like it
} berth_op_doc;

/// One row for each public op, in any order.
extern const berth_op_doc berth_op_docs[];
extern const size_t berth_op_doc_count;

#endif // BERTH_OPS_OP_DOCS_H
