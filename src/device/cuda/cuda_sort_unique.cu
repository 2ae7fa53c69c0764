// SPDX-License-Identifier: Apache-2.0
// UNIQUE: all elements are sorted; a value begins where a record's key is not that before it.
#include "device/cuda/cuda_sort_records.cuh"

namespace {

constexpr uint32_t EACH = BERTH_CUDA_CHUNK / BERTH_CUDA_CHUNK_THREADS; // records of a thread

DEVICE bool is_first(const berth_cuda_unique_args& args, uint64_t key, uint64_t before) {
    return key != before || (args.has_nan != 0 && key == args.nan_key);
}

/// Bit i: record first + i is the first of its value.
template <class Record>
DEVICE uint32_t find_firsts(const berth_cuda_unique_args& args, int64_t first) {
    uint32_t found = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < EACH; ++i) {
        const int64_t at = first + i;
        if (at >= args.count) break;
        Record record;
        if (i == 0 && at > 0) {
            read_record(record, args.records, at - 1);
            before = key_of(record);
        }
        read_record(record, args.records, at);
        const uint64_t key = key_of(record);
        found |= (at == 0 || is_first(args, key, before) ? 1u : 0u) << i;
        before = key;
    }
    return found;
}

DEVICE uint32_t count_firsts(uint32_t found) {
    uint32_t count = 0;
    for (; found != 0; found &= found - 1)
        ++count;
    return count;
}

template <class Record> DEVICE void read_chunk(const berth_cuda_unique_args& args, int64_t chunk) {
    const int64_t first = chunk * BERTH_CUDA_CHUNK + (int64_t)thread_index() * EACH;
    const uint32_t found = find_firsts<Record>(args, first);
    uint32_t total;
    const uint32_t before = block_before(count_firsts(found), total);
    int64_t value = args.counts[chunk] + before - 1; // the one that record first - 1 belongs to
    for (uint32_t i = 0; i < EACH && first + i < args.count; ++i) {
        Record record;
        read_record(record, args.records, first + i);
        const int64_t number = number_of(record);
        if ((found >> i & 1) != 0) {
            ++value;
            const int64_t at = walk_to<1>(args.walk, number).of[0];
            copy_item(args.item_bytes, args.values, value, args.x, at);
            if (args.starts != nullptr) args.starts[value] = first + i;
        }
        if (args.inverse != nullptr) args.inverse[number] = value;
    }
}

} // namespace

KERNEL(unique_count, berth_cuda_unique_args) {
    for (int64_t chunk = block_index(); chunk < args.chunks; chunk += block_count()) {
        const int64_t first = chunk * BERTH_CUDA_CHUNK + (int64_t)thread_index() * EACH;
        const uint32_t found = args.is_packed != 0 ? find_firsts<packed_record>(args, first)
                                                   : find_firsts<pair_record>(args, first);
        uint32_t total;
        block_before(count_firsts(found), total);
        if (thread_index() == 0) args.counts[chunk] = total;
    }
}

KERNEL(unique_read, berth_cuda_unique_args) {
    for (int64_t chunk = block_index(); chunk < args.chunks; chunk += block_count()) {
        if (args.is_packed != 0)
            read_chunk<packed_record>(args, chunk);
        else
            read_chunk<pair_record>(args, chunk);
    }
}

KERNEL(unique_lengths, berth_cuda_lengths_args) {
    for (int64_t i = grid_first(); i < args.values; i += grid_step()) {
        const int64_t end = i + 1 < args.values ? args.starts[i + 1] : args.count;
        args.lengths[i] = end - args.starts[i];
    }
}
