// SPDX-License-Identifier: Apache-2.0
// The page store: books over the granules of one device. The lock covers the books alone; device
// calls and reclaimers run outside of it. Bytes are booked before they are mapped and after they
// are unmapped, so that M1 holds at every moment.
#include "memory/page_store.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "memory/page_ahead.h"
#include "memory/page_store_internal.h"

#include <inttypes.h>
#include <stdio.h>

/// A thread that climbs the ladder; lives on its stack.
typedef struct climber {
    struct climber* next;
    const berth_reclaimer* at; ///< the rung whose reclaim is running
} climber;

struct berth_store {
    berth_mutex* lock; ///< &mutex; a pointer so that queries can take it through a const store
    berth_mutex mutex;
    berth_cond rung_left; ///< a reclaim call has returned
    const berth_host* host;
    berth_device* device;
    berth_reclaimer* reclaimers; ///< ascending id
    uint64_t next_id;
    climber* climbers;
    berth_store_stats stats;
    uint64_t floor_bytes;   ///< so much stays mapped in all
    uint64_t leaving_bytes; ///< on their way to the system
    berth_page_ahead ahead; ///< its own lock; what the books count as AHEAD is there
};

/// What a climb brought, for the report.
typedef struct climb_result {
    uint64_t given_bytes;
    uint64_t rungs;
} climb_result;

#define OWNER_NAME(id, name) name,
static const char* const owner_names[BERTH_OWNER_COUNT] = {BERTH_OWNER_MAP(OWNER_NAME)};
#undef OWNER_NAME

static uint64_t free_bytes_of(const berth_store_stats* stats) {
    return stats->capacity_bytes - stats->mapped_bytes - stats->reserved_bytes +
           stats->mapped_by_owner[BERTH_OWNER_AHEAD];
}

static uint64_t free_bytes(const berth_store* store) { return free_bytes_of(&store->stats); }

static berth_reclaimer* first_after(const berth_store* store, uint64_t id) {
    berth_reclaimer* rung = store->reclaimers;
    while (rung != NULL && rung->id <= id)
        rung = rung->next;
    return rung;
}

/// Calls one reclaimer without the lock. Locked before and after.
static uint64_t call_rung(berth_store* store, berth_reclaimer* rung, uint64_t wanted) {
    climber self = {.next = store->climbers, .at = rung};
    store->climbers = &self;
    berth_mutex_unlock(store->lock);
    const uint64_t given = rung->reclaim(rung->self, wanted);
    berth_mutex_lock(store->lock);
    climber** link = &store->climbers;
    while (*link != &self)
        link = &(*link)->next;
    *link = self.next;
    berth_cond_broadcast(&store->rung_left);
    return given;
}

/// Climbs until `need` bytes are free. Locked before and after. Each reclaimer is asked once, by
/// ascending id: reclaimers may come and go meanwhile.
static climb_result climb(berth_store* store, uint64_t need) {
    climb_result result = {0, 0};
    store->stats.reclaims++;
    uint64_t id = 0;
    while (free_bytes(store) < need) {
        berth_reclaimer* rung = first_after(store, id);
        if (rung == NULL) break;
        id = rung->id;
        result.given_bytes += call_rung(store, rung, need - free_bytes(store));
        result.rungs++;
    }
    return result;
}

static int append_size(char* text, size_t room, const char* before, uint64_t bytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024.0;
        unit++;
    }
    return snprintf(text, room, unit == 0 ? "%s%.0f %s" : "%s%.2f %s", before, value, units[unit]);
}

/// Writes ": frames 2.00 MiB, pool 4.00 MiB" for the owners that hold something.
static void format_owners(const berth_store_stats* stats, char* text, size_t room) {
    size_t at = 0;
    text[0] = '\0';
    for (int owner = 0; owner < BERTH_OWNER_COUNT && at < room; owner++) {
        if (stats->mapped_by_owner[owner] == 0) continue;
        char before[32];
        snprintf(before, sizeof before, "%s%s ", at == 0 ? ": " : ", ", owner_names[owner]);
        const int written =
            append_size(text + at, room - at, before, stats->mapped_by_owner[owner]);
        if (written < 0) break;
        at += (size_t)written;
    }
}

/// Sets the error text of a refusal; called without the lock on a copy of the statistics.
static berth_status report_shortage(const berth_store_stats* stats,
                                    uint64_t need,
                                    const climb_result* climbed) {
    char needed[32], capacity[32], mapped[32], promised[32], unused[32], given[32], owners[192];
    append_size(needed, sizeof needed, "", need);
    append_size(capacity, sizeof capacity, "", stats->capacity_bytes);
    append_size(mapped, sizeof mapped, "", stats->mapped_bytes);
    append_size(promised, sizeof promised, "", stats->reserved_bytes);
    append_size(unused, sizeof unused, "", free_bytes_of(stats));
    append_size(given, sizeof given, "", climbed->given_bytes);
    format_owners(stats, owners, sizeof owners);
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "%s needed (%" PRIu64 " bytes), capacity %s (BERTH_MEMORY), mapped %s%s, "
                      "promised %s, unused %s; reclaiming from %" PRIu64 " places gave back %s",
                      needed,
                      need,
                      capacity,
                      mapped,
                      owners,
                      promised,
                      unused,
                      climbed->rungs,
                      given);
}

/// Makes sure that `need` bytes are free, climbing if they are not. Locked before; locked after on
/// BERTH_OK, unlocked on failure.
static berth_status find_free(berth_store* store, uint64_t need) {
    if (free_bytes(store) >= need) return BERTH_OK;
    climb_result climbed = {0, 0};
    if (need <= store->stats.capacity_bytes) climbed = climb(store, need);
    if (free_bytes(store) >= need) return BERTH_OK;
    store->stats.failures++;
    const berth_store_stats seen = store->stats;
    berth_mutex_unlock(store->lock);
    return report_shortage(&seen, need, &climbed);
}

berth_status berth_store_create(const berth_host* host,
                                berth_device* device,
                                uint64_t capacity_bytes,
                                berth_store** out_store) {
    *out_store = NULL;
    uint64_t total = 0, available = 0;
    BERTH_TRY(berth_device_query_memory(device, &total, &available));
    const uint64_t wanted = capacity_bytes < total ? capacity_bytes : total;
    const uint64_t capacity = berth_round_down(wanted, device->granule_bytes);
    if (capacity == 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "the device gives memory in granules of %" PRIu64
                          " bytes: BERTH_MEMORY must allow one, not %" PRIu64 " bytes",
                          device->granule_bytes,
                          wanted);

    berth_store* store = berth_host_calloc(host, 1, sizeof *store);
    if (store == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a page store");
    store->host = host;
    store->device = device;
    store->stats.capacity_bytes = capacity;
    store->lock = &store->mutex;
    berth_status status = berth_mutex_init(&store->mutex);
    if (status != BERTH_OK) goto fail_lock;
    status = berth_cond_init(&store->rung_left);
    if (status != BERTH_OK) goto fail_cond;
    *out_store = store;
    return BERTH_OK;
fail_cond:
    berth_mutex_fini(&store->mutex);
fail_lock:
    berth_host_free(host, store);
    return status;
}

void berth_store_destroy(berth_store* store) {
    if (store == NULL) return;
    BERTH_CHECK(2, store->reclaimers == NULL && store->climbers == NULL);
    BERTH_CHECK(2, store->stats.reserved_bytes == 0);
    berth_page_ahead_fini(&store->ahead);
    berth_cond_fini(&store->rung_left);
    berth_mutex_fini(&store->mutex);
    berth_host_free(store->host, store);
}

berth_status berth_store_refuse(berth_store* store, uint64_t bytes) {
    const climb_result climbed = {0, 0};
    berth_mutex_lock(store->lock);
    store->stats.failures++;
    const berth_store_stats seen = store->stats;
    berth_mutex_unlock(store->lock);
    return report_shortage(&seen, bytes, &climbed);
}

berth_status berth_store_reserve_space(const berth_store* store,
                                       uint64_t need,
                                       berth_space** out_space) {
    uint64_t size = 0;
    if (!berth_mul_u64(store->stats.capacity_bytes, 2, &size) || size < need) size = need;
    for (;;) {
        const berth_status status = berth_space_reserve(store->device, size, out_space);
        if (status == BERTH_OK || size == need) return status;
        size = berth_round_down(size / 2, store->device->granule_bytes);
        if (size < need) size = need;
    }
}

berth_device* berth_store_device(const berth_store* store) { return store->device; }

berth_status berth_store_reserve(berth_store* store,
                                 uint64_t bytes,
                                 berth_reservation* reservation) {
    uint64_t need = 0;
    if (!berth_try_round_up(bytes, store->device->granule_bytes, &need))
        return berth_fail(BERTH_ERR_OVERFLOW, "%" PRIu64 " bytes cannot be reserved", bytes);
    if (need == 0) return BERTH_OK;
    berth_mutex_lock(store->lock);
    BERTH_TRY(find_free(store, need));
    store->stats.reserved_bytes += need;
    reservation->bytes += need;
    berth_mutex_unlock(store->lock);
    return BERTH_OK;
}

void berth_store_unreserve(berth_store* store, berth_reservation* reservation) {
    if (reservation == NULL || reservation->bytes == 0) return;
    berth_mutex_lock(store->lock);
    BERTH_CHECK(2, store->stats.reserved_bytes >= reservation->bytes);
    store->stats.reserved_bytes -= reservation->bytes;
    reservation->bytes = 0;
    berth_mutex_unlock(store->lock);
}

/// Bytes of one map and where they come from.
typedef struct map_books {
    berth_owner owner;
    berth_reservation* reservation;
    uint64_t size;
    uint64_t drawn; ///< out of the reservation
    uint64_t ahead; ///< of those that are mapped ahead; the rest is new
} map_books;

/// Books a map. Locked.
static void book(berth_store* store, map_books* books) {
    berth_store_stats* stats = &store->stats;
    const uint64_t there = stats->mapped_by_owner[BERTH_OWNER_AHEAD];
    books->ahead = there < books->size ? there : books->size;
    if (books->drawn > 0) books->reservation->bytes -= books->drawn;
    stats->reserved_bytes -= books->drawn;
    stats->mapped_bytes += books->size - books->ahead;
    stats->mapped_by_owner[BERTH_OWNER_AHEAD] -= books->ahead;
    stats->mapped_by_owner[books->owner] += books->size;
}

/// Takes `size` bytes off `owner`, `kept` of them to those mapped ahead, and promises `returned`.
/// Locked.
static void unbook(berth_store* store,
                   berth_owner owner,
                   berth_reservation* reservation,
                   uint64_t size,
                   uint64_t kept,
                   uint64_t returned) {
    berth_store_stats* stats = &store->stats;
    BERTH_CHECK(2, stats->mapped_by_owner[owner] >= size);
    stats->mapped_by_owner[owner] -= size;
    stats->mapped_by_owner[BERTH_OWNER_AHEAD] += kept;
    stats->mapped_bytes -= size - kept;
    stats->reserved_bytes += returned;
    if (returned > 0) reservation->bytes += returned;
}

/// Maps new granules. The system may be short although the capacity is not: then reclaimers are
/// asked for as much, and the call is made once more if they gave anything.
static berth_status map_new(berth_store* store,
                            berth_space* space,
                            uint64_t offset,
                            uint64_t size) {
    berth_status status = berth_space_map(space, offset, size);
    if (status != BERTH_ERR_OUT_OF_MEMORY) return status;
    berth_mutex_lock(store->lock);
    uint64_t need = 0;
    if (!berth_add_u64(free_bytes(store), size, &need)) need = UINT64_MAX;
    const climb_result climbed = climb(store, need);
    berth_mutex_unlock(store->lock);
    if (climbed.given_bytes == 0) return status;
    return berth_space_map(space, offset, size);
}

/// Moves a stretch to those mapped ahead; if that fails, it goes to the system. Returns the bytes
/// that are ahead then.
static uint64_t put_ahead(berth_store* store, berth_space* space, uint64_t offset, uint64_t size) {
    if (berth_page_ahead_add(&store->ahead, space, offset, size) == BERTH_OK) return size;
    if (berth_space_unmap(space, offset, size) != BERTH_OK)
        berth_log_line(BERTH_LOG_ERROR,
                       "%" PRIu64 " bytes could not be given back and are lost: %s",
                       size,
                       berth_last_error());
    return 0;
}

/// Maps booked granules: those from ahead first, new ones behind them. `*out_kept` are the bytes
/// from ahead that are there again after a failure.
static berth_status map_booked(berth_store* store,
                               const map_books* books,
                               berth_space* space,
                               uint64_t offset,
                               uint64_t* out_kept) {
    *out_kept = books->ahead;
    BERTH_TRY(berth_page_ahead_draw(&store->ahead, books->ahead, space, offset));
    const berth_status status =
        map_new(store, space, offset + books->ahead, books->size - books->ahead);
    if (status != BERTH_OK) *out_kept = put_ahead(store, space, offset, books->ahead);
    return status;
}

berth_status berth_store_map(berth_store* store,
                             berth_owner owner,
                             berth_reservation* reservation,
                             berth_space* space,
                             uint64_t offset,
                             uint64_t size) {
    BERTH_CHECK(1, size % store->device->granule_bytes == 0);
    if (size == 0) return BERTH_OK;
    const uint64_t promised = reservation == NULL ? 0 : reservation->bytes;
    map_books books = {.owner = owner,
                       .reservation = reservation,
                       .size = size,
                       .drawn = promised < size ? promised : size};
    berth_mutex_lock(store->lock);
    BERTH_TRY(find_free(store, size - books.drawn));
    book(store, &books);
    berth_mutex_unlock(store->lock);

    uint64_t kept;
    const berth_status status = map_booked(store, &books, space, offset, &kept);

    berth_mutex_lock(store->lock);
    if (status != BERTH_OK) {
        unbook(store, owner, reservation, size, kept, books.drawn);
        store->stats.failures++;
    } else if (store->stats.mapped_bytes > store->stats.peak_mapped_bytes) {
        store->stats.peak_mapped_bytes = store->stats.mapped_bytes;
    }
    berth_mutex_unlock(store->lock);
    return status;
}

berth_status berth_store_map_ahead(berth_store* store, uint64_t bytes) {
    const uint64_t capacity = store->stats.capacity_bytes;
    uint64_t size = 0;
    if (bytes == 0) return BERTH_OK;
    if (!berth_try_round_up(bytes, store->device->granule_bytes, &size) || size > capacity)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%" PRIu64 " bytes cannot be mapped ahead, the capacity (BERTH_MEMORY) "
                          "is %" PRIu64,
                          bytes,
                          capacity);
    BERTH_TRY(berth_page_ahead_init(&store->ahead, store->device, size));
    store->floor_bytes = size;
    store->stats.mapped_bytes = size;
    store->stats.peak_mapped_bytes = size;
    store->stats.mapped_by_owner[BERTH_OWNER_AHEAD] = size;
    return BERTH_OK;
}

/// How many of `size` bytes that are given back stay mapped, for later maps; the rest is leaving
/// from now on.
static uint64_t keep_ahead(berth_store* store, uint64_t size) {
    berth_mutex_lock(store->lock);
    const uint64_t staying = store->stats.mapped_bytes - store->leaving_bytes;
    BERTH_CHECK(2, staying >= size);
    const uint64_t rest = staying - size;
    uint64_t kept = store->floor_bytes > rest ? store->floor_bytes - rest : 0;
    if (kept > size) kept = size;
    store->leaving_bytes += size - kept;
    berth_mutex_unlock(store->lock);
    return kept;
}

berth_status berth_store_unmap_into(berth_store* store,
                                    berth_owner owner,
                                    berth_reservation* reservation,
                                    uint64_t limit_bytes,
                                    berth_space* space,
                                    uint64_t offset,
                                    uint64_t size) {
    BERTH_CHECK(1, size % store->device->granule_bytes == 0);
    if (size == 0) return BERTH_OK;
    const uint64_t kept = keep_ahead(store, size);
    const uint64_t leaving = size - kept;
    const berth_status status = berth_space_unmap(space, offset, leaving);
    const uint64_t ahead = status == BERTH_OK ? put_ahead(store, space, offset + leaving, kept) : 0;
    uint64_t returned = 0;
    if (reservation != NULL && reservation->bytes < limit_bytes) {
        returned = limit_bytes - reservation->bytes;
        if (returned > size) returned = size;
    }
    berth_mutex_lock(store->lock);
    store->leaving_bytes -= leaving;
    if (status == BERTH_OK) unbook(store, owner, reservation, size, ahead, returned);
    berth_mutex_unlock(store->lock);
    if (status != BERTH_OK)
        berth_log_once(BERTH_LOG_WARN,
                       "memory could not be given back to the system and stays in use: %s",
                       berth_last_error());
    return status;
}

berth_status berth_store_unmap(
    berth_store* store, berth_owner owner, berth_space* space, uint64_t offset, uint64_t size) {
    return berth_store_unmap_into(store, owner, NULL, 0, space, offset, size);
}

void berth_store_add_reclaimer(berth_store* store, berth_reclaimer* reclaimer) {
    berth_mutex_lock(store->lock);
    berth_reclaimer** link = &store->reclaimers;
    while (*link != NULL)
        link = &(*link)->next;
    reclaimer->next = NULL;
    reclaimer->id = ++store->next_id;
    *link = reclaimer;
    berth_mutex_unlock(store->lock);
}

static bool is_being_called(const berth_store* store, const berth_reclaimer* reclaimer) {
    for (const climber* at = store->climbers; at != NULL; at = at->next) {
        if (at->at == reclaimer) return true;
    }
    return false;
}

void berth_store_remove_reclaimer(berth_store* store, berth_reclaimer* reclaimer) {
    berth_mutex_lock(store->lock);
    berth_reclaimer** link = &store->reclaimers;
    while (*link != NULL && *link != reclaimer)
        link = &(*link)->next;
    if (*link != NULL) *link = reclaimer->next;
    while (is_being_called(store, reclaimer))
        berth_cond_wait(&store->rung_left, store->lock);
    berth_mutex_unlock(store->lock);
}

void berth_store_query_stats(const berth_store* store, berth_store_stats* out_stats) {
    berth_mutex_lock(store->lock);
    *out_stats = store->stats;
    berth_mutex_unlock(store->lock);
}
