// SPDX-License-Identifier: Apache-2.0
// Slabs: classes every eighth of an octave, a bit for each slot.
#include "memory/slabs.h"

#include "base/error.h"
#include "device/device.h"

#include <string.h>

#define SLAB_MIN_BYTES (UINT64_C(16) << 10)
#define SLAB_MIN_SLOTS 8u
/// A slab is made larger, up to this, while more than 1/32 of it is in no slot.
#define SLAB_FIT_BYTES (UINT64_C(64) << 10)
#define SLAB_REST_SHARE 32u
#define SLOT_MAX_BYTES (UINT64_C(16) << 10)
/// A granule holds at least this many of the largest slots: fewer, and slabs waste more than they
/// save.
#define SLOTS_A_GRANULE 128u

_Static_assert(SLAB_MIN_BYTES / BERTH_ALIGNMENT <= BERTH_SLAB_SLOTS, "a slab's slots have bits");
_Static_assert(BERTH_ALIGNMENT == 64, "the classes count in units of 64 bytes");

static uint64_t slot_bytes_of(uint32_t size_class) {
    if (size_class < 8) return (size_class + 1) * UINT64_C(64);
    const uint32_t octave = 9 + (size_class - 8) / 8;
    const uint64_t step = (size_class - 8) % 8;
    return (9 + step) << (octave - 3);
}

static uint64_t slab_bytes_of(uint64_t slot_bytes, uint64_t granule_bytes) {
    uint64_t bytes = SLAB_MIN_BYTES;
    while (bytes < slot_bytes * SLAB_MIN_SLOTS ||
           (bytes < SLAB_FIT_BYTES && bytes % slot_bytes > bytes / SLAB_REST_SHARE))
        bytes *= 2;
    return bytes < granule_bytes ? bytes : granule_bytes;
}

void berth_slabs_init(berth_slabs* slabs, const berth_host* host, uint64_t granule_bytes) {
    memset(slabs, 0, sizeof *slabs);
    slabs->host = host;
    slabs->max_bytes = granule_bytes / SLOTS_A_GRANULE;
    if (slabs->max_bytes > SLOT_MAX_BYTES) slabs->max_bytes = SLOT_MAX_BYTES;
    if (slabs->max_bytes < BERTH_ALIGNMENT) slabs->max_bytes = BERTH_ALIGNMENT;
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++) {
        berth_slab_class* geometry = &slabs->classes[i];
        geometry->slot_bytes = slot_bytes_of(i);
        geometry->slab_bytes = slab_bytes_of(geometry->slot_bytes, granule_bytes);
        geometry->slot_count = (uint32_t)(geometry->slab_bytes / geometry->slot_bytes);
        geometry->least_slots = geometry->slot_count;
        if (i > 0 && geometry[-1].least_slots < geometry->least_slots)
            geometry->least_slots = geometry[-1].least_slots;
    }
}

void berth_slabs_fini(berth_slabs* slabs) {
    for (size_t i = 1; i < slabs->records.count; i++)
        berth_host_free(slabs->host, slabs->records.items[i].movables);
    berth_host_free(slabs->host, slabs->spare_movables);
    berth_slab_vec_fini(&slabs->records, slabs->host);
}

static berth_status prepare_movables(berth_slabs* slabs, uint32_t slots) {
    if (slabs->spare_slots >= slots) return BERTH_OK;
    berth_movable** movables = berth_host_calloc(slabs->host, slots, sizeof(berth_movable*));
    if (movables == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a pool's slab");
    berth_host_free(slabs->host, slabs->spare_movables);
    slabs->spare_movables = movables;
    slabs->spare_slots = slots;
    return BERTH_OK;
}

berth_status berth_slabs_prepare(berth_slabs* slabs, uint32_t size_class) {
    BERTH_TRY(prepare_movables(slabs, slabs->classes[size_class].slot_count));
    while (slabs->spare == 0) {
        const size_t next = slabs->records.count;
        if (next >= UINT32_MAX)
            return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "a pool has too many slabs");
        BERTH_TRY(berth_slab_vec_push(&slabs->records, slabs->host, (berth_slab){0}));
        if (next != 0) slabs->spare = (berth_slab_id)next;
    }
    return BERTH_OK;
}

static void list_insert(berth_slabs* slabs, berth_slab_id id) {
    berth_slab* slab = berth_slabs_at(slabs, id);
    berth_slab_class* geometry = &slabs->classes[slab->size_class];
    slab->before = 0;
    slab->after = geometry->head;
    if (slab->after != 0) berth_slabs_at(slabs, slab->after)->before = id;
    geometry->head = id;
}

static void list_remove(berth_slabs* slabs, berth_slab_id id) {
    berth_slab* slab = berth_slabs_at(slabs, id);
    if (slab->after != 0) berth_slabs_at(slabs, slab->after)->before = slab->before;
    if (slab->before != 0)
        berth_slabs_at(slabs, slab->before)->after = slab->after;
    else
        slabs->classes[slab->size_class].head = slab->after;
    slab->before = 0;
    slab->after = 0;
}

berth_slab_id berth_slabs_add(berth_slabs* slabs,
                              uint32_t size_class,
                              uint64_t start,
                              uint32_t extent) {
    const berth_slab_id id = slabs->spare;
    BERTH_CHECK(1, id != 0);
    const berth_slab_class* geometry = &slabs->classes[size_class];
    berth_slab* slab = berth_slabs_at(slabs, id);
    slabs->spare = slab->after;
    *slab = (berth_slab){.start = start,
                         .free_count = geometry->slot_count,
                         .size_class = size_class,
                         .movables = slabs->spare_movables,
                         .extent = extent};
    slabs->spare_movables = NULL;
    slabs->spare_slots = 0;
    for (uint32_t i = 0; i < geometry->slot_count; i++)
        slab->free_slots[i / 64] |= UINT64_C(1) << (i % 64);
    list_insert(slabs, id);
    slabs->empty_count++;
    slabs->slab_bytes += geometry->slab_bytes;
    return id;
}

/// Keeps the longer of the array and the spare one, as the spare one. (An array may be longer than
/// `slots`, which is what is known of it.)
static void keep_movables(berth_slabs* slabs, berth_movable** movables, uint32_t slots) {
    if (slots <= slabs->spare_slots) {
        berth_host_free(slabs->host, movables);
        return;
    }
    berth_host_free(slabs->host, slabs->spare_movables);
    slabs->spare_movables = movables;
    slabs->spare_slots = slots;
}

void berth_slabs_remove(berth_slabs* slabs, berth_slab_id id) {
    BERTH_CHECK(2, berth_slabs_is_empty(slabs, id));
    list_remove(slabs, id);
    berth_slab* slab = berth_slabs_at(slabs, id);
    slabs->empty_count--;
    slabs->slab_bytes -= slabs->classes[slab->size_class].slab_bytes;
    keep_movables(slabs, slab->movables, slabs->classes[slab->size_class].slot_count);
    *slab = (berth_slab){.after = slabs->spare};
    slabs->spare = id;
}

uint64_t berth_slabs_take(berth_slabs* slabs,
                          uint32_t size_class,
                          berth_movable* movable,
                          uint64_t* out_handle) {
    return berth_slabs_take_from(slabs, slabs->classes[size_class].head, movable, out_handle);
}

uint64_t berth_slabs_take_from(berth_slabs* slabs,
                               berth_slab_id id,
                               berth_movable* movable,
                               uint64_t* out_handle) {
    BERTH_CHECK(2, id != 0);
    berth_slab* slab = berth_slabs_at(slabs, id);
    const berth_slab_class* geometry = &slabs->classes[slab->size_class];
    uint32_t word = 0;
    while (slab->free_slots[word] == 0)
        word++;
    const uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(slab->free_slots[word]);
    slab->free_slots[word] &= slab->free_slots[word] - 1;
    if (slab->free_count == geometry->slot_count) slabs->empty_count--;
    if (--slab->free_count == 0) list_remove(slabs, id);
    slab->movables[slot] = movable;
    slabs->used_bytes += geometry->slot_bytes;
    *out_handle = (uint64_t)id * BERTH_SLAB_SLOTS + slot;
    return slab->start + slot * geometry->slot_bytes;
}

berth_slab_id berth_slabs_give(berth_slabs* slabs, uint64_t handle) {
    const berth_slab_id id = (berth_slab_id)(handle / BERTH_SLAB_SLOTS);
    const uint32_t slot = (uint32_t)(handle % BERTH_SLAB_SLOTS);
    berth_slab* slab = berth_slabs_at(slabs, id);
    const berth_slab_class* geometry = &slabs->classes[slab->size_class];
    const uint64_t bit = UINT64_C(1) << (slot % 64);
    BERTH_CHECK(1, slab->extent != 0 && slot < geometry->slot_count);
    BERTH_CHECK(1, (slab->free_slots[slot / 64] & bit) == 0); // given twice
    slab->free_slots[slot / 64] |= bit;
    if (slab->free_count++ == 0) list_insert(slabs, id);
    if (slab->free_count == geometry->slot_count) slabs->empty_count++;
    slab->movables[slot] = NULL;
    slabs->used_bytes -= geometry->slot_bytes;
    return id;
}

uint64_t berth_slabs_query_slot_bytes(const berth_slabs* slabs, uint64_t handle) {
    const berth_slab* slab = berth_slabs_of(slabs, handle);
    return slabs->classes[slab->size_class].slot_bytes;
}

berth_slab_id berth_slabs_find_empty(const berth_slabs* slabs, uint32_t size_class) {
    berth_slab_id id = slabs->classes[size_class].head;
    while (id != 0 && !berth_slabs_is_empty(slabs, id))
        id = berth_slabs_at(slabs, id)->after;
    return id;
}

static uint32_t count_free_slots(const berth_slab* slab) {
    uint32_t count = 0;
    for (size_t i = 0; i < BERTH_SLAB_SLOTS / 64; i++)
        count += (uint32_t)__builtin_popcountll(slab->free_slots[i]);
    return count;
}

/// Counts the members of all class lists; false if one should not be there.
static bool are_lists_valid(const berth_slabs* slabs, uint64_t* out_count) {
    *out_count = 0;
    for (uint32_t i = 0; i < BERTH_SLAB_CLASSES; i++) {
        for (berth_slab_id id = slabs->classes[i].head; id != 0; (*out_count)++) {
            const berth_slab* slab = berth_slabs_at(slabs, id);
            if (slab->size_class != i || slab->extent == 0 || slab->free_count == 0) return false;
            id = slab->after;
        }
    }
    return true;
}

bool berth_slabs_are_valid(const berth_slabs* slabs) {
    uint64_t listed = 0, with_free = 0, empty = 0, used_bytes = 0, slab_bytes = 0;
    for (size_t i = 1; i < slabs->records.count; i++) {
        const berth_slab* slab = &slabs->records.items[i];
        if (slab->extent == 0) continue;
        const berth_slab_class* geometry = &slabs->classes[slab->size_class];
        if (count_free_slots(slab) != slab->free_count) return false;
        if (slab->free_count > 0) with_free++;
        if (slab->free_count == geometry->slot_count) empty++;
        used_bytes += (geometry->slot_count - slab->free_count) * geometry->slot_bytes;
        slab_bytes += geometry->slab_bytes;
    }
    return are_lists_valid(slabs, &listed) && listed == with_free && empty == slabs->empty_count &&
           used_bytes == slabs->used_bytes && slab_bytes == slabs->slab_bytes;
}
