// SPDX-License-Identifier: Apache-2.0
// Several views of one shape, walked together row by row.
#include "device/cpu/kernel_joint.h"

void berth_joint_append(berth_joint* joint, int64_t dim, const int64_t* strides) {
    if (dim == 1) return;
    const int32_t last = joint->rank - 1;
    bool merges = last >= 0;
    for (int32_t v = 0; merges && v < joint->view_count; ++v)
        merges = joint->strides[v][last] == dim * strides[v];
    const int32_t to = merges ? last : joint->rank++;
    joint->dims[to] = merges ? joint->dims[to] * dim : dim;
    for (int32_t v = 0; v < joint->view_count; ++v)
        joint->strides[v][to] = strides[v];
}

void berth_joint_finish(berth_joint* joint) {
    if (joint->rank > 0) return;
    joint->dims[joint->rank++] = 1;
    for (int32_t v = 0; v < joint->view_count; ++v)
        joint->strides[v][0] = 0;
}

int64_t berth_joint_count(const berth_joint* joint) {
    int64_t count = 1;
    for (int32_t d = 0; d < joint->rank; ++d)
        count *= joint->dims[d];
    return count;
}

void berth_joint_seek(const berth_joint* joint, int64_t position, berth_joint_at* out_at) {
    for (int32_t v = 0; v < joint->view_count; ++v)
        out_at->offsets[v] = 0;
    for (int32_t d = joint->rank; d-- > 0;) {
        out_at->index[d] = position % joint->dims[d];
        position /= joint->dims[d];
        for (int32_t v = 0; v < joint->view_count; ++v)
            out_at->offsets[v] += out_at->index[d] * joint->strides[v][d];
    }
}

void berth_joint_advance(const berth_joint* joint, int64_t count, berth_joint_at* at) {
    int32_t d = joint->rank - 1;
    at->index[d] += count;
    for (int32_t v = 0; v < joint->view_count; ++v)
        at->offsets[v] += count * joint->strides[v][d];
    // the next row, carrying as an odometer does; after the last one, the first
    for (; at->index[d] == joint->dims[d]; --d) {
        at->index[d] = 0;
        for (int32_t v = 0; v < joint->view_count; ++v)
            at->offsets[v] -= joint->dims[d] * joint->strides[v][d];
        if (d == 0) return;
        ++at->index[d - 1];
        for (int32_t v = 0; v < joint->view_count; ++v)
            at->offsets[v] += joint->strides[v][d - 1];
    }
}
