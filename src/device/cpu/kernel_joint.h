// SPDX-License-Identifier: Apache-2.0
// Several views of one shape, walked together row by row.
#ifndef BERTH_DEVICE_CPU_KERNEL_JOINT_H
#define BERTH_DEVICE_CPU_KERNEL_JOINT_H

#include "berth/dtype.h"

/// Views that are walked together, at most.
#define BERTH_JOINT_VIEWS 3

/// The shape that the views have in common, and how each of them goes along it. Dimensions that
/// lie one behind the other in all views are merged; the last one is the row.
typedef struct berth_joint {
    int32_t view_count;
    int32_t rank;                                       ///< >= 1 once all dimensions are there
    int64_t dims[BERTH_MAX_RANK];                       ///< each >= 0
    int64_t strides[BERTH_JOINT_VIEWS][BERTH_MAX_RANK]; ///< bytes
} berth_joint;

/// A position, as offsets in bytes from each view's first element.
typedef struct berth_joint_at {
    int64_t index[BERTH_MAX_RANK];
    int64_t offsets[BERTH_JOINT_VIEWS];
} berth_joint_at;

/// A shape without dimensions, to which they are appended: outermost first.
static inline berth_joint berth_joint_make(int32_t view_count) {
    return (berth_joint){.view_count = view_count};
}

/// Appends a dimension, along which view i goes on by `strides[i]` bytes.
void berth_joint_append(berth_joint* joint, int64_t dim, const int64_t* strides);

/// Ends the appending: what has no dimensions is one row of one element.
void berth_joint_finish(berth_joint* joint);

/// The number of elements.
int64_t berth_joint_count(const berth_joint* joint);

/// Goes to the element at row-major position `position`, below the count.
void berth_joint_seek(const berth_joint* joint, int64_t position, berth_joint_at* out_at);

/// Elements from here to the end of the row.
static inline int64_t berth_joint_row_rest(const berth_joint* joint, const berth_joint_at* at) {
    return joint->dims[joint->rank - 1] - at->index[joint->rank - 1];
}

/// Goes on by `count` elements, to the end of the row at most.
void berth_joint_advance(const berth_joint* joint, int64_t count, berth_joint_at* at);

#endif // BERTH_DEVICE_CPU_KERNEL_JOINT_H
