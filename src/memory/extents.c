// SPDX-License-Identifier: Apache-2.0
// Extents and their bins: two levels of bits find a bin, a short walk in it the best fit.
// Source: two-level segregated bins, Masmano et al., TLSF, ECRTS 2004; with best fit inside a bin.
#include "memory/extents.h"

#include "base/checked.h"
#include "base/error.h"
#include "device/device.h"

#include <string.h>

/// Extents looked at before a bin whose members all fit is taken instead.
#define SEARCH_STEPS 32u
#define NO_BIN UINT32_MAX
#define HIGHEST_BIN (BERTH_EXTENT_OCTAVES * BERTH_EXTENT_STEPS - 1)
/// By berth_placeable.
#define PLACEABLE_SIZES(granule_bytes)                                                             \
    { UINT64_C(64) << 10, UINT64_C(1) << 20, granule_bytes }

static uint32_t highest_bit(uint64_t x) { return 63u ^ (uint32_t)__builtin_clzll(x); }

/// The bin of extents of `size` bytes. Below 16 units every size has a bin of its own.
static uint32_t bin_of(uint64_t size) {
    const uint64_t units = size / BERTH_ALIGNMENT;
    if (units < BERTH_EXTENT_STEPS) return (uint32_t)units;
    const uint32_t octave = highest_bit(units) - 3;
    const uint32_t step = (uint32_t)(units >> (octave - 1)) & (BERTH_EXTENT_STEPS - 1);
    return octave * BERTH_EXTENT_STEPS + step;
}

/// The first bin at or above `bin` that is not empty, or NO_BIN.
static uint32_t bin_at_or_above(const berth_extent_bins* bins, uint32_t bin) {
    uint32_t octave = bin / BERTH_EXTENT_STEPS;
    if (octave >= BERTH_EXTENT_OCTAVES) return NO_BIN;
    uint32_t steps = bins->steps[octave] & (0xFFFFu << (bin % BERTH_EXTENT_STEPS));
    if (steps == 0) {
        const uint64_t octaves = bins->octaves & ~((UINT64_C(2) << octave) - 1);
        if (octaves == 0) return NO_BIN;
        octave = (uint32_t)__builtin_ctzll(octaves);
        steps = bins->steps[octave];
    }
    return octave * BERTH_EXTENT_STEPS + (uint32_t)__builtin_ctz(steps);
}

/// The first bin at or below `bin` that is not empty, or NO_BIN.
static uint32_t bin_at_or_below(const berth_extent_bins* bins, uint32_t bin) {
    uint32_t octave = bin / BERTH_EXTENT_STEPS;
    uint32_t steps = bins->steps[octave] & ((2u << (bin % BERTH_EXTENT_STEPS)) - 1);
    if (steps == 0) {
        const uint64_t octaves = bins->octaves & ((UINT64_C(1) << octave) - 1);
        if (octaves == 0) return NO_BIN;
        octave = highest_bit(octaves);
        steps = bins->steps[octave];
    }
    return octave * BERTH_EXTENT_STEPS + highest_bit(steps);
}

static bool is_in_bin(berth_extent_state state) {
    return state == BERTH_EXTENT_FREE || state == BERTH_EXTENT_HOLE;
}

static berth_extent_bins* bins_of(berth_extents* extents, const berth_extent* extent) {
    return extent->state == BERTH_EXTENT_FREE ? &extents->free[extent->lifetime] : &extents->holes;
}

static bool is_on_border(const berth_extents* extents, uint64_t address) {
    return (address & (extents->granule_bytes - 1)) == 0;
}

/// The lifetime of the neighbour `id` of an extent that ends or begins at `border`, as far as the
/// two share a granule. (At the ends of a region they share none.)
static berth_lifetime lifetime_beside(const berth_extents* extents,
                                      berth_extent_id id,
                                      uint64_t border) {
    if (is_on_border(extents, border)) return BERTH_LIFETIME_UNKNOWN;
    return (berth_lifetime)berth_extents_at(extents, id)->lifetime;
}

/// R4.
static berth_lifetime owner_of(const berth_extents* extents, const berth_extent* extent) {
    const uint64_t granule = extents->granule_bytes;
    const uint64_t end = extent->start + extent->size;
    if (berth_round_up(extent->start, granule) + granule <= end) return BERTH_LIFETIME_UNKNOWN;
    const berth_lifetime below = lifetime_beside(extents, extent->before, extent->start);
    const berth_lifetime above = lifetime_beside(extents, extent->after, end);
    return below > above ? below : above;
}

/// Adds a FREE extent to the figures over them, or takes it out of them (`sign` is 1 or -1).
static void count_free(berth_extents* extents, const berth_extent* extent, uint64_t sign) {
    if (extent->state != BERTH_EXTENT_FREE) return;
    const uint64_t sizes[BERTH_PLACEABLE_COUNT] = PLACEABLE_SIZES(extents->granule_bytes);
    const uint64_t end = extent->start + extent->size;
    const uint64_t border = berth_round_up(extent->start, extents->granule_bytes);
    const uint64_t aligned = border < end ? end - border : 0;
    extents->free_count += sign;
    for (uint32_t i = 0; i < BERTH_PLACEABLE_COUNT; i++) {
        const uint64_t bytes = sizes[i] < extents->granule_bytes ? extent->size : aligned;
        extents->placeable[i] += sign * berth_round_down(bytes, sizes[i]);
    }
}

/// Puts an extent into its bin, if there is one for its state.
static inline void bin_insert(berth_extents* extents, berth_extent* extent, berth_extent_id id) {
    if (!is_in_bin(extent->state)) return;
    extent->lifetime = (uint8_t)(extent->state == BERTH_EXTENT_FREE ? owner_of(extents, extent)
                                                                    : BERTH_LIFETIME_UNKNOWN);
    berth_extent_bins* bins = bins_of(extents, extent);
    count_free(extents, extent, 1);
    const uint32_t bin = bin_of(extent->size);
    extent->bin_before = 0;
    extent->bin_after = bins->heads[bin];
    if (extent->bin_after != 0) berth_extents_at(extents, extent->bin_after)->bin_before = id;
    bins->heads[bin] = id;
    bins->steps[bin / BERTH_EXTENT_STEPS] |= (uint16_t)(1u << (bin % BERTH_EXTENT_STEPS));
    bins->octaves |= UINT64_C(1) << (bin / BERTH_EXTENT_STEPS);
}

/// Takes an extent out of its bin, if it is in one.
static inline void bin_remove(berth_extents* extents, const berth_extent* extent) {
    if (!is_in_bin(extent->state)) return;
    berth_extent_bins* bins = bins_of(extents, extent);
    count_free(extents, extent, UINT64_MAX);
    if (extent->bin_after != 0)
        berth_extents_at(extents, extent->bin_after)->bin_before = extent->bin_before;
    if (extent->bin_before != 0) {
        berth_extents_at(extents, extent->bin_before)->bin_after = extent->bin_after;
        return;
    }
    const uint32_t bin = bin_of(extent->size);
    const uint32_t octave = bin / BERTH_EXTENT_STEPS;
    bins->heads[bin] = extent->bin_after;
    if (extent->bin_after != 0) return;
    bins->steps[octave] &= (uint16_t) ~(1u << (bin % BERTH_EXTENT_STEPS));
    if (bins->steps[octave] == 0) bins->octaves &= ~(UINT64_C(1) << octave);
}

void berth_extents_init(berth_extents* extents, const berth_host* host, uint64_t granule_bytes) {
    memset(extents, 0, sizeof *extents);
    extents->host = host;
    extents->granule_bytes = granule_bytes;
}

void berth_extents_fini(berth_extents* extents) {
    for (size_t i = 0; i < BERTH_EXTENT_CHUNKS; i++)
        berth_host_free(extents->host, extents->chunks[i]);
}

/// Adds a chunk of spare records.
static berth_status add_chunk(berth_extents* extents) {
    uint32_t chunk = 0;
    while (chunk < BERTH_EXTENT_CHUNKS && extents->chunks[chunk] != NULL)
        chunk++;
    if (chunk == BERTH_EXTENT_CHUNKS)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "a pool has too many blocks");
    const uint32_t count = UINT32_C(1) << (BERTH_EXTENT_CHUNK_BIT + chunk);
    berth_extent* records = berth_host_calloc(extents->host, count, sizeof *records);
    if (records == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a pool's blocks");
    extents->chunks[chunk] = records;
    const berth_extent_id first = extents->record_count;
    extents->record_count += count;
    for (berth_extent_id id = extents->record_count - 1; id > first; id--)
        berth_extents_return_spare(extents, id);
    if (first != 0) berth_extents_return_spare(extents, first);
    return BERTH_OK;
}

berth_status berth_extents_add_spare(berth_extents* extents, size_t count) {
    while (extents->spare_count < count)
        BERTH_TRY(add_chunk(extents));
    return BERTH_OK;
}

berth_extent_id berth_extents_hide_spare(berth_extents* extents) {
    const berth_extent_id id = extents->spare;
    BERTH_CHECK(1, id != 0);
    extents->spare = berth_extents_at(extents, id)->bin_after;
    extents->spare_count--;
    return id;
}

void berth_extents_return_spare(berth_extents* extents, berth_extent_id id) {
    *berth_extents_at(extents, id) =
        (berth_extent){.state = BERTH_EXTENT_SPARE, .bin_after = extents->spare};
    extents->spare = id;
    extents->spare_count++;
}

berth_extent_id berth_extents_add_region(berth_extents* extents,
                                         uint64_t start,
                                         uint64_t size,
                                         uint32_t region) {
    const berth_extent_id id = berth_extents_hide_spare(extents);
    berth_extent* extent = berth_extents_at(extents, id);
    *extent =
        (berth_extent){.start = start, .size = size, .region = region, .state = BERTH_EXTENT_HOLE};
    extents->bytes[BERTH_EXTENT_HOLE] += size;
    bin_insert(extents, extent, id);
    return id;
}

void berth_extents_remove_region(berth_extents* extents, berth_extent_id id) {
    const berth_extent* extent = berth_extents_at(extents, id);
    BERTH_CHECK(2, extent->state == BERTH_EXTENT_HOLE && extent->before + extent->after == 0);
    bin_remove(extents, extent);
    extents->bytes[BERTH_EXTENT_HOLE] -= extent->size;
    berth_extents_return_spare(extents, id);
}

/// Splits `id`, which is in no bin, at `at`; the upper part is a new extent in no bin, which is
/// returned.
static inline berth_extent_id split(berth_extents* extents, berth_extent_id id, uint64_t at) {
    const berth_extent_id upper_id = berth_extents_hide_spare(extents);
    berth_extent* lower = berth_extents_at(extents, id);
    berth_extent* upper = berth_extents_at(extents, upper_id);
    *upper = *lower;
    upper->start = at;
    upper->size = lower->start + lower->size - at;
    upper->before = id;
    lower->size = at - lower->start;
    lower->after = upper_id;
    if (upper->after != 0) berth_extents_at(extents, upper->after)->before = upper_id;
    return upper_id;
}

/// Puts the neighbour `id`, if it is FREE, where R4 wants it now.
static void sort_again(berth_extents* extents, berth_extent_id id) {
    if (id == 0) return;
    berth_extent* extent = berth_extents_at(extents, id);
    if (extent->state != BERTH_EXTENT_FREE || extent->lifetime == owner_of(extents, extent)) return;
    bin_remove(extents, extent);
    bin_insert(extents, extent, id);
}

berth_extent_id berth_extents_take_out(berth_extents* extents,
                                       berth_extent_id id,
                                       uint64_t start,
                                       uint64_t size,
                                       berth_extent_state state,
                                       berth_lifetime lifetime) {
    berth_extent* lower = berth_extents_at(extents, id);
    const uint64_t end = lower->start + lower->size;
    const berth_extent_state old_state = lower->state;
    BERTH_CHECK(2, start >= lower->start && start + size <= end && size > 0);
    BERTH_CHECK(2, !is_in_bin(state));
    bin_remove(extents, lower);
    berth_extent_id middle = id, above = 0;
    if (start > lower->start) middle = split(extents, id, start);
    if (start + size < end) above = split(extents, middle, start + size);
    berth_extent* taken = berth_extents_at(extents, middle);
    taken->state = state;
    taken->lifetime = (uint8_t)lifetime;
    // what remains belongs to its new neighbour, too
    if (middle != id) bin_insert(extents, lower, id);
    if (above != 0) bin_insert(extents, berth_extents_at(extents, above), above);
    // beside a HOLE or something FREE nothing can be FREE that shares a granule with it
    if (!is_in_bin(old_state)) {
        if (middle == id) sort_again(extents, taken->before);
        if (above == 0) sort_again(extents, taken->after);
    }
    extents->bytes[old_state] -= size;
    extents->bytes[state] += size;
    return middle;
}

/// Lets `id` swallow the one after it; both are in no bin.
static inline void swallow_after(berth_extents* extents, berth_extent_id id) {
    berth_extent* extent = berth_extents_at(extents, id);
    const berth_extent_id gone = extent->after;
    const berth_extent* other = berth_extents_at(extents, gone);
    extent->size += other->size;
    extent->after = other->after;
    if (extent->ticket == 0 || other->ticket == 0)
        extent->ticket = 0;
    else if (other->ticket > extent->ticket)
        extent->ticket = other->ticket;
    if (extent->visit < other->visit) extent->visit = other->visit;
    if (extent->after != 0) berth_extents_at(extents, extent->after)->before = id;
    berth_extents_return_spare(extents, gone);
}

berth_extent_id berth_extents_set(berth_extents* extents,
                                  berth_extent_id id,
                                  berth_extent_state state,
                                  uint64_t ticket) {
    berth_extent* extent = berth_extents_at(extents, id);
    bin_remove(extents, extent);
    extents->bytes[extent->state] -= extent->size;
    extents->bytes[state] += extent->size;
    extent->state = state;
    extent->ticket = ticket;
    extent->movable = NULL;
    extent->slab = 0;
    extent->site = 0;
    if (!is_in_bin(state)) return id;
    const berth_extent* after = berth_extents_at(extents, extent->after);
    if (after->state == state) {
        bin_remove(extents, after);
        swallow_after(extents, id);
    }
    berth_extent* before = berth_extents_at(extents, extent->before);
    if (before->state == state) {
        bin_remove(extents, before);
        id = extent->before;
        swallow_after(extents, id);
        extent = before;
    }
    bin_insert(extents, extent, id);
    return id;
}

void berth_extents_set_lifetime(berth_extents* extents,
                                berth_extent_id id,
                                berth_lifetime lifetime) {
    berth_extent* extent = berth_extents_at(extents, id);
    BERTH_CHECK(2, extent->state == BERTH_EXTENT_USED);
    extent->lifetime = (uint8_t)lifetime;
    sort_again(extents, extent->before);
    sort_again(extents, extent->after);
}

/// Makes `before` and `after` neighbours; either may be 0.
static void link_extents(berth_extents* extents, berth_extent_id before, berth_extent_id after) {
    if (before != 0) berth_extents_at(extents, before)->after = after;
    if (after != 0) berth_extents_at(extents, after)->before = before;
}

void berth_extents_swap_after(berth_extents* extents, berth_extent_id id) {
    berth_extent* gap = berth_extents_at(extents, id);
    const berth_extent_id block_id = gap->after;
    berth_extent* block = berth_extents_at(extents, block_id);
    BERTH_CHECK(2, gap->state == BERTH_EXTENT_BUSY);
    BERTH_CHECK(2, block_id != 0 && block->state == BERTH_EXTENT_USED);
    const berth_extent_id before = gap->before, after = block->after;
    link_extents(extents, before, block_id);
    link_extents(extents, id, after);
    link_extents(extents, block_id, id);
    block->start = gap->start;
    gap->start = block->start + block->size;
    // what lies beside it belongs to its new neighbours
    sort_again(extents, before);
    sort_again(extents, after);
}

/// Puts the neighbours `first` to `last`, none of which is in a bin or changes its place within its
/// granule, where `start` is; returns the bytes that they have.
static uint64_t put_run(berth_extents* extents,
                        berth_extent_id first,
                        berth_extent_id last,
                        uint64_t start,
                        uint32_t region) {
    const uint64_t begin = start;
    for (berth_extent_id id = first;; id = berth_extents_at(extents, id)->after) {
        berth_extent* extent = berth_extents_at(extents, id);
        extent->start = start;
        extent->region = region;
        start += extent->size;
        if (id == last) return start - begin;
    }
}

void berth_extents_exchange(berth_extents* extents,
                            berth_extent_id first,
                            berth_extent_id last,
                            berth_extent_id busy) {
    const berth_extent low = *berth_extents_at(extents, first);
    const berth_extent_id above = berth_extents_at(extents, last)->after;
    const berth_extent gap = *berth_extents_at(extents, busy);
    BERTH_CHECK(2, gap.state == BERTH_EXTENT_BUSY);
    if (gap.after == first) {
        link_extents(extents, gap.before, first);
        link_extents(extents, last, busy);
        link_extents(extents, busy, above);
    } else if (above == busy) {
        link_extents(extents, low.before, busy);
        link_extents(extents, busy, first);
        link_extents(extents, last, gap.after);
    } else {
        link_extents(extents, low.before, busy);
        link_extents(extents, busy, above);
        link_extents(extents, gap.before, first);
        link_extents(extents, last, gap.after);
    }
    const uint64_t size = put_run(extents, first, last, gap.start, gap.region);
    BERTH_CHECK(2, size == gap.size);
    (void)put_run(extents, busy, busy, low.start, low.region);
    // what lies beside them belongs to its new neighbours
    const berth_extent_id beside[] = {low.before, above, gap.before, gap.after};
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        sort_again(extents, beside[i]);
}

void berth_extents_join_after(berth_extents* extents, berth_extent_id id) {
    const berth_extent* extent = berth_extents_at(extents, id);
    BERTH_CHECK(2, extent->state == BERTH_EXTENT_BUSY && extent->after != 0);
    BERTH_CHECK(2, berth_extents_at(extents, extent->after)->state == BERTH_EXTENT_BUSY);
    swallow_after(extents, id);
}

/// True if `size` bytes fit into the extent at a multiple of `alignment`.
static bool fits(const berth_extent* extent,
                 uint64_t size,
                 uint64_t alignment,
                 uint64_t* out_start) {
    const uint64_t start = berth_round_up(extent->start, alignment);
    const uint64_t end = extent->start + extent->size;
    if (start > end || end - start < size) return false;
    *out_start = start;
    return true;
}

/// Best fit among the first members of `bin`, at most `*steps` of them.
static berth_extent_id search_bin(const berth_extents* extents,
                                  berth_extent_id head,
                                  uint64_t size,
                                  uint64_t alignment,
                                  uint32_t* steps,
                                  uint64_t* out_start) {
    berth_extent_id best = 0;
    uint64_t best_size = UINT64_MAX;
    for (berth_extent_id id = head; id != 0 && *steps > 0; (*steps)--) {
        const berth_extent* extent = berth_extents_at(extents, id);
        uint64_t start = 0;
        if (extent->size < best_size && fits(extent, size, alignment, &start)) {
            best = id;
            best_size = extent->size;
            *out_start = start;
            if (best_size == size) break;
        }
        id = extent->bin_after;
    }
    return best;
}

/// Best fit in the bins from `bin` up, looking at no more than `steps` extents in all.
static berth_extent_id search_up(const berth_extents* extents,
                                 const berth_extent_bins* bins,
                                 uint32_t bin,
                                 uint64_t size,
                                 uint64_t alignment,
                                 uint32_t steps,
                                 uint64_t* out_start) {
    bin = bin_at_or_above(bins, bin);
    while (bin != NO_BIN && steps > 0) {
        const berth_extent_id id =
            search_bin(extents, bins->heads[bin], size, alignment, &steps, out_start);
        if (id != 0) return id;
        bin = bin_at_or_above(bins, bin + 1);
    }
    return 0;
}

/// As find_in, where several may fit, or none.
static berth_extent_id search(const berth_extents* extents,
                              const berth_extent_bins* bins,
                              uint64_t size,
                              uint64_t alignment,
                              uint64_t* out_start) {
    const uint32_t low = bin_of(size);
    berth_extent_id id = search_up(extents, bins, low, size, alignment, SEARCH_STEPS, out_start);
    if (id != 0) return id;
    // All members of these bins are as large as the worst alignment needs.
    const uint32_t sure = bin_of(size + alignment - BERTH_ALIGNMENT) + 1;
    id = search_up(extents, bins, sure, size, alignment, SEARCH_STEPS, out_start);
    if (id != 0) return id;
    // What follows a failure costs more than looking at all of them.
    return search_up(extents, bins, low, size, alignment, UINT32_MAX, out_start);
}

/// As find_in, where there are any.
static berth_extent_id find_some(const berth_extents* extents,
                                 const berth_extent_bins* bins,
                                 uint64_t size,
                                 uint64_t alignment,
                                 uint64_t* out_start) {
    const uint32_t bin = bin_at_or_above(bins, bin_of(size));
    if (bin == NO_BIN) return 0;
    // mostly one extent is in the first of the bins, and fits
    const berth_extent_id id = bins->heads[bin];
    const berth_extent* extent = berth_extents_at(extents, id);
    if (extent->bin_after == 0 && fits(extent, size, alignment, out_start)) return id;
    return search(extents, bins, size, alignment, out_start);
}

/// Best fit among the extents of `bins`.
static inline berth_extent_id find_in(const berth_extents* extents,
                                      const berth_extent_bins* bins,
                                      uint64_t size,
                                      uint64_t alignment,
                                      uint64_t* out_start) {
    return bins->octaves == 0 ? 0 : find_some(extents, bins, size, alignment, out_start);
}

static uint64_t size_of(const berth_extents* extents, berth_extent_id id) {
    return berth_extents_at(extents, id)->size;
}

/// Best fit among the FREE extents of the lifetimes [first, end).
static berth_extent_id find_free(const berth_extents* extents,
                                 uint32_t first,
                                 uint32_t end,
                                 uint64_t size,
                                 uint64_t alignment,
                                 uint64_t* out_start) {
    berth_extent_id best = 0;
    for (uint32_t i = first; i < end; i++) {
        uint64_t start = 0;
        const berth_extent_id id = find_in(extents, &extents->free[i], size, alignment, &start);
        if (id == 0 || (best != 0 && size_of(extents, best) <= size_of(extents, id))) continue;
        best = id;
        *out_start = start;
    }
    return best;
}

berth_extent_id berth_extents_find(const berth_extents* extents,
                                   bool holes,
                                   uint64_t size,
                                   uint64_t alignment,
                                   uint64_t* out_start) {
    if (holes) return find_in(extents, &extents->holes, size, alignment, out_start);
    return find_free(extents, 0, BERTH_LIFETIME_COUNT, size, alignment, out_start);
}

berth_extent_id berth_extents_find_among_like(const berth_extents* extents,
                                              berth_lifetime lifetime,
                                              uint64_t size,
                                              uint64_t alignment,
                                              uint64_t* out_start) {
    const berth_extent_bins* whole = &extents->free[BERTH_LIFETIME_UNKNOWN];
    if (alignment >= extents->granule_bytes)
        return find_in(extents, whole, size, alignment, out_start);
    berth_extent_id id =
        find_free(extents, lifetime, BERTH_LIFETIME_COUNT, size, alignment, out_start);
    if (id == 0) id = find_in(extents, whole, size, alignment, out_start);
    for (uint32_t shorter = lifetime - 1u; id == 0 && shorter > BERTH_LIFETIME_UNKNOWN; shorter--)
        id = find_in(extents, &extents->free[shorter], size, alignment, out_start);
    return id;
}

uint64_t berth_extents_choose_end(const berth_extents* extents,
                                  berth_extent_id id,
                                  berth_lifetime lifetime,
                                  uint64_t size,
                                  uint64_t alignment,
                                  uint64_t first) {
    const berth_extent* extent = berth_extents_at(extents, id);
    const uint64_t end = extent->start + extent->size;
    // a block of whole granules shares none
    if (alignment >= extents->granule_bytes) return first;
    const berth_lifetime below = lifetime_beside(extents, extent->before, extent->start);
    if (below == lifetime) return first;
    const berth_lifetime above = lifetime_beside(extents, extent->after, end);
    const uint64_t last = berth_round_down(end - size, alignment);
    if (above == lifetime) return last;
    if (below == BERTH_LIFETIME_UNKNOWN) return first;
    if (above == BERTH_LIFETIME_UNKNOWN) return last;
    // others live at both ends: a granule further in is better, if there is a whole one
    const uint64_t inside = berth_round_up(extent->start, extents->granule_bytes);
    return inside + extents->granule_bytes <= end && inside + size <= end ? inside : first;
}

/// The lifetime at `from` or after it whose bin `bin` is not empty; BERTH_LIFETIME_COUNT if none.
static uint32_t next_set(const berth_extents* extents, uint32_t from, uint32_t bin) {
    while (from < BERTH_LIFETIME_COUNT && extents->free[from].heads[bin] == 0)
        from++;
    return from;
}

/// The first member of the next bin that is not empty, `bin` included, in the walk's direction, of
/// all lifetimes.
static berth_extent_id first_of_bins(const berth_extents* extents, uint32_t bin, bool down) {
    uint32_t nearest = NO_BIN;
    for (uint32_t i = 0; i < BERTH_LIFETIME_COUNT; i++) {
        const berth_extent_bins* bins = &extents->free[i];
        const uint32_t found = down ? bin_at_or_below(bins, bin) : bin_at_or_above(bins, bin);
        if (found == NO_BIN) continue;
        if (nearest == NO_BIN || (down ? found > nearest : found < nearest)) nearest = found;
    }
    if (nearest == NO_BIN) return 0;
    return extents->free[next_set(extents, 0, nearest)].heads[nearest];
}

/// The extent after `id` in the walk, whatever its size; 0 at the end.
static berth_extent_id walk_on(const berth_extents* extents, berth_extent_id id, bool down) {
    const berth_extent* extent = berth_extents_at(extents, id);
    if (extent->bin_after != 0) return extent->bin_after;
    const uint32_t bin = bin_of(extent->size);
    const uint32_t set = next_set(extents, extent->lifetime + 1u, bin);
    if (set < BERTH_LIFETIME_COUNT) return extents->free[set].heads[bin];
    if (bin == (down ? 0 : HIGHEST_BIN)) return 0;
    return first_of_bins(extents, down ? bin - 1 : bin + 1, down);
}

berth_extent_id berth_extents_walk_free(const berth_extents* extents,
                                        berth_extent_id id,
                                        uint64_t min_size,
                                        bool down) {
    const uint32_t lowest = bin_of(min_size);
    id = id == 0 ? first_of_bins(extents, down ? HIGHEST_BIN : lowest, down)
                 : walk_on(extents, id, down);
    while (id != 0 && berth_extents_at(extents, id)->size < min_size) {
        if (bin_of(berth_extents_at(extents, id)->size) < lowest) return 0;
        id = walk_on(extents, id, down);
    }
    return id;
}

/// The highest bin with a FREE extent, or NO_BIN.
static uint32_t highest_free_bin(const berth_extents* extents) {
    const berth_extent_id id = first_of_bins(extents, HIGHEST_BIN, true);
    return id == 0 ? NO_BIN : bin_of(berth_extents_at(extents, id)->size);
}

uint64_t berth_extents_query_largest(const berth_extents* extents) {
    uint64_t largest = 0;
    const uint32_t bin = highest_free_bin(extents);
    for (uint32_t i = 0; bin != NO_BIN && i < BERTH_LIFETIME_COUNT; i++) {
        for (berth_extent_id id = extents->free[i].heads[bin]; id != 0;) {
            const berth_extent* extent = berth_extents_at(extents, id);
            if (extent->size > largest) largest = extent->size;
            id = extent->bin_after;
        }
    }
    return largest;
}

uint64_t berth_extents_bound_largest(const berth_extents* extents) {
    const uint32_t bin = highest_free_bin(extents);
    if (bin == NO_BIN) return 0;
    const uint32_t octave = bin / BERTH_EXTENT_STEPS;
    const uint64_t step = bin % BERTH_EXTENT_STEPS;
    if (octave == 0) return step * BERTH_ALIGNMENT;
    const uint64_t next = (step + BERTH_EXTENT_STEPS + 1) << (octave - 1);
    return (next - 1) * BERTH_ALIGNMENT;
}

/// R1 and R3 for one extent and the one after it.
static bool is_link_valid(const berth_extents* extents, berth_extent_id id) {
    const berth_extent* extent = berth_extents_at(extents, id);
    if (extent->size == 0 || extent->size % BERTH_ALIGNMENT != 0) return false;
    const bool hole = extent->state == BERTH_EXTENT_HOLE;
    if (hole && !is_on_border(extents, extent->start)) return false;
    if (hole && !is_on_border(extents, extent->start + extent->size)) return false;
    if (extent->after == 0) return true;
    const berth_extent* next = berth_extents_at(extents, extent->after);
    if (next->before != id || next->start != extent->start + extent->size) return false;
    const bool joins = hole || extent->state == BERTH_EXTENT_FREE;
    return next->region == extent->region && !(joins && next->state == extent->state);
}

/// R2 and R4 seen from the bins: every member has the right state, lifetime and size; adds to
/// their number.
static bool are_bins_valid(const berth_extents* extents,
                           const berth_extent_bins* bins,
                           berth_extent_state state,
                           size_t* count) {
    for (uint32_t bin = 0; bin <= HIGHEST_BIN; bin++) {
        const uint32_t octave = bin / BERTH_EXTENT_STEPS;
        const bool marked = (bins->steps[octave] >> (bin % BERTH_EXTENT_STEPS) & 1u) != 0;
        if (marked != (bins->heads[bin] != 0)) return false;
        if (marked && (bins->octaves >> octave & 1u) == 0) return false;
        for (berth_extent_id id = bins->heads[bin]; id != 0; (*count)++) {
            const berth_extent* extent = berth_extents_at(extents, id);
            if (extent->state != state || bin_of(extent->size) != bin) return false;
            if (state == BERTH_EXTENT_FREE && (bins != &extents->free[extent->lifetime] ||
                                               extent->lifetime != owner_of(extents, extent)))
                return false;
            id = extent->bin_after;
        }
    }
    return true;
}

static bool are_all_bins_valid(const berth_extents* extents, const size_t* counts) {
    size_t free_count = 0, hole_count = 0;
    for (uint32_t i = 0; i < BERTH_LIFETIME_COUNT; i++) {
        if (!are_bins_valid(extents, &extents->free[i], BERTH_EXTENT_FREE, &free_count))
            return false;
    }
    return are_bins_valid(extents, &extents->holes, BERTH_EXTENT_HOLE, &hole_count) &&
           free_count == counts[BERTH_EXTENT_FREE] && hole_count == counts[BERTH_EXTENT_HOLE];
}

/// The figures over FREE extents are what a look at all of them gives.
static bool are_figures_right(const berth_extents* extents) {
    berth_extents seen = {.granule_bytes = extents->granule_bytes};
    for (size_t i = 1; i < extents->record_count; i++)
        count_free(&seen, berth_extents_at(extents, (berth_extent_id)i), 1);
    return seen.free_count == extents->free_count &&
           memcmp(seen.placeable, extents->placeable, sizeof seen.placeable) == 0;
}

bool berth_extents_are_valid(const berth_extents* extents) {
    uint64_t bytes[BERTH_EXTENT_STATE_COUNT] = {0};
    size_t counts[BERTH_EXTENT_STATE_COUNT] = {0};
    for (size_t i = 1; i < extents->record_count; i++) {
        const berth_extent_id id = (berth_extent_id)i;
        const berth_extent* extent = berth_extents_at(extents, id);
        counts[extent->state]++;
        bytes[extent->state] += extent->size;
        if (extent->state == BERTH_EXTENT_SPARE) continue;
        if (!is_link_valid(extents, id)) return false;
    }
    return are_all_bins_valid(extents, counts) &&
           memcmp(bytes, extents->bytes, sizeof bytes) == 0 && are_figures_right(extents);
}
