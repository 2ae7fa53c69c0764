// SPDX-License-Identifier: Apache-2.0
// The table that both forms of a server's numbers are made from: families, and the series of each.
#ifndef BERTH_SAMPLES_SERVE_SERVE_METRICS_TABLE_H
#define BERTH_SAMPLES_SERVE_SERVE_METRICS_TABLE_H

#include "serve_metrics.h"

/// Counters of the HTTP side, read at one time.
typedef struct serve_http_numbers {
    uint64_t requests[SERVE_ENDPOINT_COUNT][SERVE_STATUS_COUNT];
#define SERVE_NUMBER_FIELD(name, help) uint64_t name; ///< help
    SERVE_COUNTER_MAP(SERVE_NUMBER_FIELD)
#undef SERVE_NUMBER_FIELD
} serve_http_numbers;

/// What follows from a snapshot.
typedef struct serve_derived {
    uint64_t start_seconds;  ///< since 1970
    uint64_t uptime_seconds; ///< at the snapshot
    uint64_t kv_used_bytes;
    uint64_t kv_cached_bytes;
    uint64_t kv_free_bytes; ///< mapped for keys and values, neither used nor cached
    uint64_t free_bytes;    ///< of the budget, what nobody has
    uint64_t kv_most_blocks;
    uint64_t kv_most_tokens;
    uint64_t kv_block_tokens;
    uint64_t last_tokens; ///< of prompts: the last one is always computed
    uint64_t model_ns;    ///< of steps: what is not the scheduler's, the cache's or plans'
} serve_derived;

/// All numbers in one place.
typedef struct serve_view {
    serve_snapshot s;
    serve_derived d;
    serve_http_numbers http;
} serve_view;

/// Brings all numbers together.
void serve_view_make(const api_about* about,
                     const serve_snapshot* snapshot,
                     const serve_counters* counters,
                     serve_view* out);

/// Kinds of families.
typedef enum serve_family_kind { SERVE_GAUGE, SERVE_COUNTER } serve_family_kind;

/// A family of series.
typedef struct serve_family {
    const char* name; ///< without "berth_"
    serve_family_kind kind;
    const char* help;
} serve_family;

/// What a number of a view is.
typedef enum serve_scale {
    SERVE_COUNT, ///< uint64_t, shown as it is
    SERVE_NS,    ///< uint64_t of nanoseconds, shown in seconds
    SERVE_PPM,   ///< uint64_t of millionths, shown as a share
    SERVE_REAL,  ///< double
} serve_scale;

/// A number, and where it stands in both forms.
typedef struct serve_series {
    size_t family;      ///< index
    const char* labels; ///< as text has them between braces, "" for none
    const char* path;   ///< members of JSON with dots between
    size_t offset;      ///< in serve_view
    serve_scale scale;
} serve_series;

/// The families, in the order of the text.
const serve_family* serve_families(void);

/// The series of all families, those of a family together.
const serve_series* serve_series_list(size_t* out_count);

/// A number as both forms show it.
typedef struct serve_value {
    bool is_real;
    int64_t count; ///< unless it is real
    double real;
} serve_value;

/// The number of a series; a count that is larger than JSON's integers as their largest.
serve_value serve_series_value(const serve_view* view, const serve_series* series);

/// A histogram, and where it stands in both forms.
typedef struct serve_histogram_series {
    const char* name; ///< of the family, without "berth_"; in JSON, the member of "latency"
    serve_unit unit;
    const char* help;
    size_t offset; ///< in serve_latencies
} serve_histogram_series;

/// The histograms.
const serve_histogram_series* serve_histogram_list(size_t* out_count);

#endif // BERTH_SAMPLES_SERVE_SERVE_METRICS_TABLE_H
