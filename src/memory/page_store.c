// SPDX-License-Identifier: Apache-2.0
// The page store: books over the granules of one device. The lock covers the books alone; device
// calls run outside of it. Bytes are booked before they are mapped and after they
// are unmapped, so that M1 holds at every moment.
#include "memory/page_store.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "memory/page_store_internal.h"

#include <inttypes.h>

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
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++)
        store->stats.quota_by_owner[owner] = BERTH_QUOTA_NONE;
    store->lock = &store->mutex;
    berth_status status = berth_mutex_init(&store->mutex);
    if (status != BERTH_OK) goto fail_lock;
    status = berth_cond_init(&store->eased);
    if (status != BERTH_OK) goto fail_eased;
    *out_store = store;
    return BERTH_OK;
fail_eased:
    berth_mutex_fini(&store->mutex);
fail_lock:
    berth_host_free(host, store);
    return status;
}

void berth_store_destroy(berth_store* store) {
    if (store == NULL) return;
    BERTH_CHECK(2, store->reclaimers == NULL && store->climbers == NULL);
    BERTH_CHECK(2, store->stats.reserved_bytes == 0 && store->tenant_count == 0);
    berth_page_ahead_fini(&store->ahead);
    berth_cond_fini(&store->eased);
    berth_mutex_fini(&store->mutex);
    berth_host_free(store->host, store);
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

berth_status berth_store_reserve(berth_account account,
                                 uint64_t bytes,
                                 berth_reservation* reservation) {
    berth_store* store = account.store;
    uint64_t need = 0;
    if (!berth_try_round_up(bytes, store->device->granule_bytes, &need))
        return berth_fail(BERTH_ERR_OVERFLOW, "%" PRIu64 " bytes cannot be reserved", bytes);
    if (need == 0) return BERTH_OK;
    BERTH_CHECK(1, reservation->bytes == 0 || reservation->tenant == account.tenant);
    const berth_ask ask = {
        .account = account, .bytes = need, .new_bytes = need, .owner_bytes = need};
    berth_mutex_lock(store->lock);
    BERTH_TRY(berth_store_find(store, &ask));
    store->stats.reserved_bytes += need;
    store->stats.reserved_by_owner[account.owner] += need;
    berth_tenant_change(store, account.tenant, 0, 0, need, 0);
    reservation->bytes += need;
    reservation->by_owner[account.owner] += need;
    reservation->tenant = account.tenant;
    berth_store_note_use(store, account.tenant);
    berth_mutex_unlock(store->lock);
    return BERTH_OK;
}

void berth_store_unreserve(berth_store* store, berth_reservation* reservation) {
    if (reservation == NULL || reservation->bytes == 0) return;
    berth_mutex_lock(store->lock);
    BERTH_CHECK(2, store->stats.reserved_bytes >= reservation->bytes);
    store->stats.reserved_bytes -= reservation->bytes;
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++)
        store->stats.reserved_by_owner[owner] -= reservation->by_owner[owner];
    berth_tenant_change(store, reservation->tenant, 0, 0, 0, reservation->bytes);
    berth_store_note_use(store, reservation->tenant);
    *reservation = (berth_reservation){0};
    berth_store_note_ease(store);
    berth_mutex_unlock(store->lock);
}

/// Bytes of one map and where they come from.
typedef struct map_books {
    berth_account account;
    berth_reservation* reservation;
    uint64_t size;
    uint64_t drawn; ///< out of the reservation
    uint64_t drawn_by_owner[BERTH_OWNER_COUNT];
    uint64_t ahead; ///< of those that are mapped ahead; the rest is new
} map_books;

/// Decides what is drawn on the reservation: the owner's own part first, which its quota counts
/// already.
static void draw(map_books* books) {
    const berth_reservation* reservation = books->reservation;
    if (reservation == NULL || reservation->bytes == 0) return;
    BERTH_CHECK(1, reservation->tenant == books->account.tenant);
    const int own = (int)books->account.owner;
    for (int i = -1; i < BERTH_OWNER_COUNT && books->drawn < books->size; i++) {
        const int owner = i < 0 ? own : i;
        if (i == own) continue;
        uint64_t part = books->size - books->drawn;
        if (part > reservation->by_owner[owner]) part = reservation->by_owner[owner];
        books->drawn_by_owner[owner] = part;
        books->drawn += part;
    }
}

/// Takes `parts` off a promise and the books of promises, or puts them back. Locked.
static void change_promise(berth_store* store,
                           berth_reservation* reservation,
                           const uint64_t* parts,
                           bool is_put_back) {
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++) {
        const uint64_t change = is_put_back ? parts[owner] : 0 - parts[owner];
        if (change == 0) continue;
        reservation->bytes += change;
        reservation->by_owner[owner] += change;
        store->stats.reserved_bytes += change;
        store->stats.reserved_by_owner[owner] += change;
    }
}

/// Books a map. Locked.
static void book(berth_store* store, map_books* books) {
    berth_store_stats* stats = &store->stats;
    const uint64_t there = stats->mapped_by_owner[BERTH_OWNER_AHEAD];
    books->ahead = there < books->size ? there : books->size;
    change_promise(store, books->reservation, books->drawn_by_owner, false);
    stats->mapped_bytes += books->size - books->ahead;
    stats->mapped_by_owner[BERTH_OWNER_AHEAD] -= books->ahead;
    stats->mapped_by_owner[books->account.owner] += books->size;
    berth_tenant_change(store, books->account.tenant, books->size, 0, 0, books->drawn);
}

/// Takes `size` bytes off the account, `kept` of them to those mapped ahead, and promises
/// `returned` [BERTH_OWNER_COUNT] (NULL: nothing). Locked.
static void unbook(berth_account account,
                   berth_reservation* reservation,
                   uint64_t size,
                   uint64_t kept,
                   const uint64_t* returned) {
    berth_store* store = account.store;
    berth_store_stats* stats = &store->stats;
    BERTH_CHECK(2, stats->mapped_by_owner[account.owner] >= size);
    stats->mapped_by_owner[account.owner] -= size;
    stats->mapped_by_owner[BERTH_OWNER_AHEAD] += kept;
    stats->mapped_bytes -= size - kept;
    const uint64_t before = stats->reserved_bytes;
    if (returned != NULL) change_promise(store, reservation, returned, true);
    berth_tenant_change(store, account.tenant, 0, size, stats->reserved_bytes - before, 0);
}

/// Maps new granules. The system may be short although the capacity is not: then the ladder is
/// climbed for as much, and the call is made once more if that gave anything.
static berth_status map_new(berth_account account,
                            berth_space* space,
                            uint64_t offset,
                            uint64_t size) {
    const berth_status status = berth_space_map(space, offset, size);
    if (status != BERTH_ERR_OUT_OF_MEMORY) return status;
    const berth_ask ask = {.account = account, .bytes = size, .system_bytes = size};
    berth_climb climb = {0};
    berth_mutex_lock(account.store->lock);
    berth_store_climb(account.store, &ask, &climb);
    berth_mutex_unlock(account.store->lock);
    if (climb.given_bytes == 0) return status;
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
static berth_status map_booked(const map_books* books,
                               berth_space* space,
                               uint64_t offset,
                               uint64_t* out_kept) {
    berth_store* store = books->account.store;
    *out_kept = books->ahead;
    BERTH_TRY(berth_page_ahead_draw(&store->ahead, books->ahead, space, offset));
    const berth_status status =
        map_new(books->account, space, offset + books->ahead, books->size - books->ahead);
    if (status != BERTH_OK) *out_kept = put_ahead(store, space, offset, books->ahead);
    return status;
}

berth_status berth_store_map(berth_account account,
                             berth_reservation* reservation,
                             berth_space* space,
                             uint64_t offset,
                             uint64_t size) {
    berth_store* store = account.store;
    BERTH_CHECK(1, size % store->device->granule_bytes == 0);
    if (size == 0) return BERTH_OK;
    map_books books = {.account = account, .reservation = reservation, .size = size};
    draw(&books);
    const berth_ask ask = {.account = account,
                           .bytes = size,
                           .new_bytes = size - books.drawn,
                           .owner_bytes = size - books.drawn_by_owner[account.owner]};
    berth_mutex_lock(store->lock);
    BERTH_TRY(berth_store_find(store, &ask));
    book(store, &books);
    berth_mutex_unlock(store->lock);

    uint64_t kept;
    const berth_status status = map_booked(&books, space, offset, &kept);

    berth_mutex_lock(store->lock);
    if (status != BERTH_OK) {
        unbook(account, reservation, size, kept, books.drawn_by_owner);
        store->stats.failures++;
        if (status == BERTH_ERR_OUT_OF_MEMORY)
            berth_tenant_note_refusal(account, size, false, &(berth_lack){.system = size});
    } else if (store->stats.mapped_bytes > store->stats.peak_mapped_bytes) {
        store->stats.peak_mapped_bytes = store->stats.mapped_bytes;
    }
    berth_store_note_use(store, account.tenant);
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

/// What goes back into `reservation` of `size` bytes that are unmapped, until it holds what `limit`
/// does.
static void find_returned(const berth_reservation* reservation,
                          const berth_reservation* limit,
                          uint64_t size,
                          uint64_t* out_parts) {
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++) {
        uint64_t part = limit->by_owner[owner] - reservation->by_owner[owner];
        if (part > size) part = size;
        out_parts[owner] = part;
        size -= part;
    }
}

berth_status berth_store_unmap_into(berth_account account,
                                    berth_reservation* reservation,
                                    const berth_reservation* limit,
                                    berth_space* space,
                                    uint64_t offset,
                                    uint64_t size) {
    berth_store* store = account.store;
    BERTH_CHECK(1, size % store->device->granule_bytes == 0);
    if (size == 0) return BERTH_OK;
    const uint64_t kept = keep_ahead(store, size);
    const uint64_t leaving = size - kept;
    const berth_status status = berth_space_unmap(space, offset, leaving);
    const uint64_t ahead = status == BERTH_OK ? put_ahead(store, space, offset + leaving, kept) : 0;
    uint64_t returned[BERTH_OWNER_COUNT];
    if (reservation != NULL) find_returned(reservation, limit, size, returned);
    berth_mutex_lock(store->lock);
    store->leaving_bytes -= leaving;
    if (status == BERTH_OK)
        unbook(account, reservation, size, ahead, reservation != NULL ? returned : NULL);
    berth_store_note_ease(store);
    berth_store_note_use(store, account.tenant);
    berth_mutex_unlock(store->lock);
    if (status != BERTH_OK)
        berth_log_once(BERTH_LOG_WARN,
                       "memory could not be given back to the system and stays in use: %s",
                       berth_last_error());
    return status;
}

berth_status berth_store_unmap(berth_account account,
                               berth_space* space,
                               uint64_t offset,
                               uint64_t size) {
    return berth_store_unmap_into(account, NULL, NULL, space, offset, size);
}

void berth_store_begin_transit(berth_store* store, berth_transit* transit) {
    berth_mutex_lock(store->lock);
    transit->number = ++store->transit_count;
    transit->next = store->transits;
    store->transits = transit;
    berth_mutex_unlock(store->lock);
}

void berth_store_end_transit(berth_store* store, berth_transit* transit) {
    berth_mutex_lock(store->lock);
    berth_transit** link = &store->transits;
    while (*link != transit)
        link = &(*link)->next;
    *link = transit->next;
    berth_store_note_ease(store);
    berth_mutex_unlock(store->lock);
}

void berth_store_query_stats(const berth_store* store, berth_store_stats* out_stats) {
    berth_mutex_lock(store->lock);
    *out_stats = store->stats;
    out_stats->rises = store->marks.rises;
    berth_mutex_unlock(store->lock);
}
