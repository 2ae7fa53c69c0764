// SPDX-License-Identifier: Apache-2.0
// Streams and events of the stand-in. There is no thread: work runs in the call that waits for it,
// or, with a seed, a little in other calls.
#include <stdlib.h>
#include <string.h>

#include "standin_internal.h"

typedef enum work_kind { WORK_KERNEL, WORK_COPY, WORK_RECORD, WORK_WAIT } work_kind;

/// Marks are numbered: an event stands for the last one that was recorded.
typedef struct event {
    uint64_t recorded;
    uint64_t reached;
    uint64_t users; ///< entries of queues
    bool is_destroyed;
    struct event* next;
} event;

typedef struct work {
    work_kind kind;
    berth_cuda_kernel kernel;
    unsigned blocks, threads;
    standin_copy copied;
    event* of;
    uint64_t mark;
    struct work* next;
    unsigned char arguments[]; ///< of a kernel
} work;

typedef struct stream {
    work* first;
    work** end;
    struct stream* next;
} stream;

static stream* streams;
static event* events;
static uint64_t crash_in;

static stream** find_stream(cu_stream handle) {
    stream** link = &streams;
    while (*link != NULL && (void*)*link != (void*)handle)
        link = &(*link)->next;
    return link;
}

static event* find_event(cu_event handle) {
    event* found = events;
    while (found != NULL && (void*)found != (void*)handle)
        found = found->next;
    return found != NULL && !found->is_destroyed ? found : NULL;
}

// --- Running ------------------------------------------------------------------------------------

static void end_if_unused(event* gone) {
    if (!gone->is_destroyed || gone->users > 0) return;
    event** link = &events;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    free(gone);
}

static bool is_ready(const work* item) {
    return item->kind != WORK_WAIT || item->of->reached >= item->mark;
}

static bool is_usable(const standin_copy* copied) {
    return (!copied->is_target_device ||
            standin_memory_is_usable((cu_address)(uintptr_t)copied->target, copied->size)) &&
           (!copied->is_source_device ||
            standin_memory_is_usable((cu_address)(uintptr_t)copied->source, copied->size));
}

static void run_copy(const standin_copy* copied) {
    if (is_usable(copied)) {
        standin_memory_copy(copied);
        return;
    }
    standin_violate("a copy of %llu bytes runs when its memory is not mapped any more",
                    (unsigned long long)copied->size);
    standin_stick(CU_ERROR_ILLEGAL_ADDRESS);
}

static void run_kernel(const work* item) {
    if (crash_in > 0 && --crash_in == 0) {
        standin_stick(CU_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    standin_memory_open(); // until no more is to run now
    emulation_run(item->kernel, item->blocks, item->threads, item->arguments);
}

/// Runs the oldest entry of a queue that has one and whose entry need not wait.
static void run_one(stream* from) {
    work* item = from->first;
    from->first = item->next;
    if (from->first == NULL) from->end = &from->first;
    if (item->kind == WORK_COPY && !standin_is_dead()) run_copy(&item->copied);
    if (item->kind == WORK_KERNEL && !standin_is_dead()) run_kernel(item);
    if (item->kind == WORK_RECORD && item->of->reached < item->mark) item->of->reached = item->mark;
    if (item->of != NULL) {
        item->of->users--;
        end_if_unused(item->of);
    }
    free(item);
}

/// Runs one entry of some stream; false if none can run.
static bool run_any(uint64_t skipped) {
    stream* chosen = NULL;
    for (stream* each = streams; each != NULL; each = each->next) {
        if (each->first == NULL || !is_ready(each->first)) continue;
        chosen = each;
        if (skipped-- == 0) break;
    }
    if (chosen == NULL) return false;
    run_one(chosen);
    return true;
}

/// Marks are recorded before they are waited for, so that there is always something that can run.
static void run_until_idle(const stream* until) {
    while (until->first != NULL && run_any(0))
        ;
    standin_memory_close();
}

static void run_until_reached(const event* until, uint64_t mark) {
    while (until->reached < mark && run_any(0))
        ;
    standin_memory_close();
}

void standin_streams_progress(void) {
    if (standin_options()->seed == 0) return;
    const uint64_t drawn = standin_draw();
    if (drawn % 4 != 0 || streams == NULL) return;
    for (uint64_t i = 0; i < drawn / 4 % 6; i++)
        (void)run_any(standin_draw() % 4);
    standin_memory_close();
}

// --- Streams ------------------------------------------------------------------------------------

static work* make_work(work_kind kind, size_t argument_bytes) {
    work* made = calloc(1, sizeof *made + argument_bytes);
    if (made != NULL) made->kind = kind;
    return made;
}

static void enqueue(stream* to, work* item) {
    *to->end = item;
    to->end = &item->next;
}

cu_result cuStreamCreate(cu_stream* out_stream, unsigned flags) {
    STANDIN_BEGIN(stream_create);
    STANDIN_REFUSE_UNLESS(standin_has_context() && flags == CU_STREAM_IS_NON_BLOCKING,
                          CU_ERROR_INVALID_VALUE);
    stream* made = calloc(1, sizeof *made);
    STANDIN_REFUSE_UNLESS(made != NULL, CU_ERROR_OUT_OF_MEMORY);
    made->end = &made->first;
    made->next = streams;
    streams = made;
    *out_stream = (cu_stream)(void*)made;
    return standin_end(CU_SUCCESS);
}

/// The real one returns at once and ends the stream when its work is done; here that is now.
cu_result cuStreamDestroy_v2(cu_stream handle) {
    STANDIN_BEGIN(stream_destroy);
    stream** link = find_stream(handle);
    STANDIN_REFUSE_UNLESS(*link != NULL, CU_ERROR_INVALID_HANDLE);
    stream* gone = *link;
    run_until_idle(gone);
    *link = gone->next;
    free(gone);
    return standin_end(CU_SUCCESS);
}

cu_result cuStreamSynchronize(cu_stream handle) {
    STANDIN_BEGIN(stream_synchronize);
    stream* waited = *find_stream(handle);
    STANDIN_REFUSE_UNLESS(waited != NULL, CU_ERROR_INVALID_HANDLE);
    run_until_idle(waited);
    return standin_end(standin_sticky());
}

cu_result cuStreamWaitEvent(cu_stream handle, cu_event mark, unsigned flags) {
    STANDIN_BEGIN(stream_wait_event);
    stream* to = *find_stream(handle);
    event* of = find_event(mark);
    STANDIN_REFUSE_UNLESS(to != NULL && of != NULL, CU_ERROR_INVALID_HANDLE);
    STANDIN_REFUSE_UNLESS(flags == 0, CU_ERROR_INVALID_VALUE);
    work* item = make_work(WORK_WAIT, 0);
    STANDIN_REFUSE_UNLESS(item != NULL, CU_ERROR_OUT_OF_MEMORY);
    item->of = of;
    item->mark = of->recorded;
    of->users++;
    enqueue(to, item);
    return standin_end(CU_SUCCESS);
}

// --- Events -------------------------------------------------------------------------------------

cu_result cuEventCreate(cu_event* out_event, unsigned flags) {
    STANDIN_BEGIN(event_create);
    STANDIN_REFUSE_UNLESS(standin_has_context() && (flags == 0 || flags == CU_EVENT_IS_UNTIMED),
                          CU_ERROR_INVALID_VALUE);
    event* made = calloc(1, sizeof *made);
    STANDIN_REFUSE_UNLESS(made != NULL, CU_ERROR_OUT_OF_MEMORY);
    made->next = events;
    events = made;
    *out_event = (cu_event)(void*)made;
    return standin_end(CU_SUCCESS);
}

cu_result cuEventDestroy_v2(cu_event handle) {
    STANDIN_BEGIN(event_destroy);
    event* gone = find_event(handle);
    STANDIN_REFUSE_UNLESS(gone != NULL, CU_ERROR_INVALID_HANDLE);
    gone->is_destroyed = true;
    end_if_unused(gone);
    return standin_end(CU_SUCCESS);
}

cu_result cuEventRecord(cu_event handle, cu_stream to_handle) {
    STANDIN_BEGIN(event_record);
    event* of = find_event(handle);
    stream* to = *find_stream(to_handle);
    STANDIN_REFUSE_UNLESS(of != NULL && to != NULL && standin_has_context(),
                          CU_ERROR_INVALID_HANDLE);
    work* item = make_work(WORK_RECORD, 0);
    STANDIN_REFUSE_UNLESS(item != NULL, CU_ERROR_OUT_OF_MEMORY);
    item->of = of;
    item->mark = ++of->recorded;
    of->users++;
    enqueue(to, item);
    return standin_end(CU_SUCCESS);
}

cu_result cuEventQuery(cu_event handle) {
    STANDIN_BEGIN(event_query);
    const event* of = find_event(handle);
    STANDIN_REFUSE_UNLESS(of != NULL, CU_ERROR_INVALID_HANDLE);
    return standin_end(of->reached >= of->recorded ? CU_SUCCESS : CU_ERROR_NOT_READY);
}

cu_result cuEventSynchronize(cu_event handle) {
    STANDIN_BEGIN(event_synchronize);
    const event* of = find_event(handle);
    STANDIN_REFUSE_UNLESS(of != NULL, CU_ERROR_INVALID_HANDLE);
    run_until_reached(of, of->recorded);
    return standin_end(standin_sticky());
}

// --- Work ---------------------------------------------------------------------------------------

static cu_result copy(cu_stream handle, standin_copy copied) {
    stream* to = *find_stream(handle);
    STANDIN_REFUSE_UNLESS(to != NULL && standin_has_context(), CU_ERROR_INVALID_HANDLE);
    STANDIN_REFUSE_UNLESS(is_usable(&copied), CU_ERROR_INVALID_VALUE);
    work* item = make_work(WORK_COPY, 0);
    STANDIN_REFUSE_UNLESS(item != NULL, CU_ERROR_OUT_OF_MEMORY);
    item->copied = copied;
    enqueue(to, item);
    return standin_end(CU_SUCCESS);
}

cu_result cuMemcpyHtoDAsync_v2(cu_address target, const void* source, size_t size, cu_stream to) {
    STANDIN_BEGIN(memcpy_to_device);
    return copy(to,
                (standin_copy){.target = (void*)(uintptr_t)target,
                               .source = source,
                               .size = size,
                               .is_target_device = true});
}

cu_result cuMemcpyDtoHAsync_v2(void* target, cu_address source, size_t size, cu_stream to) {
    STANDIN_BEGIN(memcpy_to_host);
    return copy(to,
                (standin_copy){.target = target,
                               .source = (const void*)(uintptr_t)source,
                               .size = size,
                               .is_source_device = true});
}

cu_result cuMemcpyDtoDAsync_v2(cu_address target, cu_address source, size_t size, cu_stream to) {
    STANDIN_BEGIN(memcpy_on_device);
    if (target < source + size && source < target + size)
        standin_violate("a copy of %zu bytes to where it overlaps its source", size);
    return copy(to,
                (standin_copy){.target = (void*)(uintptr_t)target,
                               .source = (const void*)(uintptr_t)source,
                               .size = size,
                               .is_target_device = true,
                               .is_source_device = true});
}

cu_result cuLaunchKernel(cu_function function,
                         unsigned blocks_x,
                         unsigned blocks_y,
                         unsigned blocks_z,
                         unsigned threads_x,
                         unsigned threads_y,
                         unsigned threads_z,
                         unsigned shared_bytes,
                         cu_stream handle,
                         void** arguments,
                         void** extra) {
    STANDIN_BEGIN(launch_kernel);
    stream* to = *find_stream(handle);
    STANDIN_REFUSE_UNLESS(to != NULL && standin_has_context(), CU_ERROR_INVALID_HANDLE);
    const uintptr_t number = (uintptr_t)function - 1;
    STANDIN_REFUSE_UNLESS(number < BERTH_CUDA_KERNEL_COUNT, CU_ERROR_INVALID_HANDLE);
    STANDIN_REFUSE_UNLESS(blocks_x > 0 && blocks_x <= INT32_MAX && blocks_y == 1 && blocks_z == 1 &&
                              threads_x > 0 && threads_x <= 1024 && threads_y == 1 &&
                              threads_z == 1 && shared_bytes == 0 && extra == NULL,
                          CU_ERROR_INVALID_VALUE);
    const berth_cuda_kernel kernel = (berth_cuda_kernel)number;
    const size_t bytes = emulation_argument_bytes(kernel);
    work* item = make_work(WORK_KERNEL, bytes);
    STANDIN_REFUSE_UNLESS(item != NULL, CU_ERROR_OUT_OF_MEMORY);
    item->kernel = kernel;
    item->blocks = blocks_x;
    item->threads = threads_x;
    memcpy(item->arguments, arguments[0], bytes);
    enqueue(to, item);
    return standin_end(CU_SUCCESS);
}

void standin_crash_kernel(uint64_t nth) { crash_in = nth; }

void standin_streams_count(standin_live* live) {
    for (const stream* each = streams; each != NULL; each = each->next)
        live->streams++;
    for (const event* each = events; each != NULL; each = each->next)
        live->events += !each->is_destroyed;
}
