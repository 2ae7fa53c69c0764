// SPDX-License-Identifier: Apache-2.0
// The report of a replay.
#include "replay_report.h"

#include "report_text.h"

#include <inttypes.h>
#include <string.h>

enum { TABLE_ROWS = 20 }; ///< of memory over time

double llm_replay_hit_ratio(const llm_replay_report* report) {
    return llm_ratio((double)report->kv.hit_tokens, (double)report->kv.prompt_tokens);
}

double llm_replay_coverage(const llm_replay_report* report) {
    return llm_ratio((double)(report->prefill.placed_bytes + report->decode.placed_bytes),
                     (double)(report->prefill.allocated_bytes + report->decode.allocated_bytes));
}

double llm_replay_waste(const llm_replay_report* report) {
    return llm_ratio(report->wasted_tokens, report->held_tokens + report->wasted_tokens);
}

/// Time of scheduling, of the cache's bookkeeping, and of beginning and ending steps.
static uint64_t planning_ns(const llm_replay_report* report) {
    const llm_scheduler_stats* s = &report->scheduler;
    return s->scheduler_ns + s->kv_ns + s->step_ns;
}

static double planning_share(const llm_replay_report* report) {
    return llm_ratio((double)planning_ns(report), (double)report->scheduler.whole_ns);
}

double llm_replay_speed(const llm_replay_report* report) {
    return llm_ratio((double)report->answer_tokens, report->seconds);
}

static double plan_hits(const llm_replay_report* report) {
    return llm_ratio((double)(report->prefill.hits + report->decode.hits),
                     (double)(report->prefill.runs + report->decode.runs));
}

static double batch_mean(const llm_replay_report* report) {
    return llm_ratio((double)report->scheduler.batch_sum, (double)report->scheduler.steps);
}

static llm_cell percent(double share) { return llm_cell_number(100.0 * share, 2, " %"); }

static uint64_t answered(const llm_replay_report* report) {
    return report->ends[LLM_END_LIMIT] + report->ends[LLM_END_STOP_TOKEN];
}

// ---- Text.

static void print_head(FILE* out, const llm_replay_report* report) {
    fprintf(out,
            "%s %" PRIu64 " of %" PRIu64 " requests in %.2f s%s",
            report->is_simulated ? "Simulated" : "Answered",
            answered(report),
            report->requests,
            report->seconds,
            report->was_stopped ? ", stopped" : "");
    if (report->is_simulated) fprintf(out, " (computed in %.2f s)", report->real_seconds);
    fputc('\n', out);
    for (int reason = 0; reason < LLM_END_COUNT; reason++)
        if (reason != LLM_END_LIMIT && report->ends[reason] > 0)
            fprintf(out,
                    "  %-28s %12" PRIu64 "\n",
                    llm_end_text((llm_end_reason)reason),
                    report->ends[reason]);
    if (report->first_error.text[0] != '\0')
        fprintf(out, "  the first: %s\n", report->first_error.text);
}

static void print_tokens(FILE* out, const llm_replay_report* report) {
    fprintf(out, "%-30s %12s %12s\n", "Tokens", "prompt", "answer");
    fprintf(out,
            "  %-28s %12" PRIu64 " %12" PRIu64 "\n",
            "of answered requests",
            report->prompt_tokens,
            report->answer_tokens);
    fprintf(out,
            "  %-28s %12.1f %12.1f\n",
            "a second",
            llm_ratio((double)report->prompt_tokens, report->seconds),
            llm_replay_speed(report));
}

void llm_replay_times_print(FILE* out, const llm_replay_times_row* rows, size_t count) {
    fprintf(out, "%-30s %12s %12s %12s %12s\n", "Times in ms", "p50", "p90", "p99", "longest");
    for (size_t i = 0; i < count; i++)
        fprintf(out,
                "  %-28s %12.1f %12.1f %12.1f %12.1f\n",
                rows[i].label,
                rows[i].times->p50_ms,
                rows[i].times->p90_ms,
                rows[i].times->p99_ms,
                rows[i].times->max_ms);
}

static void print_times(FILE* out, const llm_replay_report* report) {
    const llm_replay_times_row rows[] = {{"in the queue", &report->queue},
                                         {"to the first token", &report->first},
                                         {"for each further token", &report->token}};
    llm_replay_times_print(out, rows, sizeof rows / sizeof *rows);
}

static void print_line(FILE* out, const char* label, llm_cell value) {
    fprintf(out, "  %-28s %12s\n", label, value.text);
}

static void print_cache(FILE* out, const llm_replay_report* report) {
    const berth_kv_stats* kv = &report->kv;
    const struct {
        const char* label;
        uint64_t tokens;
    } misses[] = {{"  like nothing cached", kv->miss_none_shared},
                  {"  less than a block", kv->miss_too_short},
                  {"  evicted", kv->miss_evicted},
                  {"  under another key", kv->miss_other_tenant}};
    fputs("Keys and values\n", out);
    print_line(out, "prompt tokens looked up", llm_cell_count(kv->prompt_tokens));
    print_line(out, "found in the cache", percent(llm_replay_hit_ratio(report)));
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        print_line(out,
                   misses[i].label,
                   percent(llm_ratio((double)misses[i].tokens, (double)kv->prompt_tokens)));
    print_line(out, "one block", llm_cell_bytes(report->layout.block_bytes));
    print_line(out, "held and empty, over steps", percent(llm_replay_waste(report)));
    print_line(out, "blocks evicted", llm_cell_count(kv->evicted_blocks));
}

static void print_steps(FILE* out, const llm_replay_report* report) {
    const llm_scheduler_stats* s = &report->scheduler;
    fputs("Steps\n", out);
    print_line(out, "run", llm_cell_count(s->steps));
    print_line(out, "requests in one, mean", llm_cell_number(batch_mean(report), 1, ""));
    print_line(out, "requests in one, most", llm_cell_count(s->batch_max));
    print_line(out, "made smaller for room", llm_cell_count(s->shrunk_steps));
    print_line(out, "parked to host memory", llm_cell_count(s->parks_host));
    print_line(out, "parked by dropping", llm_cell_count(s->parks_drop));
    print_line(out, "  of both for another tenant", llm_cell_count(s->parks_share));
    print_line(out, "tokens computed again", llm_cell_count(s->recomputed_tokens));
    print_line(out, "placed by plans, of bytes", percent(llm_replay_coverage(report)));
    print_line(out, "hits of plans, of steps", percent(plan_hits(report)));
    const double each = s->steps == 0 ? 0.0 : (double)planning_ns(report) / (double)s->steps;
    print_line(out, "planning, mean of a step", llm_cell_time((uint64_t)each));
    // a simulation's steps compute nothing: a share of their time says nothing
    if (!report->is_simulated)
        print_line(out, "planning, of steps' time", percent(planning_share(report)));
}

static void print_memory(FILE* out, const llm_replay_report* report) {
    fprintf(out,
            "%-10s %8s %7s %7s %10s %10s %10s %10s %10s %10s\n",
            "Memory at",
            "running",
            "queued",
            "parked",
            "frames",
            "pool",
            "cache",
            "  held",
            "  kept",
            "in all");
    const size_t count = report->sample_count;
    const size_t rows = count < TABLE_ROWS ? count : TABLE_ROWS;
    for (size_t i = 0; i < rows; i++) {
        // evenly, the last one included
        const size_t at = rows == 1 ? 0 : i * (count - 1) / (rows - 1);
        const llm_replay_sample* s = &report->samples[at];
        fprintf(out,
                "%8.2f s %8" PRIu64 " %7" PRIu64 " %7" PRIu64 " %10s %10s %10s %10s %10s %10s\n",
                (double)s->time_ms * 1e-3,
                s->running,
                s->queued,
                s->parked,
                llm_cell_bytes(s->frames_bytes).text,
                llm_cell_bytes(s->pool_bytes).text,
                llm_cell_bytes(s->kv_bytes).text,
                llm_cell_bytes(s->kv_held_bytes).text,
                llm_cell_bytes(s->kv_cached_bytes).text,
                llm_cell_bytes(s->mapped_bytes).text);
    }
    fprintf(out,
            "Most at one time %s, of %s that there may be\n",
            llm_cell_bytes(report->peak_bytes).text,
            llm_cell_bytes(report->memory.capacity_bytes).text);
}

void llm_replay_report_print(FILE* out, const llm_replay_report* report) {
    print_head(out, report);
    print_tokens(out, report);
    print_times(out, report);
    print_cache(out, report);
    print_steps(out, report);
    print_memory(out, report);
}

void llm_replay_report_print_compared(FILE* out,
                                      const llm_replay_report* reports,
                                      const char* const* modes,
                                      size_t count) {
    fprintf(out,
            "%-8s %10s %12s %12s %12s %12s %9s %9s\n",
            "Mode",
            "tokens/s",
            "first p50",
            "first p99",
            "token p50",
            "most memory",
            "found",
            "planned");
    for (size_t i = 0; i < count; i++) {
        const llm_replay_report* r = &reports[i];
        fprintf(out,
                "%-8s %10.1f %9.1f ms %9.1f ms %9.1f ms %12s %9s %9s\n",
                modes[i],
                llm_replay_speed(r),
                r->first.p50_ms,
                r->first.p99_ms,
                r->token.p50_ms,
                llm_cell_bytes(r->peak_bytes).text,
                percent(llm_replay_hit_ratio(r)).text,
                percent(llm_replay_coverage(r)).text);
    }
}

// ---- JSON.

void llm_replay_times_write_json(FILE* out, const char* name, const llm_replay_times* t) {
    fprintf(out,
            ",\"%s\":{\"count\":%" PRIu64
            ",\"p50_ms\":%.6f,\"p90_ms\":%.6f,\"p99_ms\":%.6f,\"max_ms\":%.6f}",
            name,
            t->count,
            t->p50_ms,
            t->p90_ms,
            t->p99_ms,
            t->max_ms);
}

// One object of a list of counters; `comma` is set before each field but the first.
#define WRITE_FIELD(name, help)                                                                    \
    fprintf(out, "%s\"" #name "\":%" PRIu64, comma, from->name);                                   \
    comma = ",";

static void write_sample(FILE* out, const llm_replay_sample* from) {
    const char* comma = "{";
    LLM_REPLAY_SAMPLE_MAP(WRITE_FIELD)
    fputc('}', out);
}

static void write_scheduler(FILE* out, const llm_scheduler_stats* from) {
    const char* comma = ",\"scheduler\":{";
    LLM_SCHEDULER_STATS_MAP(WRITE_FIELD)
    fputc('}', out);
}

static void write_kv(FILE* out, const berth_kv_stats* from) {
    const char* comma = ",\"kv\":{";
    BERTH_KV_STATS_MAP(WRITE_FIELD)
    fputc('}', out);
}

static void write_step(FILE* out, const char* name, const berth_step_counters* from) {
    fprintf(out, ",\"%s\":", name);
    const char* comma = "{";
    BERTH_STEP_STATS_MAP(WRITE_FIELD)
    fputc('}', out);
}

static void write_memory(FILE* out, const berth_memory_stats* from) {
    const char* comma = ",\"memory\":{";
    BERTH_MEMORY_STATS_MAP(WRITE_FIELD)
    fputc('}', out);
}
#undef WRITE_FIELD

static void write_numbers(FILE* out, const llm_replay_report* r) {
    fprintf(out,
            "\"simulated\":%s,\"stopped\":%s,\"requests\":%" PRIu64
            ",\"seconds\":%.6f,\"real_seconds\":%.6f,\"prompt_tokens\":%" PRIu64
            ",\"answer_tokens\":%" PRIu64 ",\"prompt_tok_s\":%.3f,\"tok_s\":%.3f",
            r->is_simulated ? "true" : "false",
            r->was_stopped ? "true" : "false",
            r->requests,
            r->seconds,
            r->real_seconds,
            r->prompt_tokens,
            r->answer_tokens,
            llm_ratio((double)r->prompt_tokens, r->seconds),
            llm_replay_speed(r));
    fprintf(out,
            ",\"hit_rate\":%.6f,\"coverage\":%.6f,\"plan_hits\":%.6f,\"waste\":%.6f,"
            "\"planning_share\":%.6f,\"peak_bytes\":%" PRIu64 ",\"block_bytes\":%" PRIu64,
            llm_replay_hit_ratio(r),
            llm_replay_coverage(r),
            plan_hits(r),
            llm_replay_waste(r),
            planning_share(r),
            r->peak_bytes,
            r->layout.block_bytes);
}

static void write_report(FILE* out, const llm_replay_report* r, const char* mode) {
    fprintf(out, "{\"mode\":\"%s\",", mode);
    write_numbers(out, r);
    for (int reason = 0; reason < LLM_END_COUNT; reason++)
        fprintf(out,
                "%s\"%s\":%" PRIu64,
                reason == 0 ? ",\"ends\":{" : ",",
                llm_end_text((llm_end_reason)reason),
                r->ends[reason]);
    fputc('}', out);
    llm_replay_times_write_json(out, "queue", &r->queue);
    llm_replay_times_write_json(out, "ttft", &r->first);
    llm_replay_times_write_json(out, "tpot", &r->token);
    write_scheduler(out, &r->scheduler);
    write_kv(out, &r->kv);
    write_step(out, "prefill", &r->prefill);
    write_step(out, "decode", &r->decode);
    write_memory(out, &r->memory);
    fputs(",\"series\":[", out);
    for (size_t i = 0; i < r->sample_count; i++) {
        if (i > 0) fputs(",\n", out);
        write_sample(out, &r->samples[i]);
    }
    fputs("]}", out);
}

void llm_replay_report_write_json(FILE* out,
                                  const llm_replay_report* reports,
                                  const char* const* modes,
                                  size_t count) {
    fputs("{\"modes\":[\n", out);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) fputs(",\n", out);
        write_report(out, &reports[i], modes[i]);
    }
    fputs("]}\n", out);
}
