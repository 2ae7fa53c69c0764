// SPDX-License-Identifier: Apache-2.0
// Queues of the simulated device. There is no thread: work runs in the call that waits for it, or,
// with a seed, a little at every call.
#include <string.h>

#include "base/error.h"
#include "device/sim/sim_internal.h"

static sim_stream* sim_stream_of(berth_stream* stream) { return (sim_stream*)stream; }

static bool is_idle(const sim_stream* stream) { return stream->head == stream->queue.count; }

static void run_until(sim_device* sim, sim_stream* stream, uint64_t ticket);

/// Runs the oldest entry of a queue that has one.
///
/// Recursion ends: a wait is for a ticket that was issued before the wait was enqueued, so whatever
/// it forces was enqueued earlier, too.
static void run_one(sim_device* sim, sim_stream* stream) {
    const sim_work work = stream->queue.items[stream->head++];
    if (is_idle(stream)) stream->head = stream->queue.count = 0;
    switch (work.kind) {
    case SIM_WORK_LAUNCH:
        work.kernel(work.call);
        berth_host_free(sim->device.host, work.call);
        break;
    case SIM_WORK_COPY:
        memmove(work.target, work.source, (size_t)work.size_bytes);
        break;
    case SIM_WORK_MARK:
        stream->done = work.ticket;
        break;
    case SIM_WORK_WAIT:
        if (work.other != NULL) run_until(sim, work.other, work.ticket);
        break;
    }
}

/// Under berth_sim_open_memory(), like all that runs work.
static void run_until(sim_device* sim, sim_stream* stream, uint64_t ticket) {
    while (stream->done < ticket)
        run_one(sim, stream);
}

static void run_all(sim_device* sim, sim_stream* stream) {
    while (!is_idle(stream))
        run_one(sim, stream);
}

static uint64_t next_random(sim_device* sim) {
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return sim->random;
}

/// What would have happened on a real device since the last call.
static void progress(sim_device* sim) {
    if (sim->random == 0) return;
    berth_sim_open_memory(sim);
    for (sim_stream* each = sim->streams; each != NULL; each = each->next) {
        for (uint64_t left = next_random(sim) >> 62; left > 0 && !is_idle(each); left--)
            run_one(sim, each);
    }
    berth_sim_close_memory(sim);
}

static berth_status enqueue(sim_device* sim, sim_stream* stream, sim_work work) {
    sim_work_list* queue = &stream->queue;
    if (queue->count + 2 > queue->capacity && stream->head > 0) { // room at the front first
        queue->count -= stream->head;
        memmove(queue->items, queue->items + stream->head, queue->count * sizeof *queue->items);
        stream->head = 0;
    }
    // one entry more, so that a ticket for this work can be issued without memory
    BERTH_TRY(sim_work_list_reserve(queue, sim->device.host, queue->count + 2));
    queue->items[queue->count++] = work;
    return BERTH_OK;
}

/// Puts a ticket's mark behind all work of a queue that has some. Needs no memory.
static void enqueue_mark(sim_stream* stream, uint64_t ticket) {
    sim_work_list* queue = &stream->queue;
    sim_work* last = &queue->items[queue->count - 1];
    if (last->kind == SIM_WORK_MARK)
        last->ticket = ticket; // nothing came between: both are done at the same time
    else
        queue->items[queue->count++] = (sim_work){.kind = SIM_WORK_MARK, .ticket = ticket};
}

/// Begins an entry: takes the lock, lets time pass, counts.
static berth_status begin(sim_device* sim, berth_sim_call call) {
    berth_mutex_lock(&sim->lock);
    progress(sim);
    return berth_sim_begin_call(sim, call);
}

static berth_status end(sim_device* sim, berth_status status) {
    berth_mutex_unlock(&sim->lock);
    return status;
}

berth_status berth_sim_stream_create(berth_device* self, berth_stream** out_stream) {
    sim_device* sim = sim_device_of(self);
    berth_status status = begin(sim, BERTH_SIM_STREAM_CREATE);
    if (status != BERTH_OK) return end(sim, status);
    sim_stream* made = berth_host_calloc(self->host, 1, sizeof *made);
    if (made == NULL)
        return end(sim, berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a stream"));
    made->stream.device = self;
    made->next = sim->streams;
    sim->streams = made;
    *out_stream = &made->stream;
    return end(sim, BERTH_OK);
}

/// Waits for a stream that has run to its end are over.
static void forget(sim_device* sim, const sim_stream* gone) {
    for (sim_stream* each = sim->streams; each != NULL; each = each->next) {
        for (size_t i = each->head; i < each->queue.count; i++) {
            if (each->queue.items[i].other == gone) each->queue.items[i].other = NULL;
        }
    }
}

void berth_sim_stream_destroy(berth_device* self, berth_stream* stream) {
    sim_device* sim = sim_device_of(self);
    sim_stream* gone = sim_stream_of(stream);
    berth_mutex_lock(&sim->lock);
    berth_sim_open_memory(sim);
    run_all(sim, gone);
    berth_sim_close_memory(sim);
    sim_stream** link = &sim->streams;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    forget(sim, gone);
    berth_mutex_unlock(&sim->lock);
    sim_work_list_fini(&gone->queue, self->host);
    berth_host_free(self->host, gone);
}

/// A copy of `call` with its parameters, which the caller may change at once.
static berth_op_call* copy_call(const berth_host* host,
                                const berth_op_call* call,
                                size_t params_bytes) {
    berth_op_call* copy = berth_host_alloc(host, sizeof *copy + params_bytes);
    if (copy == NULL) return NULL;
    *copy = *call;
    copy->params = params_bytes == 0 ? NULL : copy + 1;
    if (params_bytes > 0) memcpy(copy + 1, call->params, params_bytes);
    return copy;
}

berth_status berth_sim_launch(berth_device* self,
                              berth_stream* stream,
                              berth_kernel kernel,
                              const berth_op_call* call,
                              size_t params_bytes) {
    sim_device* sim = sim_device_of(self);
    berth_status status = begin(sim, BERTH_SIM_LAUNCH);
    if (status != BERTH_OK) return end(sim, status);
    berth_op_call* copy = copy_call(self->host, call, params_bytes);
    if (copy == NULL)
        return end(sim, berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a launch"));
    status = enqueue(sim,
                     sim_stream_of(stream),
                     (sim_work){.kind = SIM_WORK_LAUNCH, .kernel = kernel, .call = copy});
    if (status != BERTH_OK) berth_host_free(self->host, copy);
    return end(sim, status);
}

berth_status berth_sim_copy(berth_device* self,
                            berth_stream* stream,
                            void* target,
                            const void* source,
                            uint64_t size,
                            berth_copy_kind kind) {
    (void)kind;
    sim_device* sim = sim_device_of(self);
    berth_status status = begin(sim, BERTH_SIM_COPY);
    if (status == BERTH_OK)
        status = enqueue(
            sim,
            sim_stream_of(stream),
            (sim_work){
                .kind = SIM_WORK_COPY, .target = target, .source = source, .size_bytes = size});
    return end(sim, status);
}

berth_status berth_sim_record(berth_device* self, berth_stream* stream, uint64_t* out_ticket) {
    sim_device* sim = sim_device_of(self);
    sim_stream* recorded = sim_stream_of(stream);
    const berth_status status = begin(sim, BERTH_SIM_RECORD);
    if (status != BERTH_OK) return end(sim, status);
    const uint64_t ticket = recorded->issued + 1;
    if (is_idle(recorded))
        recorded->done = ticket;
    else
        enqueue_mark(recorded, ticket);
    *out_ticket = recorded->issued = ticket;
    return end(sim, BERTH_OK);
}

bool berth_sim_query(berth_device* self, berth_stream* stream, uint64_t ticket) {
    sim_device* sim = sim_device_of(self);
    berth_mutex_lock(&sim->lock);
    progress(sim);
    const bool done = sim_stream_of(stream)->done >= ticket;
    berth_mutex_unlock(&sim->lock);
    return done;
}

berth_status berth_sim_wait(berth_device* self, berth_stream* stream, uint64_t ticket) {
    sim_device* sim = sim_device_of(self);
    const berth_status status = begin(sim, BERTH_SIM_WAIT);
    BERTH_CHECK(1, ticket <= sim_stream_of(stream)->issued);
    if (status == BERTH_OK && sim_stream_of(stream)->done < ticket) {
        berth_sim_open_memory(sim);
        run_until(sim, sim_stream_of(stream), ticket);
        berth_sim_close_memory(sim);
    }
    return end(sim, status);
}

berth_status berth_sim_wait_stream(berth_device* self,
                                   berth_stream* stream,
                                   berth_stream* other,
                                   uint64_t ticket) {
    sim_device* sim = sim_device_of(self);
    sim_stream* forced = sim_stream_of(other);
    berth_status status = begin(sim, BERTH_SIM_WAIT_STREAM);
    BERTH_CHECK(1, ticket <= forced->issued);
    if (status == BERTH_OK && forced->done < ticket)
        status = enqueue(sim,
                         sim_stream_of(stream),
                         (sim_work){.kind = SIM_WORK_WAIT, .other = forced, .ticket = ticket});
    return end(sim, status);
}
