// SPDX-License-Identifier: Apache-2.0
// Sorting along a dimension: tiles in shared memory, then runs that double in length, each record
// finding its place in the merged run by itself. As no two records of a row are equal, the order is
// that of a stable sort whatever the way there.
#include "device/cuda/cuda_sort_records.cuh"

namespace {

DEVICE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Where row `row` is in x and in the outputs, in elements.
DEVICE walk_place<2> row_place(const berth_cuda_sort_rows& rows, int64_t row) {
    if (rows.is_flat == 0) return walk_to<2>(rows.walk, rows.begin + row);
    walk_place<2> place;
    place.of[0] = place.of[1] = 0;
    return place;
}

template <class Record>
DEVICE void load_record(const berth_cuda_sort_rows& rows,
                        int64_t first,
                        int64_t number,
                        Record& record) {
    const int64_t at =
        rows.is_flat != 0 ? walk_to<1>(rows.walk, number).of[0] : first + number * rows.stride;
    const uint64_t key = key_at(rows.dtype, rows.x, at);
    const uint64_t wide = rows.dtype == BERTH_I64 ? UINT64_MAX : UINT32_MAX;
    make_record(record, rows.is_descending != 0 ? key ^ wide : key, number);
}

/// Writes record `at` of a sorted row to the outputs.
template <class Record>
DEVICE void emit(const berth_cuda_sort_rows& rows,
                 const walk_place<2>& row,
                 int64_t at,
                 const Record& record) {
    const int64_t to = row.of[1] + at * rows.out_stride, number = number_of(record);
    if (rows.out_numbers != nullptr) rows.out_numbers[to] = number;
    if (rows.out_values != nullptr)
        copy_item(rows.item_bytes, rows.out_values, to, rows.x, row.of[0] + number * rows.stride);
}

// --- Tiles --------------------------------------------------------------------------------------

template <class Record> DEVICE void order(uint64_t* words, uint32_t low, uint32_t high) {
    Record a, b;
    read_record(a, words, low);
    read_record(b, words, high);
    if (!is_less(b, a)) return;
    write_record(b, words, low);
    write_record(a, words, high);
}

/// Sorts the first `count` of `size` records, a power of two: what is missing counts as larger than
/// all, and never moves.
template <class Record> DEVICE void sort_shared(uint64_t* words, uint32_t count, uint32_t size) {
    for (uint32_t run = 2; run / 2 < count && run <= size; run *= 2) {
        for (uint32_t half = run / 2; half > 0; half /= 2) {
            sync_block();
            for (uint32_t i = thread_index(); i < size / 2; i += thread_count()) {
                const uint32_t inside = i & (half - 1), low = (i - inside) * 2 + inside;
                // two sorted halves first meet end to end
                const uint32_t high =
                    half == run / 2 ? low - inside + run - 1 - inside : low + half;
                if (high < count) order<Record>(words, low, high);
            }
        }
    }
    sync_block();
}

template <class Record>
DEVICE void sort_tile(const berth_cuda_tiles_args& args,
                      uint64_t* words,
                      int64_t row,
                      int64_t begin) {
    const berth_cuda_sort_rows& rows = args.rows;
    const uint32_t count = (uint32_t)least(args.tile, rows.length - begin);
    const walk_place<2> place = row_place(rows, row);
    sync_block(); // the last tile has been read
    for (uint32_t i = thread_index(); i < count; i += thread_count()) {
        Record record;
        load_record(rows, place.of[0], begin + i, record);
        write_record(record, words, i);
    }
    sort_shared<Record>(words, count, (uint32_t)args.tile);
    const uint32_t kept = (uint32_t)least(count, rows.kept);
    for (uint32_t i = thread_index(); i < kept; i += thread_count()) {
        Record record;
        read_record(record, words, i);
        if (args.records != nullptr)
            write_record(record, args.records, row * rows.length + begin + i);
        else
            emit(rows, place, i, record);
    }
}

template <class Record>
DEVICE void sort_tiles_of(const berth_cuda_tiles_args& args, uint64_t* words) {
    const int64_t tiles = (args.rows.length + args.tile - 1) / args.tile;
    for (int64_t i = block_index(); i < args.rows.count * tiles; i += block_count())
        sort_tile<Record>(args, words, i / tiles, i % tiles * args.tile);
}

// --- Merging ------------------------------------------------------------------------------------

/// How many of the `count` sorted records from `first` on are below `record`.
template <class Record>
DEVICE int64_t
rank_among(const uint64_t* words, int64_t first, int64_t count, const Record& record) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        Record other;
        read_record(other, words, first + middle);
        if (is_less(other, record))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/// Puts record `at` of a row where it belongs.
template <class Record>
DEVICE void merge_record(const berth_cuda_merge_args& args, int64_t row, int64_t at) {
    const berth_cuda_sort_rows& rows = args.rows;
    const int64_t first = row * rows.length, run = at / args.width;
    const int64_t inside = at - run * args.width;
    if (inside >= rows.kept) return; // nor was it written
    const int64_t other = (run ^ 1) * args.width;
    Record record;
    read_record(record, args.source, first + at);
    int64_t place = inside;
    if (other < rows.length) {
        const int64_t count = least(least(args.width, rows.kept), rows.length - other);
        place += rank_among(args.source, first + other, count, record);
    }
    if (place >= rows.kept) return;
    if (args.target != nullptr)
        write_record(record, args.target, first + (run >> 1) * 2 * args.width + place);
    else
        emit(rows, row_place(rows, row), place, record);
}

template <class Record> DEVICE void merge_rows(const berth_cuda_merge_args& args) {
    const int64_t count = args.rows.count * args.rows.length;
    const bool is_small = count < INT32_MAX;
    for (int64_t i = grid_first(); i < count; i += grid_step()) {
        int64_t at = i;
        const int64_t row = divide_any(args.length, is_small, at);
        merge_record<Record>(args, row, at);
    }
}

} // namespace

KERNEL_OF(BERTH_CUDA_TILE_THREADS, sort_tiles, berth_cuda_tiles_args) {
    SHARED(uint64_t, words, BERTH_CUDA_TILE_WORDS);
    if (args.rows.is_packed != 0)
        sort_tiles_of<packed_record>(args, words);
    else
        sort_tiles_of<pair_record>(args, words);
}

KERNEL(sort_merge, berth_cuda_merge_args) {
    if (args.rows.is_packed != 0)
        merge_rows<packed_record>(args);
    else
        merge_rows<pair_record>(args);
}
