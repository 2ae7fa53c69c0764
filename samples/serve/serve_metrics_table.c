// SPDX-License-Identifier: Apache-2.0
// The table of a server's numbers.
#include "serve_metrics_table.h"

#include <string.h>

// clang-format off
/// Families, each followed by its series: F(ID, name without "berth_", kind, help) and
/// S(ID of the family, labels, path in JSON, member of serve_view, scale).
#define SERVE_TABLE(F, S)                                                                          \
    F(START, "start_time_seconds", GAUGE, "When the server started, in seconds since 1970.")       \
    S(START, "", "server.start_time_seconds", d.start_seconds, COUNT)                              \
    F(UPTIME, "uptime_seconds", GAUGE, "How long it has been running.")                            \
    S(UPTIME, "", "server.uptime_seconds", d.uptime_seconds, COUNT)                                \
    F(CLOCK, "clock_seconds", GAUGE,                                                               \
      "When these numbers were taken, by a clock that only goes forward.")                         \
    S(CLOCK, "", "server.clock_seconds", s.time_ns, NS)                                            \
    F(RESIDENT, "process_resident_bytes", GAUGE,                                                   \
      "Memory of the process as the system counts it, files read through memory included.")        \
    S(RESIDENT, "", "server.resident_bytes", s.resident_bytes, COUNT)                              \
    F(BUDGET, "budget_bytes", GAUGE,                                                               \
      "What memory may be taken in all, and for what; 0: no limit, or not known.")                 \
    S(BUDGET, "part=\"total\"", "budget.total_bytes", s.budget.total_bytes, COUNT)                 \
    S(BUDGET, "part=\"weights\"", "budget.weights_bytes", s.budget.weights_bytes, COUNT)           \
    S(BUDGET, "part=\"host\"", "budget.host_bytes", s.budget.host_bytes, COUNT)                    \
    S(BUDGET, "part=\"device\"", "budget.device_bytes", s.budget.device_bytes, COUNT)              \
    S(BUDGET, "part=\"step\"", "budget.step_bytes", s.budget.step_bytes, COUNT)                    \
    S(BUDGET, "part=\"kv\"", "budget.kv_bytes", s.budget.kv_bytes, COUNT)                          \
    F(BUDGET_TOKENS, "budget_tokens", GAUGE,                                                       \
      "Tokens whose keys and values fit, and most tokens of a request.")                           \
    S(BUDGET_TOKENS, "part=\"kv\"", "budget.kv_tokens", s.budget.kv_tokens, COUNT)                 \
    S(BUDGET_TOKENS, "part=\"context\"", "budget.context_tokens", s.budget.context_tokens, COUNT)  \
    F(MEMORY, "memory_bytes", GAUGE, "Memory by owner; free is what of the budget nobody has.")    \
    S(MEMORY, "owner=\"weights\"", "memory.weights_bytes", s.weight_bytes, COUNT)                  \
    S(MEMORY, "owner=\"frames\"", "memory.frames_bytes", s.memory.frames_bytes, COUNT)             \
    S(MEMORY, "owner=\"pool\"", "memory.pool_bytes", s.memory.pool_bytes, COUNT)                   \
    S(MEMORY, "owner=\"kv_used\"", "memory.kv_used_bytes", d.kv_used_bytes, COUNT)                 \
    S(MEMORY, "owner=\"kv_cached\"", "memory.kv_cached_bytes", d.kv_cached_bytes, COUNT)           \
    S(MEMORY, "owner=\"kv_free\"", "memory.kv_free_bytes", d.kv_free_bytes, COUNT)                 \
    S(MEMORY, "owner=\"ahead\"", "memory.ahead_bytes", s.memory.ahead_bytes, COUNT)                \
    S(MEMORY, "owner=\"host\"", "memory.host_bytes", s.memory.host_bytes, COUNT)                   \
    S(MEMORY, "owner=\"free\"", "memory.free_bytes", d.free_bytes, COUNT)                          \
    F(PARKED_BYTES, "memory_parked_bytes", GAUGE,                                                  \
      "Of the memory of host, what copies of parked requests take.")                               \
    S(PARKED_BYTES, "", "memory.parked_bytes", s.kv.parked_bytes, COUNT)                           \
    F(DEVICE, "device_bytes", GAUGE,                                                               \
      "Memory mapped for frames, pool, and keys and values: now, the most so far, promised to "    \
      "running steps, and the most that may be.")                                                  \
    S(DEVICE, "state=\"mapped\"", "memory.mapped_bytes", s.memory.mapped_bytes, COUNT)             \
    S(DEVICE, "state=\"peak\"", "memory.peak_bytes", s.memory.peak_mapped_bytes, COUNT)            \
    S(DEVICE, "state=\"reserved\"", "memory.reserved_bytes", s.memory.reserved_bytes, COUNT)       \
    S(DEVICE, "state=\"capacity\"", "memory.capacity_bytes", s.memory.capacity_bytes, COUNT)       \
    F(RECLAIMS, "memory_reclaims_total", COUNTER,                                                  \
      "Times that memory was short and idle memory was looked for.")                               \
    S(RECLAIMS, "", "memory.reclaims", s.memory.reclaims, COUNT)                                   \
    F(MEMORY_REFUSALS, "memory_refusals_total", COUNTER,                                           \
      "Requests for memory that were refused after that.")                                         \
    S(MEMORY_REFUSALS, "", "memory.refusals", s.memory.failures, COUNT)                            \
    F(ALARMS, "memory_alarms_total", COUNTER,                                                      \
      "Times that memory in use reached the high watermark.")                                      \
    S(ALARMS, "", "memory.alarms", s.memory.alarms, COUNT)                                         \
    F(KV_BLOCKS, "kv_blocks", GAUGE,                                                               \
      "Blocks of keys and values: used by requests, cached for others that begin alike, "          \
      "mapped and empty.")                                                                         \
    S(KV_BLOCKS, "state=\"used\"", "kv.used_blocks", s.kv.held_blocks, COUNT)                      \
    S(KV_BLOCKS, "state=\"cached\"", "kv.cached_blocks", s.kv.cached_blocks, COUNT)                \
    S(KV_BLOCKS, "state=\"free\"", "kv.free_blocks", s.kv.free_blocks, COUNT)                      \
    F(KV_BLOCKS_MOST, "kv_blocks_most", GAUGE, "Blocks that there may be.")                        \
    S(KV_BLOCKS_MOST, "", "kv.most_blocks", d.kv_most_blocks, COUNT)                               \
    F(KV_TOKENS, "kv_tokens", GAUGE,                                                               \
      "Tokens in blocks: used, cached, and room in used blocks that holds none.")                  \
    S(KV_TOKENS, "state=\"used\"", "kv.used_tokens", s.kv.held_tokens, COUNT)                      \
    S(KV_TOKENS, "state=\"cached\"", "kv.cached_tokens", s.kv.cached_tokens, COUNT)                \
    S(KV_TOKENS, "state=\"wasted\"", "kv.wasted_tokens", s.kv.wasted_tokens, COUNT)                \
    F(KV_TOKENS_MOST, "kv_tokens_most", GAUGE, "Tokens that all blocks together have room for.")   \
    S(KV_TOKENS_MOST, "", "kv.most_tokens", d.kv_most_tokens, COUNT)                               \
    F(KV_BLOCK_BYTES, "kv_block_bytes", GAUGE, "Size of a block.")                                 \
    S(KV_BLOCK_BYTES, "", "kv.block_bytes", s.kv.block_bytes, COUNT)                               \
    F(KV_BLOCK_TOKENS, "kv_block_tokens", GAUGE, "Tokens that a block has room for.")              \
    S(KV_BLOCK_TOKENS, "", "kv.block_tokens", d.kv_block_tokens, COUNT)                            \
    F(KV_SEQUENCES, "kv_sequences", GAUGE,                                                         \
      "Requests that the cache knows, and those of them that are parked.")                         \
    S(KV_SEQUENCES, "state=\"all\"", "kv.sequences", s.kv.sequences, COUNT)                        \
    S(KV_SEQUENCES, "state=\"parked\"", "kv.parked_sequences", s.kv.parked_sequences, COUNT)       \
    F(KV_PROMPTS, "kv_prompt_tokens_total", COUNTER,                                               \
      "Tokens of prompts that were looked up: found, or why not.")                                 \
    S(KV_PROMPTS, "outcome=\"hit\"", "kv.prompt_tokens.hit", s.kv.hit_tokens, COUNT)               \
    S(KV_PROMPTS, "outcome=\"none_shared\"",                                                       \
      "kv.prompt_tokens.none_shared", s.kv.miss_none_shared, COUNT)                                \
    S(KV_PROMPTS, "outcome=\"too_short\"",                                                         \
      "kv.prompt_tokens.too_short", s.kv.miss_too_short, COUNT)                                    \
    S(KV_PROMPTS, "outcome=\"evicted\"", "kv.prompt_tokens.evicted", s.kv.miss_evicted, COUNT)     \
    S(KV_PROMPTS, "outcome=\"other_tenant\"",                                                      \
      "kv.prompt_tokens.other_tenant", s.kv.miss_other_tenant, COUNT)                              \
    S(KV_PROMPTS, "outcome=\"last_token\"", "kv.prompt_tokens.last_token", d.last_tokens, COUNT)   \
    F(KV_APPENDED, "kv_appended_tokens_total", COUNTER,                                            \
      "Tokens whose keys and values were computed and kept.")                                      \
    S(KV_APPENDED, "", "kv.appended_tokens", s.kv.appended_tokens, COUNT)                          \
    F(KV_RESTORED, "kv_restored_tokens_total", COUNTER,                                            \
      "Tokens of parked requests that needed not be computed again.")                              \
    S(KV_RESTORED, "", "kv.restored_tokens", s.kv.restored_tokens, COUNT)                          \
    F(KV_BLOCK_EVENTS, "kv_block_events_total", COUNTER,                                           \
      "Blocks given up for want of room, copied because they were shared, and moved by "           \
      "compaction.")                                                                               \
    S(KV_BLOCK_EVENTS, "event=\"evicted\"", "kv.evicted_blocks", s.kv.evicted_blocks, COUNT)       \
    S(KV_BLOCK_EVENTS, "event=\"copied\"", "kv.copied_blocks", s.kv.copied_blocks, COUNT)          \
    S(KV_BLOCK_EVENTS, "event=\"moved\"", "kv.moved_blocks", s.kv.moved_blocks, COUNT)             \
    F(KV_REFUSALS, "kv_refusals_total", COUNTER, "Steps refused for want of blocks.")              \
    S(KV_REFUSALS, "", "kv.refusals", s.kv.refusals, COUNT)                                        \
    F(REQUESTS, "requests_in_flight", GAUGE,                                                       \
      "Requests that are taken up, wait in the queue, or are parked.")                             \
    S(REQUESTS, "state=\"running\"", "scheduler.running", s.scheduler.running, COUNT)              \
    S(REQUESTS, "state=\"queued\"", "scheduler.queued", s.scheduler.queued, COUNT)                 \
    S(REQUESTS, "state=\"parked\"", "scheduler.parked", s.scheduler.parked, COUNT)                 \
    F(SUBMITTED, "requests_submitted_total", COUNTER, "Answers asked for, refused ones included.") \
    S(SUBMITTED, "", "scheduler.submitted", s.scheduler.submitted, COUNT)                          \
    F(ENDED, "requests_ended_total", COUNTER, "Answers by how they ended.")                        \
    S(ENDED, "outcome=\"finished\"", "scheduler.ended.finished", s.scheduler.finished, COUNT)      \
    S(ENDED, "outcome=\"cancelled\"", "scheduler.ended.cancelled", s.scheduler.cancelled, COUNT)   \
    S(ENDED, "outcome=\"failed\"", "scheduler.ended.failed", s.scheduler.failed, COUNT)            \
    S(ENDED, "outcome=\"refused_too_large\"",                                                      \
      "scheduler.ended.refused_too_large", s.scheduler.refused_too_large, COUNT)                   \
    S(ENDED, "outcome=\"refused_quota\"",                                                          \
      "scheduler.ended.refused_quota", s.scheduler.refused_quota, COUNT)                           \
    S(ENDED, "outcome=\"refused_queue_full\"",                                                     \
      "scheduler.ended.refused_queue_full", s.scheduler.refused_queue_full, COUNT)                 \
    F(PROMPT_TOKENS, "prompt_tokens_total", COUNTER, "Tokens of prompts taken up.")                \
    S(PROMPT_TOKENS, "", "throughput.prompt_tokens", s.scheduler.prompt_tokens, COUNT)             \
    F(CACHED_TOKENS, "prompt_cached_tokens_total", COUNTER, "Of them, found in the cache.")        \
    S(CACHED_TOKENS, "", "throughput.prompt_cached_tokens", s.scheduler.cached_tokens, COUNT)      \
    F(ANSWER_TOKENS, "answer_tokens_total", COUNTER, "Tokens of answers.")                         \
    S(ANSWER_TOKENS, "", "throughput.answer_tokens", s.scheduler.decoded_tokens, COUNT)            \
    F(COMPUTED_TOKENS, "computed_tokens_total", COUNTER, "Tokens that steps computed.")            \
    S(COMPUTED_TOKENS, "", "throughput.computed_tokens", s.scheduler.computed_tokens, COUNT)       \
    F(RECOMPUTED_TOKENS, "recomputed_tokens_total", COUNTER,                                       \
      "Of them, computed before, as their requests were parked.")                                  \
    S(RECOMPUTED_TOKENS, "", "throughput.recomputed_tokens", s.scheduler.recomputed_tokens, COUNT) \
    F(SPEED, "tokens_per_second", GAUGE,                                                           \
      "Tokens of prompts taken up and of answers, over the last ten seconds.")                     \
    S(SPEED, "kind=\"prompt\"",                                                                    \
      "throughput.prompt_tokens_per_second", s.speed.prompt_tokens, REAL)                          \
    S(SPEED, "kind=\"answer\"",                                                                    \
      "throughput.answer_tokens_per_second", s.speed.answer_tokens, REAL)                          \
    F(PARKS, "parks_total", COUNTER,                                                               \
      "Requests parked to make room: copied to the memory of the host, or dropped and "            \
      "computed again.")                                                                           \
    S(PARKS, "how=\"host\"", "scheduler.parks_host", s.scheduler.parks_host, COUNT)                \
    S(PARKS, "how=\"drop\"", "scheduler.parks_drop", s.scheduler.parks_drop, COUNT)                \
    F(PARKS_SHARE, "parks_for_tenants_total", COUNTER,                                             \
      "Of them, parked so that another tenant had its share of the blocks.")                       \
    S(PARKS_SHARE, "", "scheduler.parks_share", s.scheduler.parks_share, COUNT)                    \
    F(RESUMES, "resumes_total", COUNTER, "Parked requests that were brought back.")                \
    S(RESUMES, "", "scheduler.resumes", s.scheduler.resumes, COUNT)                                \
    F(STEPS, "steps_total", COUNTER, "Steps that ran.")                                            \
    S(STEPS, "", "scheduler.steps", s.scheduler.steps, COUNT)                                      \
    F(DECODE_STEPS, "decode_steps_total", COUNTER, "Of them, with one token of each request.")     \
    S(DECODE_STEPS, "", "scheduler.decode_steps", s.scheduler.decode_steps, COUNT)                 \
    F(STEP_REQUESTS, "step_requests_total", COUNTER, "Sum over steps of their requests.")          \
    S(STEP_REQUESTS, "", "scheduler.step_requests", s.scheduler.batch_sum, COUNT)                  \
    F(STEP_REQUESTS_MOST, "step_requests_most", GAUGE, "Most requests of a step.")                 \
    S(STEP_REQUESTS_MOST, "", "scheduler.step_requests_most", s.scheduler.batch_max, COUNT)        \
    F(SHRUNK, "steps_shrunk_total", COUNTER, "Steps made smaller because not all fitted.")         \
    S(SHRUNK, "", "scheduler.shrunk_steps", s.scheduler.shrunk_steps, COUNT)                       \
    F(STEP_REFUSALS, "step_refusals_total", COUNTER,                                               \
      "Steps that were refused memory and tried again smaller.")                                   \
    S(STEP_REFUSALS, "", "scheduler.step_refusals", s.scheduler.step_refusals, COUNT)              \
    F(STEP_TIME, "step_seconds_total", COUNTER, "Time of steps by what took it.")                  \
    S(STEP_TIME, "part=\"model\"", "scheduler.seconds.model", d.model_ns, NS)                      \
    S(STEP_TIME, "part=\"scheduler\"",                                                             \
      "scheduler.seconds.scheduler", s.scheduler.scheduler_ns, NS)                                 \
    S(STEP_TIME, "part=\"kv\"", "scheduler.seconds.kv", s.scheduler.kv_ns, NS)                     \
    S(STEP_TIME, "part=\"plans\"", "scheduler.seconds.plans", s.scheduler.step_ns, NS)             \
    S(STEP_TIME, "part=\"answers\"", "scheduler.seconds.answers", s.scheduler.given_ns, NS)        \
    F(PLAN_RUNS, "plan_runs_total", COUNTER,                                                       \
      "Steps by how their plan served them: all as planned, in part, left for what no plan "       \
      "knew, or none was ready.")                                                                  \
    S(PLAN_RUNS, "step=\"prefill\",outcome=\"hit\"", "plans.prefill.hit", s.prefill.hits, COUNT)   \
    S(PLAN_RUNS, "step=\"decode\",outcome=\"hit\"", "plans.decode.hit", s.decode.hits, COUNT)      \
    S(PLAN_RUNS, "step=\"prefill\",outcome=\"partial\"",                                           \
      "plans.prefill.partial", s.prefill.partial, COUNT)                                           \
    S(PLAN_RUNS, "step=\"decode\",outcome=\"partial\"",                                            \
      "plans.decode.partial", s.decode.partial, COUNT)                                             \
    S(PLAN_RUNS, "step=\"prefill\",outcome=\"side_exit\"",                                         \
      "plans.prefill.side_exit", s.prefill.side_exits, COUNT)                                      \
    S(PLAN_RUNS, "step=\"decode\",outcome=\"side_exit\"",                                          \
      "plans.decode.side_exit", s.decode.side_exits, COUNT)                                        \
    S(PLAN_RUNS, "step=\"prefill\",outcome=\"recorded\"",                                          \
      "plans.prefill.recorded", s.prefill.recorded, COUNT)                                         \
    S(PLAN_RUNS, "step=\"decode\",outcome=\"recorded\"",                                           \
      "plans.decode.recorded", s.decode.recorded, COUNT)                                           \
    F(PLAN_SWITCHES, "plan_switches_total", COUNTER,                                               \
      "Steps that changed from one known path to another.")                                        \
    S(PLAN_SWITCHES, "step=\"prefill\"", "plans.prefill.switches", s.prefill.switches, COUNT)      \
    S(PLAN_SWITCHES, "step=\"decode\"", "plans.decode.switches", s.decode.switches, COUNT)         \
    F(PLAN_MISSES, "plan_misses_total", COUNTER, "Steps without a plan ready, by reason.")         \
    S(PLAN_MISSES, "step=\"prefill\",reason=\"new_step\"",                                         \
      "plans.prefill.miss_new_step", s.prefill.miss_new_step, COUNT)                               \
    S(PLAN_MISSES, "step=\"decode\",reason=\"new_step\"",                                          \
      "plans.decode.miss_new_step", s.decode.miss_new_step, COUNT)                                 \
    S(PLAN_MISSES, "step=\"prefill\",reason=\"new_path\"",                                         \
      "plans.prefill.miss_new_path", s.prefill.miss_new_path, COUNT)                               \
    S(PLAN_MISSES, "step=\"decode\",reason=\"new_path\"",                                          \
      "plans.decode.miss_new_path", s.decode.miss_new_path, COUNT)                                 \
    S(PLAN_MISSES, "step=\"prefill\",reason=\"new_bucket\"",                                       \
      "plans.prefill.miss_new_bucket", s.prefill.miss_new_bucket, COUNT)                           \
    S(PLAN_MISSES, "step=\"decode\",reason=\"new_bucket\"",                                        \
      "plans.decode.miss_new_bucket", s.decode.miss_new_bucket, COUNT)                             \
    S(PLAN_MISSES, "step=\"prefill\",reason=\"evicted\"",                                          \
      "plans.prefill.miss_evicted", s.prefill.miss_evicted, COUNT)                                 \
    S(PLAN_MISSES, "step=\"decode\",reason=\"evicted\"",                                           \
      "plans.decode.miss_evicted", s.decode.miss_evicted, COUNT)                                   \
    S(PLAN_MISSES, "step=\"prefill\",reason=\"model_changed\"",                                    \
      "plans.prefill.miss_model_changed", s.prefill.miss_model_changed, COUNT)                     \
    S(PLAN_MISSES, "step=\"decode\",reason=\"model_changed\"",                                     \
      "plans.decode.miss_model_changed", s.decode.miss_model_changed, COUNT)                       \
    S(PLAN_MISSES, "step=\"prefill\",reason=\"churn\"",                                            \
      "plans.prefill.miss_churn", s.prefill.miss_churn, COUNT)                                     \
    S(PLAN_MISSES, "step=\"decode\",reason=\"churn\"",                                             \
      "plans.decode.miss_churn", s.decode.miss_churn, COUNT)                                       \
    F(PLANS, "plans", GAUGE, "Plans in the cache.")                                                \
    S(PLANS, "step=\"prefill\"", "plans.prefill.plans", s.prefill.plans_live, COUNT)               \
    S(PLANS, "step=\"decode\"", "plans.decode.plans", s.decode.plans_live, COUNT)                  \
    F(PLAN_BYTES, "plan_bytes", GAUGE, "Memory of plans.")                                         \
    S(PLAN_BYTES, "step=\"prefill\"", "plans.prefill.bytes", s.prefill.plan_bytes, COUNT)          \
    S(PLAN_BYTES, "step=\"decode\"", "plans.decode.bytes", s.decode.plan_bytes, COUNT)             \
    F(PLAN_EVENTS, "plan_events_total", COUNTER,                                                   \
      "Plans made, taken over from a file, made tighter, and dropped.")                            \
    S(PLAN_EVENTS, "step=\"prefill\",event=\"made\"",                                              \
      "plans.prefill.made", s.prefill.plans, COUNT)                                                \
    S(PLAN_EVENTS, "step=\"decode\",event=\"made\"", "plans.decode.made", s.decode.plans, COUNT)   \
    S(PLAN_EVENTS, "step=\"prefill\",event=\"restored\"",                                          \
      "plans.prefill.restored", s.prefill.plans_restored, COUNT)                                   \
    S(PLAN_EVENTS, "step=\"decode\",event=\"restored\"",                                           \
      "plans.decode.restored", s.decode.plans_restored, COUNT)                                     \
    S(PLAN_EVENTS, "step=\"prefill\",event=\"improved\"",                                          \
      "plans.prefill.improved", s.prefill.improved, COUNT)                                         \
    S(PLAN_EVENTS, "step=\"decode\",event=\"improved\"",                                           \
      "plans.decode.improved", s.decode.improved, COUNT)                                           \
    S(PLAN_EVENTS, "step=\"prefill\",event=\"evicted\"",                                           \
      "plans.prefill.evicted", s.prefill.plans_evicted, COUNT)                                     \
    S(PLAN_EVENTS, "step=\"decode\",event=\"evicted\"",                                            \
      "plans.decode.evicted", s.decode.plans_evicted, COUNT)                                       \
    F(PLAN_TIME, "plan_seconds_total", COUNTER, "Time spent on planning.")                         \
    S(PLAN_TIME, "step=\"prefill\"", "plans.prefill.plan_seconds", s.prefill.plan_ns, NS)          \
    S(PLAN_TIME, "step=\"decode\"", "plans.decode.plan_seconds", s.decode.plan_ns, NS)             \
    F(PLACED, "plan_placed_bytes_total", COUNTER, "Bytes of values that plans placed.")            \
    S(PLACED, "step=\"prefill\"", "plans.prefill.placed_bytes", s.prefill.placed_bytes, COUNT)     \
    S(PLACED, "step=\"decode\"", "plans.decode.placed_bytes", s.decode.placed_bytes, COUNT)        \
    F(ALLOCATED, "plan_allocated_bytes_total", COUNTER, "Bytes of all values of steps.")           \
    S(ALLOCATED, "step=\"prefill\"",                                                               \
      "plans.prefill.allocated_bytes", s.prefill.allocated_bytes, COUNT)                           \
    S(ALLOCATED, "step=\"decode\"",                                                                \
      "plans.decode.allocated_bytes", s.decode.allocated_bytes, COUNT)                             \
    F(POOL, "pool_bytes", GAUGE,                                                                   \
      "Memory of the pool: asked for, in places with rounding, free, and the largest stretch "     \
      "of what is free.")                                                                          \
    S(POOL, "state=\"requested\"",                                                                 \
      "fragmentation.requested_bytes", s.health.requested_bytes, COUNT)                            \
    S(POOL, "state=\"reserved\"", "fragmentation.reserved_bytes", s.health.reserved_bytes, COUNT)  \
    S(POOL, "state=\"free\"", "fragmentation.free_bytes", s.health.free_bytes, COUNT)              \
    S(POOL, "state=\"largest_free\"",                                                              \
      "fragmentation.largest_free_bytes", s.health.largest_free_bytes, COUNT)                      \
    F(FRAG, "fragmentation_ratio", GAUGE,                                                          \
      "Share of reserved bytes that nobody asked for (internal), and 1 - largest stretch / "       \
      "free bytes (external).")                                                                    \
    S(FRAG, "kind=\"internal\"", "fragmentation.internal_ratio", s.health.internal_ppm, PPM)       \
    S(FRAG, "kind=\"external\"", "fragmentation.external_ratio", s.health.external_ppm, PPM)       \
    F(INDEX, "fragmentation_index", GAUGE,                                                         \
      "Share of free memory that blocks of the sizes lately asked for could not use: now, the "    \
      "highest so far, and as expected at the horizon.")                                           \
    S(INDEX, "when=\"now\"", "fragmentation.index_now", s.health.fi_ppm, PPM)                      \
    S(INDEX, "when=\"peak\"", "fragmentation.index_peak", s.health.fi_peak_ppm, PPM)               \
    S(INDEX, "when=\"expected\"", "fragmentation.index_expected", s.health.fi_predicted_ppm, PPM)  \
    F(EVENT, "fragmentation_event_probability", GAUGE,                                             \
      "Probability that a request is expected to fail or need a move though enough is free.")      \
    S(EVENT, "", "fragmentation.event_probability", s.health.event_ppm, PPM)                       \
    F(POOL_REQUESTS, "pool_requests_total", COUNTER,                                               \
      "Requests for places in the pool by how they were met: found, by more memory, by more "      \
      "though enough was free, by moves, or refused though enough was free, or for want of "       \
      "memory.")                                                                                   \
    S(POOL_REQUESTS, "outcome=\"found\"", "fragmentation.requests.found", s.health.found, COUNT)   \
    S(POOL_REQUESTS, "outcome=\"grew\"", "fragmentation.requests.grew", s.health.grew, COUNT)      \
    S(POOL_REQUESTS, "outcome=\"spread\"",                                                         \
      "fragmentation.requests.spread", s.health.spread, COUNT)                                     \
    S(POOL_REQUESTS, "outcome=\"moved\"", "fragmentation.requests.moved", s.health.moved, COUNT)   \
    S(POOL_REQUESTS, "outcome=\"refused\"",                                                        \
      "fragmentation.requests.refused", s.health.refused, COUNT)                                   \
    S(POOL_REQUESTS, "outcome=\"full\"", "fragmentation.requests.full", s.health.full, COUNT)      \
    F(FORECASTS, "forecasts_total", COUNTER, "Forecasts of failures and moves by what came.")      \
    S(FORECASTS, "outcome=\"true_positive\"",                                                      \
      "fragmentation.forecasts.true_positive", s.health.true_positives, COUNT)                     \
    S(FORECASTS, "outcome=\"false_positive\"",                                                     \
      "fragmentation.forecasts.false_positive", s.health.false_positives, COUNT)                   \
    S(FORECASTS, "outcome=\"false_negative\"",                                                     \
      "fragmentation.forecasts.false_negative", s.health.false_negatives, COUNT)                   \
    S(FORECASTS, "outcome=\"true_negative\"",                                                      \
      "fragmentation.forecasts.true_negative", s.health.true_negatives, COUNT)                     \
    F(WANTED, "compaction_wanted_total", COUNTER, "Times that compaction was wanted, by reason.")  \
    S(WANTED, "reason=\"index\"", "compaction.wanted.index", s.health.wanted_for_fi, COUNT)        \
    S(WANTED, "reason=\"forecast\"",                                                               \
      "compaction.wanted.forecast", s.health.wanted_for_forecast, COUNT)                           \
    S(WANTED, "reason=\"moves\"", "compaction.wanted.moves", s.health.wanted_for_moves, COUNT)     \
    S(WANTED, "reason=\"failing\"",                                                                \
      "compaction.wanted.failing", s.health.wanted_for_failing, COUNT)                             \
    S(WANTED, "reason=\"idle\"", "compaction.wanted.idle", s.health.wanted_for_idle, COUNT)        \
    F(SLICES, "compaction_slices_total", COUNTER, "Slices of compaction.")                         \
    S(SLICES, "", "compaction.slices", s.health.compact_slices, COUNT)                             \
    F(MOVED, "compaction_bytes_total", COUNTER,                                                    \
      "Bytes of tensors moved, of granules given other addresses, and of granules emptied.")       \
    S(MOVED, "event=\"moved\"", "compaction.moved_bytes", s.health.compact_moved_bytes, COUNT)     \
    S(MOVED, "event=\"remapped\"",                                                                 \
      "compaction.remapped_bytes", s.health.compact_remapped_bytes, COUNT)                         \
    S(MOVED, "event=\"emptied\"",                                                                  \
      "compaction.emptied_bytes", s.health.compact_emptied_bytes, COUNT)                           \
    F(MOVED_BLOCKS, "compaction_moved_blocks_total", COUNTER, "Tensors moved.")                    \
    S(MOVED_BLOCKS, "", "compaction.moved_blocks", s.health.compact_moved_blocks, COUNT)           \
    F(GRANULES_REFUSED, "compaction_refused_granules_total", COUNTER,                              \
      "Granules that could not be emptied though that was tried.")                                 \
    S(GRANULES_REFUSED, "", "compaction.refused_granules", s.health.compact_refused, COUNT)        \
    F(SLICE_TIME, "compaction_slice_seconds", GAUGE,                                               \
      "Time of slices: what 99 of 100 took at most, to a factor of two, and the longest.")         \
    S(SLICE_TIME, "which=\"p99\"", "compaction.p99_seconds", s.health.compact_p99_ns, NS)          \
    S(SLICE_TIME, "which=\"longest\"", "compaction.longest_seconds", s.health.compact_max_ns, NS)  \
    F(CONNECTIONS, "http_connections", GAUGE, "Connections that are open.")                        \
    S(CONNECTIONS, "", "http.connections", http.open, COUNT)                                       \
    F(OPENED, "http_connections_total", COUNTER, "Connections so far.")                            \
    S(OPENED, "", "http.connections_total", http.opened, COUNT)                                    \
    F(STREAMS, "http_streams", GAUGE, "Answers that are being streamed.")                          \
    S(STREAMS, "", "http.streams", http.streams, COUNT)                                            \
    F(LEFT, "http_clients_gone_total", COUNTER,                                                    \
      "Requests whose client went before it had its answer.")                                      \
    S(LEFT, "", "http.clients_gone", http.left, COUNT)                                             \
    F(RECEIVED, "http_received_bytes_total", COUNTER, "Bytes of requests' bodies.")                \
    S(RECEIVED, "", "http.received_bytes", http.received, COUNT)                                   \
    F(SENT, "http_sent_bytes_total", COUNTER, "Bytes of answers' bodies.")                         \
    S(SENT, "", "http.sent_bytes", http.sent, COUNT)                                               \
    F(HTTP, "http_requests_total", COUNTER,                                                        \
      "Requests by endpoint and class of status; none: no answer was sent.")

/// The series of an endpoint, of which each class of status has one.
#define SERVE_HTTP_TABLE(S, id, name, path)                                                        \
    S(HTTP, "endpoint=\"" path "\",status=\"2xx\"", "http.requests." name ".2xx",                  \
      http.requests[SERVE_ENDPOINT_##id][SERVE_STATUS_OK], COUNT)                                  \
    S(HTTP, "endpoint=\"" path "\",status=\"4xx\"", "http.requests." name ".4xx",                  \
      http.requests[SERVE_ENDPOINT_##id][SERVE_STATUS_CLIENT], COUNT)                              \
    S(HTTP, "endpoint=\"" path "\",status=\"5xx\"", "http.requests." name ".5xx",                  \
      http.requests[SERVE_ENDPOINT_##id][SERVE_STATUS_SERVER], COUNT)                              \
    S(HTTP, "endpoint=\"" path "\",status=\"none\"", "http.requests." name ".none",                \
      http.requests[SERVE_ENDPOINT_##id][SERVE_STATUS_NONE], COUNT)
// clang-format on

#define NO_FAMILY(id, name, kind, help)
#define NO_SERIES(family, labels, path, member, scale)

enum {
#define FAMILY_ENUM(id, name, kind, help) FAMILY_##id,
    SERVE_TABLE(FAMILY_ENUM, NO_SERIES)
#undef FAMILY_ENUM
};

static const serve_family families[] = {
#define FAMILY_ROW(id, name, kind, help) {name, SERVE_##kind, help},
    SERVE_TABLE(FAMILY_ROW, NO_SERIES)
#undef FAMILY_ROW
};

#define SERIES_ROW(family, labels, path, member, scale)                                            \
    {FAMILY_##family, labels, path, offsetof(serve_view, member), SERVE_##scale},
#define ENDPOINT_ROWS(id, name, path) SERVE_HTTP_TABLE(SERIES_ROW, id, name, path)
static const serve_series series_list[] = {SERVE_TABLE(NO_FAMILY, SERIES_ROW)
                                               SERVE_ENDPOINT_MAP(ENDPOINT_ROWS)};
#undef ENDPOINT_ROWS
#undef SERIES_ROW

// a number is read by its scale's type, both of which have 8 bytes
#define IS_8_BYTES(family, labels, path, member, scale)                                            \
    _Static_assert(sizeof(((serve_view*)0)->member) == 8, path);
SERVE_TABLE(NO_FAMILY, IS_8_BYTES)
#undef IS_8_BYTES

static const serve_histogram_series histograms[] = {
#define HISTOGRAM_ROW(member, name, unit, help)                                                    \
    {name, SERVE_##unit, help, offsetof(serve_latencies, member)},
    SERVE_HISTOGRAM_MAP(HISTOGRAM_ROW)
#undef HISTOGRAM_ROW
};

// ---- Numbers.

static uint64_t positive(int64_t count) { return count > 0 ? (uint64_t)count : 0; }

static uint64_t less(uint64_t whole, uint64_t part) { return whole > part ? whole - part : 0; }

static serve_derived derive(const api_about* about, const serve_snapshot* s) {
    const berth_kv_stats* kv = &s->kv;
    const llm_scheduler_stats* steps = &s->scheduler;
    serve_derived d = {.start_seconds = positive(about->created),
                       .uptime_seconds = positive(s->unix_seconds - about->created),
                       .kv_used_bytes = kv->held_blocks * kv->block_bytes,
                       .kv_cached_bytes = kv->cached_blocks * kv->block_bytes,
                       .kv_most_blocks = positive(s->layout.max_blocks),
                       .kv_block_tokens = positive(s->layout.block_tokens)};
    d.kv_free_bytes = less(s->memory.kv_bytes, d.kv_used_bytes + d.kv_cached_bytes);
    d.kv_most_tokens = d.kv_most_blocks * d.kv_block_tokens;
    const uint64_t taken = s->memory.mapped_bytes + s->weight_bytes + s->memory.host_bytes;
    d.free_bytes = s->budget.total_bytes > 0
                       ? less(s->budget.total_bytes, taken)
                       : less(s->memory.capacity_bytes, s->memory.mapped_bytes);
    d.last_tokens = less(kv->prompt_tokens,
                         kv->hit_tokens + kv->miss_none_shared + kv->miss_too_short +
                             kv->miss_evicted + kv->miss_other_tenant);
    d.model_ns = less(steps->whole_ns,
                      steps->scheduler_ns + steps->kv_ns + steps->step_ns + steps->given_ns);
    return d;
}

static uint64_t read_counter(const atomic_uint_fast64_t* counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void read_counters(const serve_counters* from, serve_http_numbers* out) {
    for (size_t i = 0; i < SERVE_ENDPOINT_COUNT; i++)
        for (size_t j = 0; j < SERVE_STATUS_COUNT; j++)
            out->requests[i][j] = read_counter(&from->requests[i][j]);
#define READ_COUNTER(name, help) out->name = read_counter(&from->name);
    SERVE_COUNTER_MAP(READ_COUNTER)
#undef READ_COUNTER
}

void serve_view_make(const api_about* about,
                     const serve_snapshot* snapshot,
                     const serve_counters* counters,
                     serve_view* out) {
    out->s = *snapshot;
    out->d = derive(about, snapshot);
    read_counters(counters, &out->http);
}

serve_value serve_series_value(const serve_view* view, const serve_series* series) {
    const char* at = (const char*)view + series->offset;
    if (series->scale == SERVE_REAL) {
        serve_value value = {.is_real = true};
        memcpy(&value.real, at, sizeof value.real);
        return value;
    }
    uint64_t count;
    memcpy(&count, at, sizeof count);
    if (series->scale == SERVE_COUNT)
        return (serve_value){.count = count < INT64_MAX ? (int64_t)count : INT64_MAX};
    const double unit = series->scale == SERVE_NS ? 1e9 : 1e6;
    return (serve_value){.is_real = true, .real = (double)count / unit};
}

const serve_family* serve_families(void) { return families; }

const serve_series* serve_series_list(size_t* out_count) {
    *out_count = sizeof series_list / sizeof *series_list;
    return series_list;
}

const serve_histogram_series* serve_histogram_list(size_t* out_count) {
    *out_count = sizeof histograms / sizeof *histograms;
    return histograms;
}
