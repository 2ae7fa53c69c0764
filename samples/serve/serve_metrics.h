// SPDX-License-Identifier: Apache-2.0
// What a server tells of itself: numbers that the engine's thread and the HTTP side keep, and both
// of their forms, Prometheus text for GET /metrics and JSON for GET /memory.
//
//   ME1: both forms are made from one table (serve_metrics_table.c), so that they tell the same.
//   ME2: a snapshot is plain data: it is taken by the engine's thread, copied, and rendered by any.
#ifndef BERTH_SAMPLES_SERVE_SERVE_METRICS_H
#define BERTH_SAMPLES_SERVE_SERVE_METRICS_H

#include "api_answer.h"
#include "scheduler.h"

#include <berth/health.h>

#include <stdatomic.h>

// ---- Times and lengths of requests.

enum {
    SERVE_BUCKETS = 34,      ///< most buckets of a histogram, that without an upper bound included
    SERVE_RATE_SAMPLES = 12, ///< marks that rates are computed from
};

// clang-format off
/// Histograms over requests: X(member, name in both forms, unit, help). The unit says which bounds
/// the buckets have.
#define SERVE_HISTOGRAM_MAP(X)                                                                     \
    X(first_token,   "time_to_first_token_seconds",   SECONDS,                                     \
      "Time from a request's coming to its first token.")                                          \
    X(each_token,    "time_per_output_token_seconds", SECONDS,                                     \
      "Mean time of a request's tokens behind the first, of answered requests.")                   \
    X(queue,         "queue_seconds",                 SECONDS,                                     \
      "Time that requests waited before they were taken up.")                                      \
    X(whole,         "request_seconds",               SECONDS,                                     \
      "Time from a request's coming to its end, of answered requests.")                            \
    X(prompt_tokens, "request_prompt_tokens",         TOKENS,                                      \
      "Tokens of the prompts of answered requests.")                                               \
    X(answer_tokens, "request_answer_tokens",         TOKENS,                                      \
      "Tokens of the answers of answered requests.")
// clang-format on

/// What a histogram counts.
typedef enum serve_unit {
    SERVE_SECONDS, ///< buckets up to 0.1 ms, then five of them a factor of ten, up to 600 s
    SERVE_TOKENS,  ///< buckets up to 1, 2, 4, ... 131,072 tokens
} serve_unit;

/// Values by size. All zero is an empty one.
typedef struct serve_histogram {
    uint64_t counts[SERVE_BUCKETS]; ///< values in each bucket, not cumulative
    double sum;
    double largest;
} serve_histogram;

/// The upper bounds of the buckets, ascending, without the last bucket, which has none.
const double* serve_histogram_bounds(serve_unit unit, size_t* out_count);

/// Counts a value; one that is negative or no number counts as 0.
void serve_histogram_observe(serve_histogram* histogram, serve_unit unit, double value);

/// How many values there were.
uint64_t serve_histogram_count(const serve_histogram* histogram);

/// What a share (0 to 1) of the values does not exceed, taking those of a bucket for evenly spread;
/// 0 without values.
double serve_histogram_quantile(const serve_histogram* histogram, serve_unit unit, double share);

/// Totals at a moment.
typedef struct serve_mark {
    uint64_t time_ns;
    uint64_t prompt_tokens;
    uint64_t answer_tokens;
} serve_mark;

/// Marks of the last seconds, in a ring. All zero is an empty one.
typedef struct serve_rate {
    serve_mark marks[SERVE_RATE_SAMPLES];
    size_t count;
    size_t next;
} serve_rate;

/// Tokens a second.
typedef struct serve_speed {
    double prompt_tokens;
    double answer_tokens;
} serve_speed;

/// Notes the totals at a moment, which is not before the last one. Returns how much they grew a
/// second over the last ten seconds, or over what is known of them.
serve_speed serve_rate_note(serve_rate* rate, const serve_mark* now);

/// What the engine's thread measures as requests end. All zero is the begin.
typedef struct serve_latencies {
#define SERVE_HISTOGRAM_FIELD(name, text, unit, help) serve_histogram name;
    SERVE_HISTOGRAM_MAP(SERVE_HISTOGRAM_FIELD)
#undef SERVE_HISTOGRAM_FIELD
    serve_rate rate;
} serve_latencies;

/// Counts a request that has ended.
void serve_latencies_observe(serve_latencies* latencies, const llm_request_end* end);

// ---- What the engine knows.

// clang-format off
/// How the memory that a server may take is divided: X(name, help). 0: not known, or no limit.
#define SERVE_BUDGET_MAP(X)                                                                        \
    X(total_bytes,    "that all may take together")                                                \
    X(weights_bytes,  "of it, for the model's weights")                                            \
    X(host_bytes,     "of it, for tables, text and requests")                                      \
    X(device_bytes,   "of it, for frames, pool, and keys and values")                              \
    X(step_bytes,     "of these, for the largest step")                                            \
    X(kv_bytes,       "of these, for keys and values")                                             \
    X(kv_tokens,      "tokens whose keys and values fit")                                          \
    X(context_tokens, "most tokens of a request")
// clang-format on

/// The numbers of SERVE_BUDGET_MAP.
typedef struct serve_budget {
#define SERVE_BUDGET_FIELD(name, help) uint64_t name; ///< help
    SERVE_BUDGET_MAP(SERVE_BUDGET_FIELD)
#undef SERVE_BUDGET_FIELD
} serve_budget;

/// All that the engine's thread knows, of one moment.
typedef struct serve_snapshot {
    uint64_t time_ns;        ///< of a clock that only goes forward
    int64_t unix_seconds;    ///< since 1970
    uint64_t weight_bytes;   ///< of the model, in its file or in memory
    uint64_t resident_bytes; ///< memory of the process, as the system counts it; 0: it does not say
    serve_budget budget;
    berth_memory_stats memory;
    berth_health_stats health;
    berth_step_counters prefill;
    berth_step_counters decode;
    berth_kv_stats kv;
    berth_kv_layout layout;
    llm_scheduler_stats scheduler;
    serve_latencies latencies;
    serve_speed speed; ///< over the last seconds
} serve_snapshot;

/// Takes a snapshot. `latencies` gets a mark for its rates.
/// Errors:  BERTH_ERR_FORKED and others of berth_runtime_query_memory(); then `*out` is zero.
/// Threads: the engine's.
BERTH_NODISCARD berth_status serve_snapshot_take(serve_snapshot* out,
                                                 const llm_model* model,
                                                 const llm_scheduler* scheduler,
                                                 serve_latencies* latencies,
                                                 const serve_budget* budget,
                                                 llm_error* error);

// ---- What the HTTP side counts.

// clang-format off
/// Endpoints: X(ID, name in JSON, path as text shows it).
#define SERVE_ENDPOINT_MAP(X)                                                                      \
    X(CHAT,        "chat_completions", "/v1/chat/completions")                                     \
    X(COMPLETIONS, "completions",      "/v1/completions")                                          \
    X(MODELS,      "models",           "/v1/models")                                               \
    X(TOKENIZE,    "tokenize",         "/tokenize")                                                \
    X(DETOKENIZE,  "detokenize",       "/detokenize")                                              \
    X(HEALTH,      "health",           "/health")                                                  \
    X(PROPS,       "props",            "/props")                                                   \
    X(METRICS,     "metrics",          "/metrics")                                                 \
    X(MEMORY,      "memory",           "/memory")                                                  \
    X(PAGE,        "page",             "/")                                                        \
    X(OTHER,       "other",            "other")

/// Classes of HTTP statuses: X(ID, name).
#define SERVE_STATUS_MAP(X)                                                                        \
    X(OK,     "2xx")                                                                               \
    X(CLIENT, "4xx")                                                                               \
    X(SERVER, "5xx")                                                                               \
    X(NONE,   "none")

/// Counters of the HTTP side apart from requests: X(name, help).
#define SERVE_COUNTER_MAP(X)                                                                       \
    X(open,        "connections that are open")                                                    \
    X(opened,      "connections so far")                                                           \
    X(streams,     "answers that are being streamed")                                              \
    X(left,        "requests whose client went before it had its answer")                          \
    X(received,    "bytes of requests' bodies")                                                    \
    X(sent,        "bytes of answers' bodies")
// clang-format on

/// Where a request goes to.
typedef enum serve_endpoint {
#define SERVE_ENDPOINT_ENUM(id, name, path) SERVE_ENDPOINT_##id, ///< path
    SERVE_ENDPOINT_MAP(SERVE_ENDPOINT_ENUM)
#undef SERVE_ENDPOINT_ENUM
        SERVE_ENDPOINT_COUNT, ///< number of endpoints
} serve_endpoint;

/// How a request was answered.
typedef enum serve_status_class {
#define SERVE_STATUS_ENUM(id, name) SERVE_STATUS_##id, ///< name
    SERVE_STATUS_MAP(SERVE_STATUS_ENUM)
#undef SERVE_STATUS_ENUM
        SERVE_STATUS_COUNT, ///< number of classes
} serve_status_class;

/// The counters, which any thread changes and reads. All zero is the begin.
typedef struct serve_counters {
    atomic_uint_fast64_t requests[SERVE_ENDPOINT_COUNT][SERVE_STATUS_COUNT];
#define SERVE_COUNTER_FIELD(name, help) atomic_uint_fast64_t name; ///< help
    SERVE_COUNTER_MAP(SERVE_COUNTER_FIELD)
#undef SERVE_COUNTER_FIELD
} serve_counters;

/// Counts a request that was answered with an HTTP status; 0: it got no answer.
void serve_counters_request(serve_counters* counters, serve_endpoint endpoint, unsigned status);

/// Counts a connection that opens.
void serve_counters_open(serve_counters* counters);
/// Counts one that closes.
void serve_counters_close(serve_counters* counters);
/// Counts a stream that begins.
void serve_counters_stream_begin(serve_counters* counters);
/// Counts a stream that ends, however it does.
void serve_counters_stream_end(serve_counters* counters);
/// Counts a client that went before it had its answer.
void serve_counters_leave(serve_counters* counters);
/// Counts bytes of a request's body.
void serve_counters_receive(serve_counters* counters, size_t bytes);
/// Counts bytes of an answer's body.
void serve_counters_send(serve_counters* counters, size_t bytes);

// ---- Both forms.

/// The media type of what serve_metrics_render() makes.
#define SERVE_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/// Appends Prometheus' text exposition format 0.0.4. False if memory is short; `out` is as before
/// then.
bool serve_metrics_render(const api_about* about,
                          const serve_snapshot* snapshot,
                          const serve_counters* counters,
                          llm_bytes* out);

/// Appends the same as a JSON object, and quantiles of the histograms. False if memory is short;
/// `out` is as before then.
bool serve_memory_render(const api_about* about,
                         const serve_snapshot* snapshot,
                         const serve_counters* counters,
                         llm_bytes* out);

#endif // BERTH_SAMPLES_SERVE_SERVE_METRICS_H
