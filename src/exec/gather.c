// SPDX-License-Identifier: Apache-2.0
// A range of row-major numbers is cut into boxes; a box that is too far apart for one copy is
// halved where its elements are farthest from each other.
#include "exec/gather.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"

enum { PIECE_BYTES = 1 << 20 };

/// Items of a window that are a box in it; strides are in items.
typedef struct box {
    const unsigned char* from;
    unsigned char* to;
    size_t item_bytes;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK]; ///< > 0
    int64_t from_strides[BERTH_MAX_RANK];
    int64_t to_strides[BERTH_MAX_RANK];
} box;

typedef struct gatherer {
    const berth_host* host;
    berth_stream* stream; ///< NULL: the host can read what `from` points at
    unsigned char* piece; ///< [PIECE_BYTES], once it has been needed
    box whole;            ///< the window; `to` is where the next item goes
} gatherer;

// --- On the host ---------------------------------------------------------------------------------

static void copy_row(const unsigned char* from,
                     int64_t from_step,
                     unsigned char* to,
                     int64_t to_step,
                     int64_t count,
                     size_t item_bytes) {
    if (from_step == 1 && to_step == 1) {
        memcpy(to, from, (size_t)count * item_bytes);
        return;
    }
    for (int64_t i = 0; i < count; ++i)
        memcpy(to + i * to_step * (int64_t)item_bytes,
               from + i * from_step * (int64_t)item_bytes,
               item_bytes);
}

static void copy_box(const box* b) {
    const int64_t item = (int64_t)b->item_bytes;
    const int32_t last = b->rank - 1;
    int64_t index[BERTH_MAX_RANK] = {0};
    const unsigned char* from = b->from;
    unsigned char* to = b->to;
    for (;;) {
        if (last < 0)
            memcpy(to, from, b->item_bytes);
        else
            copy_row(
                from, b->from_strides[last], to, b->to_strides[last], b->dims[last], b->item_bytes);
        int32_t d = last - 1;
        for (; d >= 0; --d) {
            from += b->from_strides[d] * item;
            to += b->to_strides[d] * item;
            if (++index[d] < b->dims[d]) break;
            from -= b->dims[d] * b->from_strides[d] * item;
            to -= b->dims[d] * b->to_strides[d] * item;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

// --- From the device -----------------------------------------------------------------------------

/// Bytes from the lowest item of the box to behind the highest, and how far below `from` they
/// begin.
static uint64_t span_of(const box* b, uint64_t* out_below) {
    uint64_t below = 0, above = 0;
    for (int32_t d = 0; d < b->rank; ++d) {
        const int64_t reach = (b->dims[d] - 1) * b->from_strides[d];
        if (reach < 0)
            below += (uint64_t)-reach * b->item_bytes;
        else
            above += (uint64_t)reach * b->item_bytes;
    }
    *out_below = below;
    return below + above + b->item_bytes;
}

/// True if the box is one row of bytes on both sides.
static bool is_one_row(const box* b) {
    int64_t count = 1;
    for (int32_t d = b->rank - 1; d >= 0; --d) {
        if (b->dims[d] == 1) continue;
        if (b->from_strides[d] != count || b->to_strides[d] != count) return false;
        count *= b->dims[d];
    }
    return true;
}

/// The dimension along which the items are farthest apart.
static int32_t farthest(const box* b) {
    int32_t most = 0;
    int64_t most_stride = -1;
    for (int32_t d = 0; d < b->rank; ++d) {
        const int64_t stride = b->from_strides[d] < 0 ? -b->from_strides[d] : b->from_strides[d];
        if (b->dims[d] == 1 || stride <= most_stride) continue;
        most = d;
        most_stride = stride;
    }
    return most;
}

static berth_status fetch_through_piece(gatherer* g, const box* b, uint64_t span, uint64_t below) {
    if (g->piece == NULL) g->piece = berth_host_alloc(g->host, PIECE_BYTES);
    if (g->piece == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to read a tensor");
    BERTH_TRY(
        berth_stream_copy(g->stream, g->piece, b->from - below, span, BERTH_COPY_DEVICE_TO_HOST));
    BERTH_TRY(berth_stream_drain(g->stream));
    box here = *b;
    here.from = g->piece + below;
    copy_box(&here);
    return BERTH_OK;
}

static berth_status fetch_box(gatherer* g, const box* b) {
    uint64_t below;
    const uint64_t span = span_of(b, &below);
    if (is_one_row(b))
        return berth_stream_copy(g->stream, b->to, b->from, span, BERTH_COPY_DEVICE_TO_HOST);
    if (span <= PIECE_BYTES) return fetch_through_piece(g, b, span, below);
    const int32_t d = farthest(b);
    const int64_t item = (int64_t)b->item_bytes;
    box half = *b;
    half.dims[d] = b->dims[d] / 2;
    BERTH_TRY(fetch_box(g, &half));
    half.from += half.dims[d] * b->from_strides[d] * item;
    half.to += half.dims[d] * b->to_strides[d] * item;
    half.dims[d] = b->dims[d] - half.dims[d];
    return fetch_box(g, &half);
}

// --- Ranges --------------------------------------------------------------------------------------

/// Gathers [first, first + count) of the whole's dimension `dim` on; the others before are fixed,
/// so that the first of it lies at `from`.
static berth_status gather(
    gatherer* g, int32_t dim, const unsigned char* from, int64_t first, int64_t count) {
    const box* whole = &g->whole;
    const int64_t item = (int64_t)whole->item_bytes;
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < whole->rank; ++d)
        inner *= whole->dims[d];
    const int64_t step = dim < whole->rank ? whole->from_strides[dim] * item : 0;
    int64_t at = first / inner;
    const int64_t inside = first % inner;
    if (inside > 0) {
        const int64_t part = count < inner - inside ? count : inner - inside;
        BERTH_TRY(gather(g, dim + 1, from + at * step, inside, part));
        count -= part;
        ++at;
    }
    const int64_t full = count / inner;
    if (full > 0) {
        box b = {.from = from + at * step, .to = whole->to, .item_bytes = whole->item_bytes};
        b.rank = whole->rank - dim;
        int64_t stride = 1;
        for (int32_t d = b.rank - 1; d >= 0; --d) {
            b.dims[d] = d == 0 ? full : whole->dims[dim + d];
            b.from_strides[d] = whole->from_strides[dim + d];
            b.to_strides[d] = stride;
            stride *= b.dims[d];
        }
        g->whole.to += full * inner * item;
        if (g->stream == NULL)
            copy_box(&b);
        else
            BERTH_TRY(fetch_box(g, &b));
    }
    const int64_t rest = count - full * inner;
    return rest > 0 ? gather(g, dim + 1, from + (at + full) * step, 0, rest) : BERTH_OK;
}

static gatherer start(const berth_view* view, unsigned char* to) {
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    gatherer g = {
        .whole = {
            .from = view->data, .to = to, .item_bytes = info->block_bytes, .rank = view->rank}};
    for (int32_t d = 0; d < view->rank; ++d) {
        g.whole.dims[d] = view->dims[d] / (d == view->rank - 1 ? info->block_values : 1);
        g.whole.from_strides[d] = view->strides[d];
    }
    return g;
}

void berth_gather_here(const berth_view* view, int64_t first, int64_t count, unsigned char* to) {
    gatherer g = start(view, to);
    if (count > 0) (void)!gather(&g, 0, view->data, first, count); // nothing there can fail
}

berth_status berth_gather_from_device(const berth_host* host,
                                      berth_stream* stream,
                                      const berth_view* view,
                                      int64_t first,
                                      int64_t count,
                                      unsigned char* to) {
    if (count == 0) return BERTH_OK;
    gatherer g = start(view, to);
    g.host = host;
    g.stream = stream;
    const berth_status status = gather(&g, 0, view->data, first, count);
    const berth_status drained = berth_stream_drain(stream);
    berth_host_free(host, g.piece);
    return status != BERTH_OK ? status : drained;
}
