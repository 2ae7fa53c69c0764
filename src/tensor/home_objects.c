// SPDX-License-Identifier: Apache-2.0
// Memory of a home's tensors and storages: chunks that grow with their number, and are freed again
// by somebody who has time, while the home is in use.
#include <sched.h>

#include "base/error.h"
#include "tensor/tensor_impl.h"

enum {
    LEAST_OBJECTS = 64, ///< of a chunk; a later one doubles what is there, up to MOST_BYTES
    IDLE_SHARE = 4,     ///< with fewer than a quarter of the objects out some are given up
    IDLE_OBJECTS = 4096,
};

/// The built-in host gives more than 2 MiB back to the system when they are freed, and takes 4 MiB
/// at a time: so one fits with all that is around it.
#define MOST_BYTES (((size_t)7 << 19) - 256)

void berth_home_fini(berth_home* home) {
    for (size_t i = 0; i < home->chunks.count; ++i)
        berth_host_free(home->host, home->chunks.items[i].first);
    berth_object_chunk_vec_fini(&home->chunks, home->host);
    berth_overdue_vec_fini(&home->overdue, home->host);
}

static size_t next_count(const berth_home* home, size_t size) {
    const size_t most = MOST_BYTES / size;
    if (home->object_count < LEAST_OBJECTS) return LEAST_OBJECTS;
    return home->object_count < most ? home->object_count : most;
}

/// Cuts a new chunk into `size`-byte objects and chains them on `*list`.
static berth_status refill(berth_home* home, berth_object** list, size_t size, bool is_storage) {
    BERTH_TRY(berth_object_chunk_vec_reserve(&home->chunks, home->host, home->chunks.count + 1));
    const size_t count = next_count(home, size);
    unsigned char* chunk = berth_host_calloc(home->host, count, size);
    if (chunk == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for tensors");
    home->chunks.items[home->chunks.count++] = (berth_object_chunk){.first = chunk, .count = count};
    home->object_count += count;
    for (size_t i = count; i-- > 0;) {
        berth_object* object = (berth_object*)(void*)(chunk + i * size);
        object->is_storage = is_storage;
        object->next = *list;
        *list = object;
    }
    return BERTH_OK;
}

berth_status berth_home_refill_tensors(berth_home* home) {
    BERTH_TRY(refill(home, &home->free_tensors, sizeof(berth_tensor), false));
    for (berth_object* object = home->free_tensors; object != NULL; object = object->next)
        ((berth_tensor*)object)->home = home;
    return BERTH_OK;
}

berth_status berth_home_refill_storages(berth_home* home) {
    BERTH_TRY(refill(home, &home->free_storages, sizeof(berth_storage), true));
    for (berth_object* object = home->free_storages; object != NULL; object = object->next) {
        berth_storage* storage = (berth_storage*)object;
        storage->home = home;
        storage->movable.ops = &berth_storage_moves;
        atomic_flag_clear(&storage->lock);
    }
    return BERTH_OK;
}

// --- Shedding -----------------------------------------------------------------------------------

/// A chunk, and how many of its objects were found free.
typedef struct tally {
    berth_object_chunk chunk;
    size_t free_count;
} tally;

/// What is looked through: all free objects of a home, taken out of everybody's reach.
typedef struct shedding {
    tally* tallies; ///< [count], ascending addresses
    size_t count;
    berth_object* tensors;
    berth_object* storages;
} shedding;

/// There are few, and each is much work later.
static void sort_tallies(shedding* work) {
    for (size_t i = 1; i < work->count; ++i) {
        const tally moving = work->tallies[i];
        size_t at = i;
        for (; at > 0; --at) {
            const uintptr_t before = (uintptr_t)work->tallies[at - 1].chunk.first;
            if (before < (uintptr_t)moving.chunk.first) break;
            work->tallies[at] = work->tallies[at - 1];
        }
        work->tallies[at] = moving;
    }
}

static tally* tally_of(const shedding* work, const berth_object* object) {
    size_t low = 0, high = work->count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)work->tallies[middle].chunk.first <= (uintptr_t)object)
            low = middle;
        else
            high = middle;
    }
    return &work->tallies[low];
}

static bool is_idle(const tally* t) { return t->free_count == t->chunk.count; }

static void visit(berth_home* home) {
    while (!berth_home_try_visit(home))
        sched_yield();
}

/// Takes the free objects away if there are too many. Whoever needs some meanwhile makes new ones.
static bool begin(berth_home* home, shedding* work) {
    visit(home);
    const size_t free_count = home->object_count - (size_t)home->live_objects;
    const bool is_worth_it =
        free_count > IDLE_OBJECTS && home->live_objects < home->object_count / IDLE_SHARE;
    if (is_worth_it) {
        work->count = home->chunks.count;
        work->tallies = berth_host_calloc(home->host, work->count, sizeof *work->tallies);
    }
    if (work->tallies != NULL) {
        for (size_t i = 0; i < work->count; ++i)
            work->tallies[i].chunk = home->chunks.items[i];
        work->tensors = home->free_tensors;
        work->storages = home->free_storages;
        home->free_tensors = home->free_storages = NULL;
    }
    berth_home_end_visit(home);
    return work->tallies != NULL;
}

static void count_free(const shedding* work, const berth_object* list) {
    for (; list != NULL; list = list->next)
        tally_of(work, list)->free_count++;
}

/// Takes what lies in idle chunks off a list; returns where its end points.
static berth_object** keep_others(const shedding* work, berth_object** list) {
    while (*list != NULL) {
        if (is_idle(tally_of(work, *list)))
            *list = (*list)->next;
        else
            list = &(*list)->next;
    }
    return list;
}

static void forget_chunk(berth_home* home, const berth_object_chunk* chunk) {
    for (size_t i = 0; i < home->chunks.count; ++i) {
        if (home->chunks.items[i].first != chunk->first) continue;
        home->chunks.items[i] = home->chunks.items[--home->chunks.count];
        home->object_count -= chunk->count;
        return;
    }
}

/// Gives back what stays, and forgets the idle chunks.
static void end(berth_home* home, shedding* work) {
    berth_object** tensors_end = keep_others(work, &work->tensors);
    berth_object** storages_end = keep_others(work, &work->storages);
    visit(home);
    *tensors_end = home->free_tensors;
    home->free_tensors = work->tensors;
    *storages_end = home->free_storages;
    home->free_storages = work->storages;
    for (size_t i = 0; i < work->count; ++i) {
        if (is_idle(&work->tallies[i])) forget_chunk(home, &work->tallies[i].chunk);
    }
    berth_home_end_visit(home);
}

void berth_home_shed_objects(berth_home* home) {
    shedding work = {.tallies = NULL};
    if (!begin(home, &work)) return;
    sort_tallies(&work);
    count_free(&work, work.tensors);
    count_free(&work, work.storages);
    end(home, &work);
    for (size_t i = 0; i < work.count; ++i) {
        if (is_idle(&work.tallies[i])) berth_host_free(home->host, work.tallies[i].chunk.first);
    }
    berth_host_free(home->host, work.tallies);
}
