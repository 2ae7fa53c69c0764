// SPDX-License-Identifier: Apache-2.0
// Records: made, sorted, turned into elements again.
#include "device/cpu/kernel_sort_records.h"

#include <string.h>

#include "device/cpu/cpu_kernels.h"

#define PIECE BERTH_SELECT_PIECE

enum {
    SORT_RUN = 12,      // records sorted by insertion, before they are merged
    SORT_MANY = 192,    // from here on digits are faster than merging
    SORT_WIDE = 8192,   // from here on digits may be as wide as there are buckets
    SORT_CHUNK = 16384, // records of a chunk, unless there are more chunks than
    SORT_CHUNKS = 64
};

/// One sort under way.
typedef struct berth_sorter {
    berth_team* team; ///< NULL: one chunk, here
    int64_t* counts;  ///< [chunks, BERTH_SORT_BUCKETS]
    uint64_t significant;
} berth_sorter;

const berth_select_rows* berth_select_query_rows(void) {
#if defined(__x86_64__)
    const berth_cpu_isa isa = berth_cpu_query_isa();
    if (isa >= BERTH_CPU_ISA_AVX512) return &berth_select_rows_avx512;
    if (isa >= BERTH_CPU_ISA_AVX2) return &berth_select_rows_avx2;
#endif
    return &berth_select_rows_portable;
}

// --- Sorting -------------------------------------------------------------------------------------

static int64_t chunk_count(int64_t count) {
    return berth_min_i64((count - 1) / SORT_CHUNK + 1, SORT_CHUNKS);
}

static void run_chunks(const berth_sorter* sorter, int64_t chunks, berth_range_fn fn, void* pass) {
    if (sorter->team == NULL || chunks == 1)
        fn(pass, 0, chunks, 0);
    else
        berth_team_for(sorter->team, chunks, 1, fn, pass);
}

/// The bits that all chunks found.
static uint64_t all_bits(const berth_sorter* sorter, int64_t chunks) {
    uint64_t bits = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        bits |= (uint64_t)sorter->counts[chunk * BERTH_SORT_BUCKETS];
    return bits;
}

/// Cuts `bits` bits into digits of much the same width.
static uint32_t digit_width(uint32_t bits, int64_t count) {
    const uint32_t widest = count < SORT_WIDE ? 8 : 11;
    const uint32_t digits = (bits + widest - 1) / widest;
    return (bits + digits - 1) / digits;
}

/// Turns the counts of each digit in each chunk into where its records go.
static void counts_to_places(const berth_sorter* sorter, int64_t chunks, uint32_t mask) {
    int64_t places[BERTH_SORT_BUCKETS]; // of a digit: first what all chunks have, then where to
    memset(places, 0, (mask + (size_t)1) * sizeof *places);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t* counts = sorter->counts + chunk * BERTH_SORT_BUCKETS;
        for (uint32_t digit = 0; digit <= mask; ++digit)
            places[digit] += counts[digit];
    }
    int64_t place = 0;
    for (uint32_t digit = 0; digit <= mask; ++digit) {
        const int64_t count = places[digit];
        places[digit] = place;
        place += count;
    }
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        int64_t* counts = sorter->counts + chunk * BERTH_SORT_BUCKETS;
        for (uint32_t digit = 0; digit <= mask; ++digit) {
            const int64_t count = counts[digit];
            counts[digit] = places[digit];
            places[digit] += count;
        }
    }
}

#define RECORD uint32_t
#define RECORD_NAME(x) x##_32
#define RECORD_BITS(record) ((uint64_t)(record))
#define RECORD_IS_LESS(a, b) ((a) < (b))
#include "device/cpu/kernel_sort_radix.h"

#define RECORD uint64_t
#define RECORD_NAME(x) x##_64
#define RECORD_BITS(record) (record)
#define RECORD_IS_LESS(a, b) ((a) < (b))
#include "device/cpu/kernel_sort_radix.h"

static inline bool is_less(berth_sort_pair a, berth_sort_pair b) {
    return a.key < b.key || (a.key == b.key && a.number < b.number);
}

#define RECORD berth_sort_pair
#define RECORD_NAME(x) x##_pairs
#define RECORD_BITS(record) ((record).key)
#define RECORD_IS_LESS(a, b) is_less(a, b)
#include "device/cpu/kernel_sort_radix.h"

void* berth_sorting_run(const berth_sorting* sorting,
                        const berth_sort_region* region,
                        berth_team* team,
                        int64_t count) {
    const berth_sorter sorter = {
        .team = team,
        .counts = region->counts,
        // the numbers below packed keys are in order already
        .significant = sorting->kind == BERTH_RECORD_PACKED ? ~(uint64_t)UINT32_MAX : UINT64_MAX,
    };
    switch (sorting->kind) {
    case BERTH_RECORD_KEYS_32:
        return sort_32(&sorter, region->records, region->spare, count);
    case BERTH_RECORD_KEYS_64:
    case BERTH_RECORD_PACKED:
        return sort_64(&sorter, region->records, region->spare, count);
    case BERTH_RECORD_PAIRS:
        break;
    }
    return sort_pairs(&sorter, region->records, region->spare, count);
}

// --- Workspace -----------------------------------------------------------------------------------

berth_sorting berth_sorting_make(berth_dtype dtype, int64_t count, bool descending, bool numbered) {
    berth_sorting sorting = {
        .rows = berth_select_query_rows(),
        .dtype = dtype,
        .descending = descending,
        .item_bytes = berth_dtype_bytes(dtype),
    };
    const bool is_wide = dtype == BERTH_I64;
    if (!numbered) {
        sorting.kind = is_wide ? BERTH_RECORD_KEYS_64 : BERTH_RECORD_KEYS_32;
        sorting.record_bytes = is_wide ? 8 : 4;
    } else if (is_wide || count > UINT32_MAX) {
        sorting.kind = BERTH_RECORD_PAIRS;
        sorting.record_bytes = sizeof(berth_sort_pair);
    } else {
        sorting.kind = BERTH_RECORD_PACKED;
        sorting.record_bytes = 8;
    }
    return sorting;
}

// One chunk's counts; a team's chunks take a byte a record more.
static const uint64_t counts_bytes = BERTH_SORT_BUCKETS * sizeof(int64_t);
_Static_assert(BERTH_SORT_BUCKETS * sizeof(int64_t) <= SORT_CHUNK, "a byte a record is enough");

uint64_t berth_sort_region_bytes(const berth_sorting* sorting, int64_t count) {
    // more than any device has, and than what is asked of it may be
    if (count > INT64_MAX / 64) return INT64_MAX;
    return 2 * (uint64_t)count * (uint64_t)sorting->record_bytes + counts_bytes;
}

uint64_t berth_sort_team_bytes(int64_t count) { return (uint64_t)count; }

berth_sort_region berth_sort_region_at(const berth_sorting* sorting,
                                       void* scratch,
                                       int64_t index,
                                       int64_t count) {
    const uint64_t bytes = berth_sort_region_bytes(sorting, count);
    unsigned char* at = (unsigned char*)scratch + (uint64_t)index * bytes;
    return (berth_sort_region){
        .records = at,
        .spare = at + count * sorting->record_bytes,
        .counts = (int64_t*)(void*)(at + bytes - counts_bytes),
    };
}

// --- Elements to records -------------------------------------------------------------------------

static void turn_32(uint32_t* keys, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        keys[i] = ~keys[i];
}

static void turn_64(uint64_t* keys, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        keys[i] = ~keys[i];
}

bool berth_sorting_keys(const berth_sorting* sorting,
                        const berth_walk* walk,
                        int64_t begin,
                        int64_t count,
                        void* keys) {
    uint64_t buffer[PIECE];
    const void* x = berth_walk_as(walk, walk->dtype, begin, count, buffer);
    if (sorting->dtype == BERTH_I64) {
        sorting->rows->keys_i64(keys, x, count);
        if (sorting->descending) turn_64(keys, count);
        return true;
    }
    bool is_whole = true;
    sorting->rows->keys[sorting->dtype](keys, x, count);
    if (berth_dtype_is_float(sorting->dtype)) {
        uint32_t again[PIECE];
        sorting->rows->values[sorting->dtype](again, keys, count);
        is_whole = memcmp(again, x, (size_t)(count * sorting->item_bytes)) == 0;
    }
    if (sorting->descending) turn_32(keys, count);
    return is_whole;
}

/// As berth_sorting_number, for packed records.
static void pack(const uint32_t* keys,
                 const uint32_t* positions,
                 int64_t first,
                 int64_t count,
                 uint64_t* records) {
    if (positions == NULL) {
        for (int64_t i = 0; i < count; ++i)
            records[i] = (uint64_t)keys[i] << 32 | (uint64_t)(first + i);
        return;
    }
    for (int64_t i = 0; i < count; ++i)
        records[i] = (uint64_t)keys[positions[i]] << 32 | (uint64_t)(first + positions[i]);
}

void berth_sorting_number(const berth_sorting* sorting,
                          const void* keys,
                          const uint32_t* positions,
                          int64_t first,
                          int64_t count,
                          void* records) {
    if (sorting->kind == BERTH_RECORD_PACKED) {
        pack(keys, positions, first, count, records);
        return;
    }
    berth_sort_pair* to = records;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = positions != NULL ? (int64_t)positions[i] : i;
        const uint64_t key =
            sorting->dtype == BERTH_I64 ? ((const uint64_t*)keys)[at] : ((const uint32_t*)keys)[at];
        to[i] = (berth_sort_pair){.key = key, .number = (uint64_t)(first + at)};
    }
}

// --- Records to elements -------------------------------------------------------------------------

/// The keys of 0 and of NaN, which do not tell all of their elements' bits; floats only.
static uint64_t zero_key(const berth_sorting* sorting) {
    const uint32_t key = sorting->dtype == BERTH_F32 ? 0x80000000u : 0x8000u;
    return sorting->descending ? ~key : key;
}

static uint64_t nan_key(const berth_sorting* sorting) {
    const uint32_t key = sorting->dtype == BERTH_F32 ? UINT32_MAX : UINT16_MAX;
    return sorting->descending ? ~key : key;
}

bool berth_sorting_is_nan(const berth_sorting* sorting, uint64_t key) {
    return berth_dtype_is_float(sorting->dtype) && key == nan_key(sorting);
}

static const unsigned char* item_at(const berth_walk* walk, int64_t index) {
    if (walk->rank == 1) return walk->data + index * walk->strides[0];
    return berth_walk_at(walk, index);
}

/// Spreads `count` items of 1, 2, 4 or 8 bytes.
static void spread(
    const void* items, int64_t bytes, int64_t count, unsigned char* out, int64_t stride) {
    if (stride == bytes) {
        memcpy(out, items, (size_t)(count * bytes));
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        const unsigned char* item = (const unsigned char*)items + i * bytes;
        if (bytes == 4)
            memcpy(out + i * stride, item, 4);
        else if (bytes == 8)
            memcpy(out + i * stride, item, 8);
        else if (bytes == 2)
            memcpy(out + i * stride, item, 2);
        else
            out[i * stride] = *item;
    }
}

/// Takes the floats of a piece whose keys do not tell all from where they were.
static void fetch_untold(const berth_sorting* sorting,
                         const berth_walk* walk,
                         const void* records,
                         int64_t begin,
                         int64_t count,
                         unsigned char* items) {
    const uint64_t zero = zero_key(sorting), nan = nan_key(sorting);
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t key = berth_record_key(sorting, records, begin + i);
        if (key != zero && key != nan) continue;
        const int64_t number = berth_record_number(sorting, records, begin + i);
        memcpy(items + i * sorting->item_bytes, item_at(walk, number), (size_t)sorting->item_bytes);
    }
}

/// The elements of a piece of records, in `items`.
static void decode(
    const berth_sorting* sorting, const void* records, int64_t begin, int64_t count, void* items) {
    if (sorting->dtype == BERTH_I64) {
        uint64_t keys[PIECE];
        for (int64_t i = 0; i < count; ++i)
            keys[i] = berth_record_key(sorting, records, begin + i);
        if (sorting->descending) turn_64(keys, count);
        sorting->rows->values_i64(items, keys, count);
        return;
    }
    uint32_t keys[PIECE];
    for (int64_t i = 0; i < count; ++i)
        keys[i] = (uint32_t)berth_record_key(sorting, records, begin + i);
    if (sorting->descending) turn_32(keys, count);
    sorting->rows->values[sorting->dtype](items, keys, count);
}

void berth_sorting_store(const berth_sorting* sorting,
                         const berth_walk* walk,
                         const void* records,
                         int64_t begin,
                         int64_t count,
                         unsigned char* out,
                         int64_t stride) {
    const bool has_untold =
        berth_sorting_is_numbered(sorting) && berth_dtype_is_float(sorting->dtype);
    for (int64_t done = 0; done < count; done += PIECE) {
        const int64_t now = berth_min_i64(PIECE, count - done);
        uint64_t items[PIECE];
        decode(sorting, records, begin + done, now, items);
        if (has_untold)
            fetch_untold(sorting, walk, records, begin + done, now, (unsigned char*)items);
        spread(items, sorting->item_bytes, now, out + done * stride, stride);
    }
}

void berth_sorting_store_numbers(const berth_sorting* sorting,
                                 const void* records,
                                 int64_t begin,
                                 int64_t count,
                                 int64_t* out,
                                 int64_t stride) {
    for (int64_t i = 0; i < count; ++i)
        out[i * stride] = berth_record_number(sorting, records, begin + i);
}

/// The first of `count` sorted records whose key is `key` or above.
static int64_t find_key(const berth_sorting* sorting,
                        const void* records,
                        int64_t count,
                        uint64_t key) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (berth_record_key(sorting, records, middle) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void berth_sorting_restore(const berth_sorting* sorting,
                           const berth_walk* walk,
                           const void* records,
                           int64_t count,
                           unsigned char* out,
                           int64_t stride) {
    const uint32_t zero = (uint32_t)zero_key(sorting), nan = (uint32_t)nan_key(sorting);
    int64_t next_zero = find_key(sorting, records, count, zero);
    int64_t next_nan = find_key(sorting, records, count, nan);
    for (int64_t begin = 0; begin < count; begin += PIECE) {
        const int64_t now = berth_min_i64(PIECE, count - begin);
        uint32_t keys[PIECE];
        (void)berth_sorting_keys(sorting, walk, begin, now, keys);
        for (int64_t i = 0; i < now; ++i) {
            if (keys[i] != zero && keys[i] != nan) continue;
            const int64_t at = keys[i] == zero ? next_zero++ : next_nan++;
            if (at >= count) return; // there were fewer when they were sorted
            memcpy(out + at * stride, item_at(walk, begin + i), (size_t)sorting->item_bytes);
        }
    }
}
