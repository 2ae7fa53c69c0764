// SPDX-License-Identifier: Apache-2.0
// What sorting is made of: elements become records, a key that unsigned integers order and perhaps
// the element's number, records are sorted, and become elements again.
//
// R1: sorting is stable, so its result does not depend on how it was cut into chunks: records with
//     equal keys differ by their numbers, or not at all.
#ifndef BERTH_DEVICE_CPU_KERNEL_SORT_RECORDS_H
#define BERTH_DEVICE_CPU_KERNEL_SORT_RECORDS_H

#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_select_rows.h"

/// Rows from this length on are sorted by the whole team, where there are fewer than workers.
#define BERTH_SORT_LONG 8192

#define BERTH_SORT_BUCKETS 2048 ///< of a digit, at most

typedef enum berth_record_kind {
    BERTH_RECORD_KEYS_32, ///< uint32_t: the key alone
    BERTH_RECORD_KEYS_64, ///< uint64_t: the key alone
    BERTH_RECORD_PACKED,  ///< uint64_t: the key above, the number below, 32 bits each
    BERTH_RECORD_PAIRS,   ///< berth_sort_pair
} berth_record_kind;

typedef struct berth_sort_pair {
    uint64_t key;
    uint64_t number;
} berth_sort_pair;

/// How the elements of a type are sorted.
typedef struct berth_sorting {
    const berth_select_rows* rows;
    berth_dtype dtype;
    berth_record_kind kind;
    bool descending;
    int64_t item_bytes;   ///< an element
    int64_t record_bytes; ///< a record
} berth_sorting;

/// Workspace of one sort.
typedef struct berth_sort_region {
    void* records;
    void* spare;     ///< as large
    int64_t* counts; ///< of digits, in each chunk
} berth_sort_region;

/// Prepares to sort up to `count` elements of `dtype`; `numbered` if it is asked where they were.
berth_sorting berth_sorting_make(berth_dtype dtype, int64_t count, bool descending, bool numbered);

/// Bytes of a region for `count` records: a straight line, which planning knows by two points.
uint64_t berth_sort_region_bytes(const berth_sorting* sorting, int64_t count);
/// What the last region needs beyond that if a team sorts in it.
uint64_t berth_sort_team_bytes(int64_t count);
/// Region `index` of those that begin at `scratch`, each for `count` records.
berth_sort_region berth_sort_region_at(const berth_sorting* sorting,
                                       void* scratch,
                                       int64_t index,
                                       int64_t count);

/// Keys of items [begin, begin + count) of `walk`, count <= BERTH_SELECT_PIECE, in the order asked
/// for: uint64_t for i64, else uint32_t. Returns false if some element is not what its key becomes
/// again: a -0, a NaN.
bool berth_sorting_keys(
    const berth_sorting* sorting, const berth_walk* walk, int64_t begin, int64_t count, void* keys);

/// Makes `count` records at `records` of keys [i] and numbers first + i, or first + positions[i],
/// whose keys are keys[positions[i]].
void berth_sorting_number(const berth_sorting* sorting,
                          const void* keys,
                          const uint32_t* positions,
                          int64_t first,
                          int64_t count,
                          void* records);

/// Sorts the region's first `count` records, with `team` (may be NULL); returns where they are
/// then: in `records` or in `spare`.
void* berth_sorting_run(const berth_sorting* sorting,
                        const berth_sort_region* region,
                        berth_team* team,
                        int64_t count);

/// True if records know their numbers.
static inline bool berth_sorting_is_numbered(const berth_sorting* sorting) {
    return sorting->kind == BERTH_RECORD_PACKED || sorting->kind == BERTH_RECORD_PAIRS;
}

/// The key of record `index`.
static inline uint64_t berth_record_key(const berth_sorting* sorting,
                                        const void* records,
                                        int64_t index) {
    switch (sorting->kind) {
    case BERTH_RECORD_KEYS_32:
        return ((const uint32_t*)records)[index];
    case BERTH_RECORD_KEYS_64:
        return ((const uint64_t*)records)[index];
    case BERTH_RECORD_PACKED:
        return ((const uint64_t*)records)[index] >> 32;
    case BERTH_RECORD_PAIRS:
        break;
    }
    return ((const berth_sort_pair*)records)[index].key;
}

/// The number of record `index`; its kind has numbers.
static inline int64_t berth_record_number(const berth_sorting* sorting,
                                          const void* records,
                                          int64_t index) {
    if (sorting->kind == BERTH_RECORD_PACKED) return (uint32_t)((const uint64_t*)records)[index];
    return (int64_t)((const berth_sort_pair*)records)[index].number;
}

/// True if elements with this key are NaN.
bool berth_sorting_is_nan(const berth_sorting* sorting, uint64_t key);

/// Writes the elements of records [begin, begin + count), made of items of `walk`, to `out` and
/// every `stride` bytes from there. Without numbers what keys do not tell is left out: see
/// berth_sorting_restore().
void berth_sorting_store(const berth_sorting* sorting,
                         const berth_walk* walk,
                         const void* records,
                         int64_t begin,
                         int64_t count,
                         unsigned char* out,
                         int64_t stride);
/// Writes their numbers, `stride` elements apart.
void berth_sorting_store_numbers(const berth_sorting* sorting,
                                 const void* records,
                                 int64_t begin,
                                 int64_t count,
                                 int64_t* out,
                                 int64_t stride);
/// Writes the zeros and NaNs of `walk`, in their order, over those of the `count` sorted records
/// without numbers that were stored at `out`.
void berth_sorting_restore(const berth_sorting* sorting,
                           const berth_walk* walk,
                           const void* records,
                           int64_t count,
                           unsigned char* out,
                           int64_t stride);

#endif // BERTH_DEVICE_CPU_KERNEL_SORT_RECORDS_H
