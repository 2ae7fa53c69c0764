// SPDX-License-Identifier: Apache-2.0
// Sorting of records of one type; included once for each, with RECORD (the type), RECORD_NAME(x)
// (what x is called for it), RECORD_BITS(record) (the 64 bits that order it) and
// RECORD_IS_LESS(a, b) (the same order, equal bits by their indices if records have such).
//
// Few records are merged, many distributed by their digits, lowest first, which keeps the order of
// equal digits: so the result is the same however the records are cut into chunks.

typedef struct RECORD_NAME(pass) {
    const berth_sorter* sorter;
    const RECORD* from;
    RECORD* to;
    int64_t count;
    int64_t chunk_count;
    uint32_t shift;
    uint32_t mask;
} RECORD_NAME(pass);

static int64_t RECORD_NAME(chunk_begin)(const RECORD_NAME(pass) * pass, int64_t chunk) {
    return pass->count / pass->chunk_count * chunk +
           berth_min_i64(chunk, pass->count % pass->chunk_count);
}

// --- Few -----------------------------------------------------------------------------------------

static void RECORD_NAME(insert)(RECORD* records, int64_t count) {
    for (int64_t i = 1; i < count; ++i) {
        const RECORD record = records[i];
        int64_t at = i;
        for (; at > 0 && RECORD_IS_LESS(record, records[at - 1]); --at)
            records[at] = records[at - 1];
        records[at] = record;
    }
}

/// Merges from[begin, middle) and from[middle, end).
static void RECORD_NAME(merge)(
    const RECORD* from, RECORD* to, int64_t begin, int64_t middle, int64_t end) {
    int64_t left = begin, right = middle;
    while (left < middle && right < end) {
        const bool is_right = RECORD_IS_LESS(from[right], from[left]);
        *to++ = from[is_right ? right : left];
        right += is_right;
        left += !is_right;
    }
    memcpy(to, from + left, (size_t)(middle - left) * sizeof *to);
    memcpy(to + (middle - left), from + right, (size_t)(end - right) * sizeof *to);
}

static RECORD* RECORD_NAME(sort_few)(RECORD* from, RECORD* to, int64_t count) {
    for (int64_t i = 0; i < count; i += SORT_RUN)
        RECORD_NAME(insert)(from + i, berth_min_i64(SORT_RUN, count - i));
    for (int64_t run = SORT_RUN; run < count; run *= 2) {
        for (int64_t i = 0; i < count; i += 2 * run)
            RECORD_NAME(merge)
        (from, to + i, i, berth_min_i64(i + run, count), berth_min_i64(i + 2 * run, count));
        RECORD* const merged = to;
        to = from;
        from = merged;
    }
    return from;
}

// --- Many ----------------------------------------------------------------------------------------

/// Each chunk's bits that are not the same in all its records and the first of all.
static void RECORD_NAME(find_bits)(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const RECORD_NAME(pass)* pass = data;
    const uint64_t first = RECORD_BITS(pass->from[0]);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t last = RECORD_NAME(chunk_begin)(pass, chunk + 1);
        uint64_t bits = 0;
        for (int64_t i = RECORD_NAME(chunk_begin)(pass, chunk); i < last; ++i)
            bits |= RECORD_BITS(pass->from[i]) ^ first;
        pass->sorter->counts[chunk * BERTH_SORT_BUCKETS] = (int64_t)bits;
    }
}

static void RECORD_NAME(count_digits)(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const RECORD_NAME(pass)* pass = data;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        int64_t* counts = pass->sorter->counts + chunk * BERTH_SORT_BUCKETS;
        const int64_t last = RECORD_NAME(chunk_begin)(pass, chunk + 1);
        memset(counts, 0, (pass->mask + (size_t)1) * sizeof *counts);
        for (int64_t i = RECORD_NAME(chunk_begin)(pass, chunk); i < last; ++i)
            ++counts[RECORD_BITS(pass->from[i]) >> pass->shift & pass->mask];
    }
}

static void RECORD_NAME(distribute)(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const RECORD_NAME(pass)* pass = data;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        int64_t* places = pass->sorter->counts + chunk * BERTH_SORT_BUCKETS;
        const int64_t last = RECORD_NAME(chunk_begin)(pass, chunk + 1);
        for (int64_t i = RECORD_NAME(chunk_begin)(pass, chunk); i < last; ++i) {
            const RECORD record = pass->from[i];
            pass->to[places[RECORD_BITS(record) >> pass->shift & pass->mask]++] = record;
        }
    }
}

static RECORD* RECORD_NAME(sort_many)(const berth_sorter* sorter,
                                      RECORD* from,
                                      RECORD* to,
                                      int64_t count) {
    RECORD_NAME(pass)
    pass = {.sorter = sorter, .from = from, .to = to, .count = count};
    pass.chunk_count = sorter->team == NULL ? 1 : chunk_count(count);
    run_chunks(sorter, pass.chunk_count, RECORD_NAME(find_bits), &pass);
    const uint64_t bits = all_bits(sorter, pass.chunk_count) & sorter->significant;
    if (bits == 0) return from;
    const uint32_t low = (uint32_t)__builtin_ctzll(bits);
    const uint32_t width = digit_width(64 - (uint32_t)__builtin_clzll(bits) - low, count);
    pass.mask = (1u << width) - 1;
    for (pass.shift = low; pass.shift < 64 && bits >> pass.shift != 0; pass.shift += width) {
        if ((bits >> pass.shift & pass.mask) == 0) continue;
        pass.from = from;
        pass.to = to;
        run_chunks(sorter, pass.chunk_count, RECORD_NAME(count_digits), &pass);
        counts_to_places(sorter, pass.chunk_count, pass.mask);
        run_chunks(sorter, pass.chunk_count, RECORD_NAME(distribute), &pass);
        to = from;
        from = pass.to;
    }
    return from;
}

static RECORD* RECORD_NAME(sort)(const berth_sorter* sorter,
                                 RECORD* records,
                                 RECORD* spare,
                                 int64_t count) {
    if (count < SORT_MANY) return RECORD_NAME(sort_few)(records, spare, count);
    return RECORD_NAME(sort_many)(sorter, records, spare, count);
}

#undef RECORD
#undef RECORD_NAME
#undef RECORD_BITS
#undef RECORD_IS_LESS
