// SPDX-License-Identifier: Apache-2.0
// Vector clocks of streams. A stream's moments count its launches and copies; clock[i] of stream s
// is the last moment of stream i that comes before whatever s is given next.
#include "device/order_check.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/use_map.h"

/// Tickets of one stream that are remembered with what was ordered before them.
#define TICKETS 64u

typedef struct issued_ticket {
    uint64_t ticket;
    uint64_t clock[BERTH_ORDER_STREAMS]; ///< what is done once it is; its own stream included
} issued_ticket;

typedef struct watched_stream {
    const berth_stream* stream; ///< NULL: free for the next one
    uint64_t number;            ///< among all streams of the device, from 1
    uint64_t moment;            ///< of its last use; never begins anew
    uint64_t clock[BERTH_ORDER_STREAMS];
    berth_use_map reads;
    berth_use_map writes;
    issued_ticket tickets[TICKETS]; ///< a ring
    uint64_t ticket_count;          ///< ever issued
} watched_stream;

typedef struct berth_order_check {
    const berth_device_ops* inner; ///< the device's own
    berth_device_ops ops;          ///< the same, watched
    const berth_host* host;
    berth_mutex lock;
    watched_stream* streams[BERTH_ORDER_STREAMS]; ///< [count]
    uint32_t count;
    uint64_t done[BERTH_ORDER_STREAMS]; ///< moments that somebody knows to be over
    uint64_t stream_number;
    uint64_t refused;
} order_check;

/// Bytes that work is about to use.
typedef struct use_range {
    uint64_t begin;
    uint64_t end;
    bool is_write;
} use_range;

#define MOST_RANGES (BERTH_OP_MAX_INPUTS + BERTH_OP_MAX_OUTPUTS + 1)

// --- Names and ranges ----------------------------------------------------------------------------

static const char* name_of(const berth_device* device, berth_kernel kernel) {
    static const char* const names[] = {
#define OP_NAME(id, name) name,
        BERTH_OP_MAP(OP_NAME)
#undef OP_NAME
    };
    if (kernel == NULL) return "a copy";
    for (size_t op = 0; op < sizeof names / sizeof names[0]; ++op)
        if (device->kernels[op] == kernel) return names[op];
    return "an op";
}

/// The bytes from the lowest to behind the highest element; none without elements or a place.
static use_range range_of(const berth_view* view, bool is_write) {
    const berth_dtype_info* info = berth_dtype_query_info(view->dtype);
    uint64_t low = (uint64_t)(uintptr_t)view->data, high = low;
    if (info == NULL || view->data == NULL) return (use_range){0};
    for (int32_t d = 0; d < view->rank; ++d) {
        const bool is_blocked = d == view->rank - 1;
        const int64_t count = view->dims[d] / (is_blocked ? (int64_t)info->block_values : 1);
        if (count <= 0) return (use_range){0};
        const int64_t reach = (count - 1) * view->strides[d] * (int64_t)info->block_bytes;
        if (reach < 0)
            low -= (uint64_t)-reach;
        else
            high += (uint64_t)reach;
    }
    return (use_range){.begin = low, .end = high + info->block_bytes, .is_write = is_write};
}

/// What a launch uses; returns how many ranges that are.
static size_t list_ranges(const berth_op_call* call, use_range* ranges) {
    size_t count = 0;
    for (uint32_t i = 0; i < call->input_count; ++i)
        ranges[count++] = range_of(&call->inputs[i], false);
    for (uint32_t i = 0; i < call->output_count; ++i)
        ranges[count++] = range_of(&call->outputs[i], true);
    const uint64_t scratch = (uint64_t)(uintptr_t)call->scratch;
    if (scratch != 0)
        ranges[count++] = (use_range){scratch, scratch + call->scratch_bytes, .is_write = true};
    return count;
}

// --- Clocks --------------------------------------------------------------------------------------

/// The stream's index; `count` of the check if it is not watched. Under the lock, like all below.
static uint32_t find_stream(const order_check* check, const berth_stream* stream) {
    uint32_t i = 0;
    while (i < check->count && check->streams[i]->stream != stream)
        ++i;
    return i;
}

static void join(uint64_t* clock, const uint64_t* other) {
    for (uint32_t i = 0; i < BERTH_ORDER_STREAMS; ++i)
        if (other[i] > clock[i]) clock[i] = other[i];
}

/// What comes before `ticket`: of the first ticket still remembered that is not before it.
static const uint64_t* clock_at(const watched_stream* watched, uint64_t ticket) {
    const uint64_t count = watched->ticket_count;
    for (uint64_t i = count > TICKETS ? count - TICKETS : 0; i < count; ++i) {
        const issued_ticket* issued = &watched->tickets[i % TICKETS];
        if (issued->ticket >= ticket) return issued->clock;
    }
    return NULL;
}

static void note_ticket(order_check* check, const berth_stream* stream, uint64_t ticket) {
    const uint32_t index = find_stream(check, stream);
    if (index == check->count) return;
    watched_stream* watched = check->streams[index];
    issued_ticket* issued = &watched->tickets[watched->ticket_count++ % TICKETS];
    issued->ticket = ticket;
    memcpy(issued->clock, watched->clock, sizeof issued->clock);
    issued->clock[index] = watched->moment;
}

static void note_done(order_check* check, const berth_stream* stream, uint64_t ticket) {
    const uint32_t index = find_stream(check, stream);
    if (index == check->count) return;
    const uint64_t* clock = clock_at(check->streams[index], ticket);
    if (clock != NULL) join(check->done, clock);
}

static void note_wait(order_check* check,
                      const berth_stream* stream,
                      const berth_stream* other,
                      uint64_t ticket) {
    const uint32_t index = find_stream(check, stream);
    const uint32_t from = find_stream(check, other);
    if (index == check->count || from == check->count) return;
    const uint64_t* clock = clock_at(check->streams[from], ticket);
    if (clock != NULL) join(check->streams[index]->clock, clock);
}

// --- Uses ----------------------------------------------------------------------------------------

/// A use of the range that may not be over when `index`'s next work runs; `*out_stream` is its
/// stream. NULL: none. `index` is no stream's for what the host does at once.
static const berth_use* find_conflict(const order_check* check,
                                      uint32_t index,
                                      const use_range* range,
                                      const watched_stream** out_stream) {
    for (uint32_t i = 0; i < check->count; ++i) {
        const watched_stream* other = check->streams[i];
        if (i == index || range->begin == range->end) continue;
        uint64_t over = check->done[i];
        if (index < check->count && check->streams[index]->clock[i] > over)
            over = check->streams[index]->clock[i];
        const berth_use* use = berth_use_map_find(&other->writes, range->begin, range->end, over);
        if (use == NULL && range->is_write)
            use = berth_use_map_find(&other->reads, range->begin, range->end, over);
        *out_stream = other;
        if (use != NULL) return use;
    }
    return NULL;
}

static berth_status refuse(order_check* check, berth_status status) {
    ++check->refused;
    berth_log_line(BERTH_LOG_ERROR, "%s", berth_last_error());
    return status;
}

/// Looks whether work on the ranges [count] is ordered behind all uses by other streams.
static berth_status check_ranges(order_check* check,
                                 const berth_device* device,
                                 uint32_t index,
                                 berth_kernel kernel,
                                 const use_range* ranges,
                                 size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const watched_stream* other = NULL;
        const berth_use* use = find_conflict(check, index, &ranges[i], &other);
        if (use == NULL) continue;
        const uint64_t begin = use->begin > ranges[i].begin ? use->begin : ranges[i].begin;
        const uint64_t end = use->end < ranges[i].end ? use->end : ranges[i].end;
        return refuse(check,
                      berth_fail(BERTH_ERR_STATE,
                                 "order: %s of stream %" PRIu64 " would %s %" PRIu64
                                 " bytes at 0x%" PRIx64 " while %s of stream %" PRIu64
                                 " (its use %" PRIu64 ") may be at them: nothing makes it wait",
                                 name_of(device, kernel),
                                 check->streams[index]->number,
                                 ranges[i].is_write ? "write" : "read",
                                 end - begin,
                                 begin,
                                 name_of(device, use->kernel),
                                 other->number,
                                 use->moment));
    }
    return BERTH_OK;
}

static void note_ranges(order_check* check,
                        uint32_t index,
                        berth_kernel kernel,
                        const use_range* ranges,
                        size_t count) {
    watched_stream* watched = check->streams[index];
    const uint64_t moment = ++watched->moment;
    for (size_t i = 0; i < count; ++i) {
        if (ranges[i].begin == ranges[i].end) continue;
        const berth_use use = {ranges[i].begin, ranges[i].end, moment, kernel};
        berth_use_map_note(
            ranges[i].is_write ? &watched->writes : &watched->reads, use, check->done[index]);
    }
}

/// Checks a use before it is enqueued.
static berth_status check_use(berth_device* device,
                              const berth_stream* stream,
                              berth_kernel kernel,
                              const use_range* ranges,
                              size_t count) {
    order_check* check = device->order_check;
    berth_status status = BERTH_OK;
    berth_mutex_lock(&check->lock);
    const uint32_t index = find_stream(check, stream);
    if (index < check->count) status = check_ranges(check, device, index, kernel, ranges, count);
    berth_mutex_unlock(&check->lock);
    return status;
}

/// Notes a use that was enqueued: one that the device refused is nobody's to wait for. What comes
/// between is taken for ordered.
static void note_use(order_check* check,
                     const berth_stream* stream,
                     berth_kernel kernel,
                     const use_range* ranges,
                     size_t count) {
    berth_mutex_lock(&check->lock);
    const uint32_t index = find_stream(check, stream);
    if (index < check->count) note_ranges(check, index, kernel, ranges, count);
    berth_mutex_unlock(&check->lock);
}

/// Checks that no stream can still be at memory that is about to go away.
static berth_status check_gone(berth_device* device,
                               const berth_space* space,
                               uint64_t offset,
                               uint64_t size) {
    order_check* check = device->order_check;
    const uint64_t begin = (uint64_t)(uintptr_t)space->base + offset;
    const use_range range = {begin, begin + size, .is_write = true};
    const watched_stream* other = NULL;
    berth_status status = BERTH_OK;
    berth_mutex_lock(&check->lock);
    const berth_use* use = find_conflict(check, UINT32_MAX, &range, &other);
    if (use != NULL)
        status = refuse(check,
                        berth_fail(BERTH_ERR_STATE,
                                   "order: %" PRIu64 " bytes at 0x%" PRIx64
                                   " would be taken away while %s of stream %" PRIu64
                                   " (its use %" PRIu64 ") may be at them",
                                   size,
                                   begin,
                                   name_of(device, use->kernel),
                                   other->number,
                                   use->moment));
    berth_mutex_unlock(&check->lock);
    return status;
}

// --- The watched table ---------------------------------------------------------------------------

static void stop(berth_device* self) {
    order_check* check = self->order_check;
    const berth_host* host = check->host;
    self->ops = check->inner;
    self->order_check = NULL;
    for (uint32_t i = 0; i < check->count; ++i) {
        berth_use_map_fini(&check->streams[i]->reads);
        berth_use_map_fini(&check->streams[i]->writes);
        berth_host_free(host, check->streams[i]);
    }
    berth_mutex_fini(&check->lock);
    berth_host_free(host, check);
}

static void watched_destroy(berth_device* self) {
    stop(self);
    self->ops->destroy(self);
}

static berth_status watched_unmap(berth_device* self,
                                  berth_space* space,
                                  uint64_t offset,
                                  uint64_t size) {
    BERTH_TRY(check_gone(self, space, offset, size));
    return self->order_check->inner->unmap(self, space, offset, size);
}

static berth_status watched_remap(berth_device* self,
                                  berth_space* from_space,
                                  uint64_t from,
                                  berth_space* to_space,
                                  uint64_t to,
                                  uint64_t size) {
    BERTH_TRY(check_gone(self, from_space, from, size));
    return self->order_check->inner->remap(self, from_space, from, to_space, to, size);
}

/// A place for one more stream: of one that has gone, or a new one. NULL if there is none.
static watched_stream* find_place(order_check* check) {
    const uint32_t index = find_stream(check, NULL);
    if (index < check->count) return check->streams[index];
    if (index == BERTH_ORDER_STREAMS) return NULL;
    watched_stream* watched = berth_host_calloc(check->host, 1, sizeof *watched);
    if (watched == NULL) return NULL;
    watched->reads.host = watched->writes.host = check->host;
    check->streams[check->count++] = watched;
    return watched;
}

static berth_status watched_stream_create(berth_device* self, berth_stream** out_stream) {
    order_check* check = self->order_check;
    BERTH_TRY(check->inner->stream_create(self, out_stream));
    berth_mutex_lock(&check->lock);
    watched_stream* watched = find_place(check);
    ++check->stream_number;
    if (watched != NULL) {
        watched->stream = *out_stream;
        watched->number = check->stream_number;
    } else {
        berth_log_once(BERTH_LOG_WARN,
                       "order: stream %" PRIu64 " is one too many: its uses are not checked",
                       check->stream_number);
    }
    berth_mutex_unlock(&check->lock);
    return BERTH_OK;
}

static void watched_stream_destroy(berth_device* self, berth_stream* stream) {
    order_check* check = self->order_check;
    check->inner->stream_destroy(self, stream);
    berth_mutex_lock(&check->lock);
    const uint32_t index = find_stream(check, stream);
    if (index < check->count) {
        watched_stream* watched = check->streams[index];
        join(check->done, watched->clock);
        check->done[index] = watched->moment;
        memset(watched->clock, 0, sizeof watched->clock);
        berth_use_map_fini(&watched->reads);
        berth_use_map_fini(&watched->writes);
        watched->reads.host = watched->writes.host = check->host;
        watched->ticket_count = 0;
        watched->stream = NULL;
    }
    berth_mutex_unlock(&check->lock);
}

static berth_status watched_launch(berth_device* self,
                                   berth_stream* stream,
                                   berth_kernel kernel,
                                   const berth_op_call* call,
                                   size_t params_bytes) {
    use_range ranges[MOST_RANGES];
    const size_t count = list_ranges(call, ranges);
    order_check* check = self->order_check;
    BERTH_TRY(check_use(self, stream, kernel, ranges, count));
    BERTH_TRY(check->inner->launch(self, stream, kernel, call, params_bytes));
    note_use(check, stream, kernel, ranges, count);
    return BERTH_OK;
}

static berth_status watched_copy(berth_device* self,
                                 berth_stream* stream,
                                 void* target,
                                 const void* source,
                                 uint64_t size,
                                 berth_copy_kind kind) {
    const uint64_t to = (uint64_t)(uintptr_t)target, from = (uint64_t)(uintptr_t)source;
    use_range ranges[2];
    size_t count = 0;
    if (kind != BERTH_COPY_HOST_TO_DEVICE) ranges[count++] = (use_range){from, from + size, false};
    if (kind != BERTH_COPY_DEVICE_TO_HOST) ranges[count++] = (use_range){to, to + size, true};
    order_check* check = self->order_check;
    BERTH_TRY(check_use(self, stream, NULL, ranges, count));
    BERTH_TRY(check->inner->copy(self, stream, target, source, size, kind));
    note_use(check, stream, NULL, ranges, count);
    return BERTH_OK;
}

static berth_status watched_record(berth_device* self, berth_stream* stream, uint64_t* out_ticket) {
    order_check* check = self->order_check;
    BERTH_TRY(check->inner->record(self, stream, out_ticket));
    berth_mutex_lock(&check->lock);
    note_ticket(check, stream, *out_ticket);
    berth_mutex_unlock(&check->lock);
    return BERTH_OK;
}

static bool watched_query(berth_device* self, berth_stream* stream, uint64_t ticket) {
    order_check* check = self->order_check;
    if (!check->inner->query(self, stream, ticket)) return false;
    berth_mutex_lock(&check->lock);
    note_done(check, stream, ticket);
    berth_mutex_unlock(&check->lock);
    return true;
}

static berth_status watched_wait(berth_device* self, berth_stream* stream, uint64_t ticket) {
    order_check* check = self->order_check;
    BERTH_TRY(check->inner->wait(self, stream, ticket));
    berth_mutex_lock(&check->lock);
    note_done(check, stream, ticket);
    berth_mutex_unlock(&check->lock);
    return BERTH_OK;
}

static berth_status watched_wait_stream(berth_device* self,
                                        berth_stream* stream,
                                        berth_stream* other,
                                        uint64_t ticket) {
    order_check* check = self->order_check;
    BERTH_TRY(check->inner->wait_stream(self, stream, other, ticket));
    berth_mutex_lock(&check->lock);
    note_wait(check, stream, other, ticket);
    berth_mutex_unlock(&check->lock);
    return BERTH_OK;
}

berth_status berth_order_check_start(berth_device* device) {
    if (!berth_device_is_async(device)) return BERTH_OK;
    order_check* check = berth_host_calloc(device->host, 1, sizeof *check);
    if (check == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to check the order of work");
    const berth_status status = berth_mutex_init(&check->lock);
    if (status != BERTH_OK) {
        berth_host_free(device->host, check);
        return status;
    }
    check->host = device->host;
    check->inner = device->ops;
    check->ops = *device->ops;
    check->ops.destroy = watched_destroy;
    check->ops.unmap = watched_unmap;
    if (check->ops.remap != NULL) check->ops.remap = watched_remap;
    check->ops.stream_create = watched_stream_create;
    check->ops.stream_destroy = watched_stream_destroy;
    check->ops.launch = watched_launch;
    check->ops.copy = watched_copy;
    check->ops.record = watched_record;
    check->ops.query = watched_query;
    check->ops.wait = watched_wait;
    check->ops.wait_stream = watched_wait_stream;
    device->order_check = check;
    device->ops = &check->ops;
    return BERTH_OK;
}

uint64_t berth_order_check_query_refused(const berth_device* device) {
    order_check* check = device->order_check;
    if (check == NULL) return 0;
    berth_mutex_lock(&check->lock);
    const uint64_t refused = check->refused;
    berth_mutex_unlock(&check->lock);
    return refused;
}
