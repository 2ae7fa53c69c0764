// SPDX-License-Identifier: Apache-2.0
// Streams of the driver, and tickets over its events.
#include "device/cuda/cuda_stream.h"

#include "base/error.h"
#include "base/log.h"
#include "device/cuda/cuda_args_move.h"
#include "device/cuda/cuda_launch.h"
#include "device/cuda/cuda_run.h"
#include "device/native_stream.h"

/// Copies between overlapping ranges are cut into at most so many that do not overlap.
#define MAX_PIECES 16u
#define MOVE_THREADS 1024u

/// An event of the driver, and the last ticket that is done when it has passed.
typedef struct cuda_mark {
    cu_event event;
    uint64_t ticket;
    uint32_t users;         ///< threads that use the event outside of the lock
    bool is_over;           ///< not in the queue any more
    struct cuda_mark* next; ///< in the queue, or among those that are free
} cuda_mark;

typedef struct cuda_stream {
    berth_stream stream;
    cu_stream handle;
    _Atomic uint64_t done; ///< every ticket up to this one is
    /// Something was enqueued since the last ticket. Set when it has been, so that a ticket that
    /// finds it unset covers all that had been enqueued before.
    atomic_bool has_news;

    berth_mutex lock; ///< guards what follows
    uint64_t issued;
    cuda_mark* oldest; ///< the queue of those that may be pending, tickets ascending
    cuda_mark* newest;
    cuda_mark* free;
} cuda_stream;

static cuda_stream* cuda_stream_of(berth_stream* stream) { return (cuda_stream*)stream; }

// --- Marks: the lock is held --------------------------------------------------------------------

static void give_mark(cuda_stream* stream, cuda_mark* mark) {
    mark->next = stream->free;
    stream->free = mark;
}

/// The oldest mark has been passed.
static void retire_oldest(cuda_stream* stream) {
    cuda_mark* mark = stream->oldest;
    stream->oldest = mark->next;
    if (stream->oldest == NULL) stream->newest = NULL;
    mark->is_over = true;
    atomic_store_explicit(&stream->done, mark->ticket, memory_order_release);
    if (mark->users == 0) give_mark(stream, mark);
}

/// Everything that has been enqueued is done.
static void retire_all(cuda_stream* stream) {
    while (stream->oldest != NULL)
        retire_oldest(stream);
}

/// Waits for all that has been enqueued, asking twice. A device that cannot be waited for is lost:
/// nobody would know any more when its work is through with memory. The context is current.
static berth_status finish(cuda_device* cuda, cu_stream handle) {
    cu_result result = cuda->driver.stream_synchronize(handle);
    if (result != CU_SUCCESS && !berth_cuda_result_is_fatal(result))
        result = cuda->driver.stream_synchronize(handle);
    const berth_status status = berth_cuda_judge(cuda, result, "work on the device");
    if (status == BERTH_OK || berth_cuda_is_lost(cuda)) return status;
    char reason[BERTH_CUDA_REASON_BYTES / 2];
    berth_cuda_driver_explain(&cuda->driver, result, reason, sizeof reason);
    return berth_cuda_lose(cuda, "a stream cannot be waited for: %s", reason);
}

/// Retires what has been passed without waiting for anything. The context is current.
static berth_status poll(cuda_device* cuda, cuda_stream* stream) {
    while (stream->oldest != NULL) {
        const cu_result result = cuda->driver.event_query(stream->oldest->event);
        if (result == CU_ERROR_NOT_READY) return BERTH_OK;
        BERTH_TRY(berth_cuda_judge(cuda, result, "work on the device"));
        retire_oldest(stream);
    }
    return BERTH_OK;
}

/// A mark of which `ticket` is done when it is passed, held against reuse; NULL if it is done.
static cuda_mark* hold_mark(cuda_stream* stream, uint64_t ticket) {
    BERTH_CHECK(1, ticket <= stream->issued);
    cuda_mark* mark = stream->oldest;
    while (mark != NULL && mark->ticket < ticket)
        mark = mark->next;
    if (mark != NULL) mark->users++;
    return mark;
}

static void let_go(cuda_stream* stream, cuda_mark* mark) {
    if (--mark->users == 0 && mark->is_over) give_mark(stream, mark);
}

static berth_status make_mark(cuda_device* cuda, cuda_mark** out_mark) {
    cuda_mark* made = berth_host_calloc(cuda->device.host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for an event");
    const cu_result result = cuda->driver.event_create(&made->event, CU_EVENT_IS_UNTIMED);
    if (result != CU_SUCCESS) {
        berth_host_free(cuda->device.host, made);
        return berth_cuda_judge(cuda, result, "cuEventCreate");
    }
    *out_mark = made;
    return BERTH_OK;
}

/// Takes a mark that is free, or becomes so now, before a new one is made: there are never many
/// more than the device is behind.
static berth_status take_mark(cuda_device* cuda, cuda_stream* stream, cuda_mark** out_mark) {
    if (stream->free == NULL) BERTH_TRY(poll(cuda, stream));
    if (stream->free == NULL) return make_mark(cuda, out_mark);
    *out_mark = stream->free;
    stream->free = stream->free->next;
    return BERTH_OK;
}

/// Puts a mark with `ticket` behind all that has been enqueued.
static berth_status put_mark(cuda_device* cuda, cuda_stream* stream, uint64_t ticket) {
    cuda_mark* mark = NULL;
    BERTH_TRY(take_mark(cuda, stream, &mark));
    const cu_result result = cuda->driver.event_record(mark->event, stream->handle);
    if (result != CU_SUCCESS) {
        give_mark(stream, mark);
        return berth_cuda_judge(cuda, result, "cuEventRecord");
    }
    mark->ticket = ticket;
    mark->is_over = false;
    mark->next = NULL;
    if (stream->newest != NULL)
        stream->newest->next = mark;
    else
        stream->oldest = mark;
    stream->newest = mark;
    return BERTH_OK;
}

static void destroy_marks(cuda_device* cuda, cuda_mark* first, bool is_entered) {
    while (first != NULL) {
        cuda_mark* next = first->next;
        if (is_entered && cuda->driver.event_destroy(first->event) != CU_SUCCESS)
            (void)cuda->driver.event_destroy(first->event);
        berth_host_free(cuda->device.host, first);
        first = next;
    }
}

// --- Streams ------------------------------------------------------------------------------------

static berth_status create_handle(cuda_device* cuda, cu_stream* out_handle) {
    BERTH_TRY(berth_cuda_enter(cuda));
    const cu_result result = cuda->driver.stream_create(out_handle, CU_STREAM_IS_NON_BLOCKING);
    berth_cuda_leave(cuda);
    return berth_cuda_judge(cuda, result, "cuStreamCreate");
}

berth_status berth_cuda_stream_create(berth_device* self, berth_stream** out_stream) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* made = berth_host_calloc(self->host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a stream");
    berth_status status = berth_mutex_init(&made->lock);
    if (status == BERTH_OK) {
        status = create_handle(cuda, &made->handle);
        if (status != BERTH_OK) berth_mutex_fini(&made->lock);
    }
    if (status != BERTH_OK) {
        berth_host_free(self->host, made);
        return status;
    }
    made->stream.device = self;
    made->stream.native = made->handle;
    atomic_fetch_add(&cuda->stream_count, 1);
    *out_stream = &made->stream;
    return BERTH_OK;
}

/// Waits for all that was enqueued, whose failure the device keeps, and ends the stream.
static void destroy_handle(cuda_device* cuda, cu_stream handle) {
    (void)!finish(cuda, handle);
    cu_result result = cuda->driver.stream_destroy(handle);
    if (result != CU_SUCCESS) result = cuda->driver.stream_destroy(handle);
    if (result == CU_SUCCESS || berth_cuda_is_lost(cuda)) return;
    char reason[BERTH_CUDA_REASON_BYTES];
    berth_cuda_driver_explain(&cuda->driver, result, reason, sizeof reason);
    berth_log_line(BERTH_LOG_ERROR, "a stream of the device stays open: %s", reason);
}

void berth_cuda_stream_destroy(berth_device* self, berth_stream* stream) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* gone = cuda_stream_of(stream);
    const bool is_entered = berth_cuda_enter_to_release(cuda);
    if (is_entered) destroy_handle(cuda, gone->handle);
    destroy_marks(cuda, gone->oldest, is_entered);
    destroy_marks(cuda, gone->free, is_entered);
    if (is_entered) berth_cuda_leave(cuda);
    atomic_fetch_sub(&cuda->stream_count, 1);
    berth_mutex_fini(&gone->lock);
    berth_host_free(self->host, gone);
}

// --- Work ---------------------------------------------------------------------------------------

/// Ends a call that has enqueued something, or tried to.
static berth_status end_work(cuda_device* cuda, cuda_stream* stream, berth_status status) {
    atomic_store(&stream->has_news, true);
    if (status == BERTH_OK && cuda->is_blocking) status = finish(cuda, stream->handle);
    berth_cuda_leave(cuda);
    return status;
}

berth_status berth_cuda_launch(berth_device* self,
                               berth_stream* stream,
                               berth_kernel kernel,
                               const berth_op_call* call,
                               size_t params_bytes) {
    (void)params_bytes; // the launcher has read them when it returns
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* target = cuda_stream_of(stream);
    BERTH_TRY(berth_cuda_enter(cuda));
    berth_cuda_run_begin(cuda, target->handle);
    berth_native_stream_note(stream->native);
    kernel(call);
    berth_native_stream_note(NULL);
    return end_work(cuda, target, berth_cuda_run_end());
}

/// Copies [0, size) in pieces as long as the ranges are apart, in the order in which no piece is
/// overwritten before it was read.
static cu_result copy_pieces(cuda_device* cuda,
                             cu_stream stream,
                             cu_address target,
                             cu_address source,
                             uint64_t size,
                             uint64_t piece) {
    cu_result result = CU_SUCCESS;
    for (uint64_t copied = 0; copied < size && result == CU_SUCCESS;) {
        const uint64_t length = size - copied < piece ? size - copied : piece;
        const uint64_t at = target > source ? size - copied - length : copied;
        result = cuda->driver.memcpy_on_device(target + at, source + at, (size_t)length, stream);
        copied += length;
    }
    return result;
}

static berth_status copy_on_device(
    cuda_device* cuda, cu_stream stream, cu_address target, cu_address source, uint64_t size) {
    if (target == source) return BERTH_OK;
    const uint64_t apart = target > source ? target - source : source - target;
    if (apart >= (size + MAX_PIECES - 1) / MAX_PIECES) {
        const cu_result result = copy_pieces(cuda, stream, target, source, size, apart);
        return berth_cuda_judge(cuda, result, "cuMemcpyDtoDAsync");
    }
    const berth_cuda_move_args move = {
        .target = (unsigned char*)(uintptr_t)target,
        .source = (const unsigned char*)(uintptr_t)source,
        .bytes = size,
    };
    berth_cuda_run_begin(cuda, stream);
    berth_cuda_run(BERTH_CUDA_KERNEL_move, 1, MOVE_THREADS, &move);
    return berth_cuda_run_end();
}

berth_status berth_cuda_copy(berth_device* self,
                             berth_stream* stream,
                             void* target,
                             const void* source,
                             uint64_t size,
                             berth_copy_kind kind) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* queue = cuda_stream_of(stream);
    const cu_address to = (cu_address)(uintptr_t)target, from = (cu_address)(uintptr_t)source;
    BERTH_TRY(berth_cuda_enter(cuda));
    berth_status status = BERTH_OK;
    switch (kind) {
    case BERTH_COPY_HOST_TO_DEVICE:
        status =
            berth_cuda_judge(cuda,
                             cuda->driver.memcpy_to_device(to, source, (size_t)size, queue->handle),
                             "cuMemcpyHtoDAsync");
        break;
    case BERTH_COPY_DEVICE_TO_HOST:
        status =
            berth_cuda_judge(cuda,
                             cuda->driver.memcpy_to_host(target, from, (size_t)size, queue->handle),
                             "cuMemcpyDtoHAsync");
        break;
    case BERTH_COPY_DEVICE_TO_DEVICE:
        status = copy_on_device(cuda, queue->handle, to, from, size);
        break;
    }
    return end_work(cuda, queue, status);
}

// --- Tickets ------------------------------------------------------------------------------------

/// Issues a ticket when nothing has been enqueued since the last one: it is done with that.
static void issue_again(cuda_stream* stream, uint64_t ticket) {
    if (stream->newest != NULL)
        stream->newest->ticket = ticket;
    else
        atomic_store_explicit(&stream->done, ticket, memory_order_release);
}

/// What cannot be marked is waited for: slower, but callers that cannot fail know where they are.
static berth_status mark_or_finish(cuda_device* cuda, cuda_stream* stream, uint64_t ticket) {
    if (put_mark(cuda, stream, ticket) == BERTH_OK) return BERTH_OK;
    BERTH_TRY(berth_cuda_check(cuda));
    BERTH_TRY(finish(cuda, stream->handle));
    retire_all(stream);
    atomic_store_explicit(&stream->done, ticket, memory_order_release);
    return BERTH_OK;
}

static berth_status issue(cuda_device* cuda, cuda_stream* stream, uint64_t* out_ticket) {
    const uint64_t ticket = stream->issued + 1;
    const bool has_news = atomic_exchange(&stream->has_news, false) ||
                          atomic_load_explicit(&stream->stream.is_shared, memory_order_relaxed);
    if (has_news) {
        const berth_status status = mark_or_finish(cuda, stream, ticket);
        if (status != BERTH_OK) {
            atomic_store(&stream->has_news, true);
            return status;
        }
    } else {
        issue_again(stream, ticket);
    }
    *out_ticket = stream->issued = ticket;
    return BERTH_OK;
}

/// A ticket of a lost device asks nothing of the driver: waiting for it fails, and it is done.
static berth_status issue_lost(cuda_device* cuda, cuda_stream* stream, uint64_t* out_ticket) {
    BERTH_TRY(berth_fork_check(cuda->fork_generation));
    berth_mutex_lock(&stream->lock);
    *out_ticket = ++stream->issued;
    berth_mutex_unlock(&stream->lock);
    return BERTH_OK;
}

berth_status berth_cuda_record(berth_device* self, berth_stream* stream, uint64_t* out_ticket) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* recorded = cuda_stream_of(stream);
    const berth_status entered = berth_cuda_enter(cuda);
    if (berth_cuda_is_lost(cuda) && entered != BERTH_OK)
        return issue_lost(cuda, recorded, out_ticket);
    BERTH_TRY(entered);
    berth_mutex_lock(&recorded->lock);
    const berth_status status = issue(cuda, recorded, out_ticket);
    berth_mutex_unlock(&recorded->lock);
    berth_cuda_leave(cuda);
    return status;
}

static bool is_done(const cuda_stream* stream, uint64_t ticket) {
    return atomic_load_explicit(&stream->done, memory_order_acquire) >= ticket;
}

/// Nothing that a caller could wait for will run any more.
static bool nothing_runs(cuda_device* cuda) {
    return berth_cuda_is_lost(cuda) || cuda->fork_generation != berth_fork_generation;
}

/// On a lost device every ticket is done.
bool berth_cuda_query(berth_device* self, berth_stream* stream, uint64_t ticket) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* queried = cuda_stream_of(stream);
    if (is_done(queried, ticket)) return true;
    if (berth_cuda_enter(cuda) != BERTH_OK) return nothing_runs(cuda);
    berth_mutex_lock(&queried->lock);
    const berth_status status = poll(cuda, queried);
    berth_mutex_unlock(&queried->lock);
    berth_cuda_leave(cuda);
    if (status != BERTH_OK) return nothing_runs(cuda);
    return is_done(queried, ticket);
}

/// Everything up to `mark` has been passed.
static void retire_through(cuda_stream* stream, const cuda_mark* mark) {
    while (!mark->is_over)
        retire_oldest(stream);
}

static berth_status wait_for(cuda_device* cuda, cuda_stream* stream, uint64_t ticket) {
    berth_mutex_lock(&stream->lock);
    cuda_mark* mark = hold_mark(stream, ticket);
    berth_mutex_unlock(&stream->lock);
    if (mark == NULL) return BERTH_OK;
    berth_status status =
        berth_cuda_judge(cuda, cuda->driver.event_synchronize(mark->event), "work on the device");
    if (status != BERTH_OK && !berth_cuda_is_lost(cuda)) status = finish(cuda, stream->handle);
    berth_mutex_lock(&stream->lock);
    if (status == BERTH_OK) retire_through(stream, mark);
    let_go(stream, mark);
    berth_mutex_unlock(&stream->lock);
    return status;
}

berth_status berth_cuda_wait(berth_device* self, berth_stream* stream, uint64_t ticket) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* waited_for = cuda_stream_of(stream);
    if (is_done(waited_for, ticket)) return BERTH_OK;
    BERTH_TRY(berth_cuda_enter(cuda));
    const berth_status status = wait_for(cuda, waited_for, ticket);
    berth_cuda_leave(cuda);
    return status;
}

/// The driver takes the event as it stands now, so the mark may be used again at once.
static berth_status order_after(cuda_device* cuda,
                                cuda_stream* stream,
                                cuda_stream* other,
                                uint64_t ticket) {
    berth_mutex_lock(&other->lock);
    cuda_mark* mark = hold_mark(other, ticket);
    berth_mutex_unlock(&other->lock);
    if (mark == NULL) return BERTH_OK;
    const cu_result result = cuda->driver.stream_wait_event(stream->handle, mark->event, 0);
    berth_mutex_lock(&other->lock);
    let_go(other, mark);
    berth_mutex_unlock(&other->lock);
    atomic_store(&stream->has_news, true);
    return berth_cuda_judge(cuda, result, "cuStreamWaitEvent");
}

berth_status berth_cuda_wait_stream(berth_device* self,
                                    berth_stream* stream,
                                    berth_stream* other,
                                    uint64_t ticket) {
    cuda_device* cuda = cuda_device_of(self);
    cuda_stream* first = cuda_stream_of(other);
    if (is_done(first, ticket)) return BERTH_OK;
    BERTH_TRY(berth_cuda_enter(cuda));
    const berth_status status = order_after(cuda, cuda_stream_of(stream), first, ticket);
    berth_cuda_leave(cuda);
    return status;
}
