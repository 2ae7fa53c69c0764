// SPDX-License-Identifier: Apache-2.0
// A fading histogram, and the bounds that would have wasted least on it, found by dynamic
// programming: best(k, j) = min over i of best(k - 1, i) + waste(i .. j). As waste is Monge, the
// best i never falls while j grows, which makes a layer O(n log n).
#include "plan/bucket_adaptive.h"

#include <float.h>
#include <string.h>

/// Values after which a weight has faded to about a third.
#define MEMORY_VALUES 1024.0
/// A point that counts less than this share of one value is forgotten.
#define FORGOTTEN_SHARE (1.0 / 64)
/// Weights are made small again before they could overflow.
#define LARGEST_UNIT 1e100
#define FIRST_REVIEW 16u
#define LAST_REVIEW 1024u
/// The first review of bounds that came from elsewhere.
#define RECALLED_REVIEW 256u
/// So many values beyond the last bound call for a review, but not before so many in all.
#define BEYOND_REVIEW 16u
#define EARLIEST_REVIEW 64u
/// Bounds are moved if that saves this share of what is wasted: plans hang on them.
#define WORTHWHILE_SHARE 0.1

static const berth_bucket_policy geometric = {.kind = BERTH_BUCKET_GEOMETRIC, .number = 4};

// ---- The histogram.

static uint32_t lower_bound(const int64_t* values, uint32_t count, int64_t value) {
    uint32_t low = 0;
    while (low < count) {
        const uint32_t middle = (low + count) / 2;
        if (values[middle] < value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static void remove_point(berth_bucket_adaptive* self, uint32_t at) {
    const uint32_t behind = self->point_count - at - 1;
    memmove(&self->points[at], &self->points[at + 1], behind * sizeof self->points[0]);
    memmove(&self->weights[at], &self->weights[at + 1], behind * sizeof self->weights[0]);
    self->point_count--;
}

/// Counts the point whose move to the next one changes least as that one.
static void merge_cheapest(berth_bucket_adaptive* self) {
    uint32_t cheapest = 0;
    double least = DBL_MAX;
    for (uint32_t i = 0; i + 1 < self->point_count; i++) {
        const double gap = (double)(self->points[i + 1] - self->points[i]);
        if (self->weights[i] * gap >= least) continue;
        least = self->weights[i] * gap;
        cheapest = i;
    }
    self->weights[cheapest + 1] += self->weights[cheapest];
    remove_point(self, cheapest);
}

static void insert_point(berth_bucket_adaptive* self, uint32_t at, int64_t value) {
    const uint32_t behind = self->point_count - at;
    memmove(&self->points[at + 1], &self->points[at], behind * sizeof self->points[0]);
    memmove(&self->weights[at + 1], &self->weights[at], behind * sizeof self->weights[0]);
    self->points[at] = value;
    self->weights[at] = 0;
    self->point_count++;
}

static void count_value(berth_bucket_adaptive* self, int64_t value) {
    uint32_t at = lower_bound(self->points, self->point_count, value);
    if (at == self->point_count || self->points[at] != value) {
        if (self->point_count == BERTH_BUCKET_POINTS) {
            merge_cheapest(self);
            at = lower_bound(self->points, self->point_count, value);
        }
        insert_point(self, at, value);
    }
    if (!(self->unit >= 1)) self->unit = 1; // the first value
    self->weights[at] += self->unit;
    self->unit *= 1 + 1 / MEMORY_VALUES;
    if (self->unit < LARGEST_UNIT) return;
    for (uint32_t i = 0; i < self->point_count; i++)
        self->weights[i] /= self->unit;
    self->unit = 1;
}

static void forget_faded(berth_bucket_adaptive* self) {
    for (uint32_t i = self->point_count; i-- > 0;)
        if (self->weights[i] < self->unit * FORGOTTEN_SHARE) remove_point(self, i);
}

// ---- The best bounds.

typedef struct bound_search {
    const berth_bucket_adaptive* of;
    double weight[BERTH_BUCKET_POINTS + 1]; ///< of the points before i
    double sum[BERTH_BUCKET_POINTS + 1];    ///< of value * weight before i
    double before[BERTH_BUCKET_POINTS + 1]; ///< least waste on the points before i, one bound less
    double best[BERTH_BUCKET_POINTS + 1];   ///< with the bounds of this layer
    uint8_t from[BERTH_BUCKET_LIST_MAX][BERTH_BUCKET_POINTS + 1]; ///< where the last bucket begins
} bound_search;

/// What one bucket wastes on the points from `first` up to, without, `end`.
static double waste_of(const bound_search* self, uint32_t first, uint32_t end) {
    const double weight = self->weight[end] - self->weight[first];
    const double sum = self->sum[end] - self->sum[first];
    return (double)self->of->points[end - 1] * weight - sum;
}

/// Fills best(layer, first .. last), whose last buckets begin from `low` to `high`.
static void fill_layer(bound_search* self,
                       uint32_t layer,
                       uint32_t first,
                       uint32_t last,
                       uint32_t low,
                       uint32_t high) {
    const uint32_t end = (first + last) / 2;
    self->best[end] = DBL_MAX;
    for (uint32_t begin = low; begin <= high && begin < end; begin++) {
        const double waste = self->before[begin] + waste_of(self, begin, end);
        if (waste >= self->best[end]) continue;
        self->best[end] = waste;
        self->from[layer][end] = (uint8_t)begin;
    }
    const uint32_t found = self->from[layer][end];
    if (first < end) fill_layer(self, layer, first, end - 1, low, found);
    if (end < last) fill_layer(self, layer, end + 1, last, found, high);
}

/// Writes at most `of->limit` bounds, one of them the last point, and returns their waste.
static double find_bounds(const berth_bucket_adaptive* of, int64_t* bounds, uint32_t* out_count) {
    bound_search search = {.of = of};
    const uint32_t points = of->point_count;
    const uint32_t layers = of->limit < points ? of->limit : points;
    for (uint32_t i = 0; i < points; i++) {
        search.weight[i + 1] = search.weight[i] + of->weights[i];
        search.sum[i + 1] = search.sum[i] + (double)of->points[i] * of->weights[i];
        search.before[i + 1] = DBL_MAX;
    }
    for (uint32_t layer = 0; layer < layers; layer++) {
        search.best[0] = layer == 0 ? DBL_MAX : 0;
        fill_layer(&search, layer, 1, points, 0, layer == 0 ? 0 : points - 1);
        memcpy(search.before, search.best, sizeof search.before);
        search.before[0] = 0;
    }
    *out_count = layers;
    uint32_t end = points;
    uint32_t count = 0;
    for (uint32_t layer = layers; layer-- > 0 && end > 0; count++) {
        bounds[layer] = of->points[end - 1];
        end = search.from[layer][end];
    }
    // Fewer buckets may waste as little: then the first ones are not used.
    memmove(bounds, bounds + (layers - count), count * sizeof *bounds);
    *out_count = count;
    return search.best[points];
}

// ---- Reviews.

static double current_waste(const berth_bucket_adaptive* self) {
    double waste = 0;
    for (uint32_t i = 0; i < self->point_count; i++) {
        const berth_bucket bucket = berth_bucket_adaptive_find(self, self->points[i]);
        waste += (double)(bucket.hi - self->points[i]) * self->weights[i];
    }
    return waste;
}

static bool review(berth_bucket_adaptive* self) {
    forget_faded(self);
    self->unreviewed = 0;
    self->beyond = 0;
    if (self->review_after < LAST_REVIEW) self->review_after *= 2;
    const double waste = current_waste(self);
    int64_t bounds[BERTH_BUCKET_LIST_MAX];
    uint32_t count;
    const double least = find_bounds(self, bounds, &count);
    if (self->bound_count > 0 && waste - least <= waste * WORTHWHILE_SHARE) return false;
    const bool moved =
        count != self->bound_count || memcmp(bounds, self->bounds, count * sizeof *bounds) != 0;
    memcpy(self->bounds, bounds, count * sizeof *bounds);
    self->bound_count = count;
    return moved;
}

bool berth_bucket_adaptive_observe(berth_bucket_adaptive* self, int64_t value) {
    if (value <= 0) return false;
    count_value(self, value);
    if (self->review_after == 0) self->review_after = FIRST_REVIEW;
    self->unreviewed++;
    if (self->bound_count > 0 && value > self->bounds[self->bound_count - 1]) self->beyond++;
    const bool outgrown = self->beyond >= BEYOND_REVIEW && self->unreviewed >= EARLIEST_REVIEW;
    return (outgrown || self->unreviewed >= self->review_after) && review(self);
}

void berth_bucket_adaptive_recall(berth_bucket_adaptive* self, int64_t bound) {
    const uint32_t at = lower_bound(self->bounds, self->bound_count, bound);
    const bool is_known = at < self->bound_count && self->bounds[at] == bound;
    if (bound <= 0 || is_known || self->bound_count >= self->limit) return;
    const uint32_t behind = self->bound_count - at;
    memmove(&self->bounds[at + 1], &self->bounds[at], behind * sizeof self->bounds[0]);
    self->bounds[at] = bound;
    self->bound_count++;
    count_value(self, bound);
    self->review_after = RECALLED_REVIEW;
}

berth_bucket berth_bucket_adaptive_find(const berth_bucket_adaptive* self, int64_t value) {
    const uint32_t at = lower_bound(self->bounds, self->bound_count, value);
    if (value == 0 || at == self->bound_count) {
        berth_bucket bucket = berth_bucket_of(&geometric, value);
        const int64_t last = at > 0 ? self->bounds[at - 1] : 0;
        if (value > 0 && bucket.lo < last) bucket.lo = last;
        return bucket;
    }
    return (berth_bucket){at > 0 ? self->bounds[at - 1] : 0, self->bounds[at]};
}
