// SPDX-License-Identifier: Apache-2.0
// Berth: a pool for each thread, as contexts have, its guard held while the thread works. Others:
// malloc and free, without the alignment that Berth gives, as that is what they do fastest. The
// models of PyTorch's allocator: one for all threads under a lock, as there is one for a device.
#include "pool/contenders.h"

#include <pthread.h>
#include <stdlib.h>

#include "device/cpu/cpu_device.h"
#include "kit/allocators.h"
#include "kit/fail.h"
#include "kit/torch_allocator.h"

#define STORE_BYTES (UINT64_C(3) << 30)

// ---- Berth.

typedef struct own_pool {
    pthread_mutex_t guard;
    berth_pool* pool;
} own_pool;

static struct {
    berth_device* device;
    berth_stream* stream;
    berth_store* store;
    own_pool pools[MAX_THREADS];
} berth;

static bool try_guard(void* guard) { return pthread_mutex_trylock(guard) == 0; }
static void leave_guard(void* guard) { (void)pthread_mutex_unlock(guard); }

static void berth_take(void* of_thread, uint64_t size, berth_block* out_block) {
    const berth_pool_request request = {.size_bytes = size};
    if (berth_pool_take(((own_pool*)of_thread)->pool, &request, out_block) != BERTH_OK)
        bench_fail("take");
}

static void berth_give(void* of_thread, const berth_block* block) {
    berth_pool_give(((own_pool*)of_thread)->pool, block);
}

static void berth_give_remote(void* of_thread, const berth_block* block) {
    berth_pool_give_remote(((own_pool*)of_thread)->pool, block);
}

static void berth_enter(void* of_thread) {
    (void)pthread_mutex_lock(&((own_pool*)of_thread)->guard);
}

static void berth_leave(void* of_thread) {
    own_pool* own = of_thread;
    berth_pool_flush_front(own->pool);
    (void)berth_pool_trim(own->pool, 0, true);
    (void)pthread_mutex_unlock(&own->guard);
}

static void open_berth(contender* c) {
    const berth_cpu_options options = {.threads = 1, .huge = BERTH_HUGE_MADVISE};
    const berth_host* host = berth_host_default();
    if (berth_cpu_device_create(host, &options, &berth.device) != BERTH_OK ||
        berth_stream_create(berth.device, &berth.stream) != BERTH_OK ||
        berth_store_create(host, berth.device, STORE_BYTES, &berth.store) != BERTH_OK)
        bench_fail("store");
    for (int i = 0; i < MAX_THREADS; ++i) {
        own_pool* own = &berth.pools[i];
        const berth_pool_config config = {
            .host = host,
            .store = berth.store,
            .stream = berth.stream,
            .guard = {.self = &own->guard, .try_lock = try_guard, .unlock = leave_guard}};
        if (pthread_mutex_init(&own->guard, NULL) != 0 ||
            berth_pool_create(&config, &own->pool) != BERTH_OK)
            bench_fail("pool");
        c->of_thread[i] = own;
    }
    c->is_there = true;
    c->take = berth_take;
    c->give = berth_give;
    c->give_remote = berth_give_remote;
    c->enter = berth_enter;
    c->leave = berth_leave;
}

static void close_berth(void) {
    for (int i = 0; i < MAX_THREADS; ++i) {
        berth_pool_destroy(berth.pools[i].pool);
        (void)pthread_mutex_destroy(&berth.pools[i].guard);
    }
    berth_store_destroy(berth.store);
    berth_stream_destroy(berth.stream);
    berth_device_destroy(berth.device);
}

// ---- Allocators.

static void malloc_take(void* of_thread, uint64_t size, berth_block* out_block) {
    out_block->data = ((const bench_allocator*)of_thread)->malloc((size_t)size);
    out_block->size_bytes = size;
    if (out_block->data == NULL) bench_fail_for("malloc", "no memory");
}

static void malloc_give(void* of_thread, const berth_block* block) {
    ((const bench_allocator*)of_thread)->free(block->data);
}

static void open_malloc(contender* c, bench_allocator* allocator) {
    c->is_there = bench_allocator_load(c->name, allocator);
    for (int i = 0; i < MAX_THREADS; ++i)
        c->of_thread[i] = allocator;
    c->take = malloc_take;
    c->give = c->give_remote = malloc_give;
}

// ---- The models of PyTorch's.

typedef struct shared_model {
    pthread_mutex_t lock;
    torch_allocator* allocator;
    berth_pool_bypass calls;
} shared_model;

static void torch_take(void* of_thread, uint64_t size, berth_block* out_block) {
    shared_model* model = of_thread;
    (void)pthread_mutex_lock(&model->lock);
    out_block->data = model->calls.alloc(model->calls.self, (size_t)size, BERTH_ALIGNMENT);
    (void)pthread_mutex_unlock(&model->lock);
    out_block->size_bytes = size;
    if (out_block->data == NULL) bench_fail_for("torch", "no memory");
}

static void torch_give(void* of_thread, const berth_block* block) {
    shared_model* model = of_thread;
    (void)pthread_mutex_lock(&model->lock);
    model->calls.free(model->calls.self, block->data, (size_t)block->size_bytes);
    (void)pthread_mutex_unlock(&model->lock);
}

static void open_torch(contender* c, shared_model* model, bool is_expandable) {
    model->allocator = torch_allocator_create(is_expandable);
    if (model->allocator == NULL || pthread_mutex_init(&model->lock, NULL) != 0)
        bench_fail_for(c->name, "no memory");
    model->calls = torch_allocator_bypass(model->allocator);
    for (int i = 0; i < MAX_THREADS; ++i)
        c->of_thread[i] = model;
    c->is_there = c->is_made_up = true;
    c->take = torch_take;
    c->give = c->give_remote = torch_give;
}

static bench_allocator allocators[4];
static shared_model models[2];

void contenders_open(contender* contenders) {
    static const char* const names[CONTENDERS] = {
        "berth", "glibc", "jemalloc", "mimalloc", "tcmalloc", "torch", "torch-expandable"};
    for (int i = 0; i < CONTENDERS; ++i)
        contenders[i] = (contender){.name = names[i]};
    open_berth(&contenders[0]);
    for (int i = 0; i < 4; ++i)
        open_malloc(&contenders[1 + i], &allocators[i]);
    for (int i = 0; i < 2; ++i)
        open_torch(&contenders[5 + i], &models[i], i == 1);
}

void contenders_close(contender* contenders) {
    (void)contenders;
    close_berth();
    for (int i = 0; i < 2; ++i) {
        torch_allocator_destroy(models[i].allocator);
        (void)pthread_mutex_destroy(&models[i].lock);
    }
}
