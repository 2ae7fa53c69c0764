// SPDX-License-Identifier: Apache-2.0
// The report's numbers, its table and its JSON.
#include "generate_report.h"

#include "report_text.h"

#include <inttypes.h>
#include <string.h>

/// Copies Berth's counters of the step called `name`; false if it knows none.
static bool find_counters(berth_runtime* runtime, const char* name, berth_step_counters* out) {
    size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; i++) {
        const char* step_name;
        if (berth_runtime_query_step(runtime, i, &step_name, out) != BERTH_OK) return false;
        if (strcmp(step_name, name) == 0) return true;
    }
    return false;
}

berth_status llm_report_collect(const llm_session* session,
                                llm_report* out_report,
                                llm_error* error) {
    berth_runtime* runtime = berth_context_runtime(session->model->context);
    *out_report = (llm_report){.file_weight_bytes = session->model->weight_bytes};
    berth_kv_cache_layout(session->cache, &out_report->layout);
    berth_kv_cache_query_stats(session->cache, &out_report->kv);
    for (int kind = 0; kind < LLM_STEP_KIND_COUNT; kind++) {
        if (session->steps[kind].runs == 0) continue;
        llm_report_step* step = &out_report->steps[out_report->step_count++];
        step->name = llm_step_kind_name((llm_step_kind)kind);
        step->record = session->steps[kind];
        if (!find_counters(runtime, step->name, &step->counters))
            step->counters = (berth_step_counters){0};
    }
    berth_status status = berth_runtime_query_memory(runtime, &out_report->memory);
    if (status != BERTH_OK) llm_fail(error, status, "%s", berth_last_error());
    return status;
}

static double per_second(uint64_t count, uint64_t ns) {
    return llm_ratio((double)count * 1e9, (double)ns);
}

/// Mean peak / lower bound over the replays of a kind.
static double mean_ratio(const berth_step_counters* c) {
    return llm_ratio((double)c->ratio_sum_ppm * 1e-6, (double)c->ratio_runs);
}

static double coverage(const berth_step_counters* c) {
    return llm_ratio((double)c->placed_bytes, (double)c->allocated_bytes);
}

/// How many times larger the run's peak would be with a place of its own for each value.
static double reuse_factor(const berth_step_counters* c) {
    return llm_ratio((double)c->sum_bytes, (double)c->peak_bytes);
}

static double planning_share(const llm_report_step* step) {
    return llm_ratio((double)step->counters.plan_ns, (double)step->record.run_ns);
}

/// Writes one cell of a row for one kind of step.
typedef llm_cell (*cell_fn)(const llm_report_step* step);

static llm_cell runs(const llm_report_step* s) { return llm_cell_count(s->counters.runs); }
static llm_cell hits(const llm_report_step* s) { return llm_cell_count(s->counters.hits); }
static llm_cell partial(const llm_report_step* s) { return llm_cell_count(s->counters.partial); }
static llm_cell recorded(const llm_report_step* s) { return llm_cell_count(s->counters.recorded); }
static llm_cell side_exits(const llm_report_step* s) {
    return llm_cell_count(s->counters.side_exits);
}
static llm_cell late_misses(const llm_report_step* s) {
    return llm_cell_count(s->record.late_misses);
}
static llm_cell plans(const llm_report_step* s) { return llm_cell_count(s->counters.plans); }
static llm_cell paths(const llm_report_step* s) { return llm_cell_count(s->counters.paths); }
static llm_cell evaluations(const llm_report_step* s) {
    return llm_cell_count(s->counters.evaluations);
}
static llm_cell covered(const llm_report_step* s) {
    return llm_cell_number(100.0 * coverage(&s->counters), 2, " %");
}
static llm_cell peak(const llm_report_step* s) { return llm_cell_bytes(s->counters.peak_bytes); }
static llm_cell bound(const llm_report_step* s) {
    return llm_cell_bytes(s->counters.lower_bound_bytes);
}
/// Without a replay there is nothing to compare.
static const llm_cell NO_RATIO = {"-"};

static llm_cell ratio_mean(const llm_report_step* s) {
    if (s->counters.ratio_runs == 0) return NO_RATIO;
    return llm_cell_number(mean_ratio(&s->counters), 4, "");
}
static llm_cell ratio_max(const llm_report_step* s) {
    if (s->counters.ratio_runs == 0) return NO_RATIO;
    return llm_cell_number((double)s->counters.ratio_max_ppm * 1e-6, 4, "");
}
static llm_cell unshared(const llm_report_step* s) { return llm_cell_bytes(s->counters.sum_bytes); }
static llm_cell reuse(const llm_report_step* s) {
    return llm_cell_number(reuse_factor(&s->counters), 1, " x");
}
static llm_cell pooled(const llm_report_step* s) { return llm_cell_bytes(s->counters.pool_bytes); }
static llm_cell planning(const llm_report_step* s) { return llm_cell_time(s->counters.plan_ns); }
static llm_cell share(const llm_report_step* s) {
    return llm_cell_number(100.0 * planning_share(s), 4, " %");
}
static llm_cell tokens(const llm_report_step* s) { return llm_cell_count(s->record.tokens); }
static llm_cell speed(const llm_report_step* s) {
    return llm_cell_number(per_second(s->record.tokens, s->record.run_ns), 1, "");
}

static void print_row(FILE* out, const llm_report* report, const char* label, cell_fn fn) {
    fprintf(out, "  %-34s", label);
    for (size_t i = 0; i < report->step_count; i++)
        fprintf(out, " %14s", fn(&report->steps[i]).text);
    fputc('\n', out);
}

static void print_steps(FILE* out, const llm_report* report) {
    static const struct {
        const char* label;
        cell_fn fn;
    } rows[] = {
        {"runs", runs},
        {"hits", hits},
        {"partial (some values from the pool)", partial},
        {"recorded (no plan)", recorded},
        {"side exits", side_exits},
        {"misses after three lengths", late_misses},
        {"paths", paths},
        {"plans made", plans},
        {"shapes evaluated", evaluations},
        {"coverage", covered},
        {"largest planned peak", peak},
        {"its lower bound", bound},
        {"peak / lower bound, mean", ratio_mean},
        {"peak / lower bound, largest", ratio_max},
        {"without sharing", unshared},
        {"reuse factor", reuse},
        {"most asked of the pool", pooled},
        {"planning time", planning},
        {"share of the steps' time", share},
        {"tokens", tokens},
        {"tokens/s", speed},
    };
    fprintf(out, "%-36s", "Steps");
    for (size_t i = 0; i < report->step_count; i++)
        fprintf(out, " %14s", report->steps[i].name);
    fputc('\n', out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        print_row(out, report, rows[i].label, rows[i].fn);
}

/// What the cache of keys and values is made of, and what it holds now.
static void print_cache(FILE* out, const llm_report* report) {
    const berth_kv_stats* kv = &report->kv;
    fprintf(out,
            "Cache of keys and values: blocks of %" PRId64 " tokens, %s each; %" PRIu64
            " tokens in %" PRIu64 " of them, %" PRIu64 " computed in all\n",
            report->layout.block_tokens,
            llm_cell_bytes(kv->block_bytes).text,
            kv->held_tokens,
            kv->held_blocks,
            kv->appended_tokens);
}

/// Memory by its owner.
static void print_memory(FILE* out, const llm_report* report) {
    const berth_memory_stats* m = &report->memory;
    const struct {
        const char* label;
        uint64_t bytes;
    } rows[] = {
        {"mapped now", m->mapped_bytes},
        {"  frames of steps", m->frames_bytes},
        {"  pool", m->pool_bytes},
        {"  cache of keys and values", m->kv_bytes},
        {"most mapped at one time", m->peak_mapped_bytes},
        {"asked of the pool now", m->requested_bytes},
        {"Berth's own metadata", m->host_bytes},
        {"weights in the model's file", report->file_weight_bytes},
    };
    fputs("Memory\n", out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(out, "  %-34s %14s\n", rows[i].label, llm_cell_bytes(rows[i].bytes).text);
}

static void print_comparison(FILE* out, const llm_report* report, const llm_comparison* other) {
    fputs("Compared with planning off\n", out);
    fprintf(
        out, "  %-34s %14s\n", "tokens", other->tokens_are_identical ? "identical" : "DIFFERENT");
    fprintf(out, "  %-34s %14s %14s\n", "", "as asked", "off");
    fprintf(out,
            "  %-34s %14s %14s\n",
            "most mapped at one time",
            llm_cell_bytes(report->memory.peak_mapped_bytes).text,
            llm_cell_bytes(other->other->memory.peak_mapped_bytes).text);
    for (size_t i = 0; i < report->step_count && i < other->other->step_count; i++) {
        char label[48];
        snprintf(label, sizeof label, "%s tokens/s", report->steps[i].name);
        fprintf(out,
                "  %-34s %14s %14s\n",
                label,
                speed(&report->steps[i]).text,
                speed(&other->other->steps[i]).text);
    }
}

void llm_report_print(FILE* out, const llm_report* report, const llm_comparison* comparison) {
    fprintf(out,
            "Answered %" PRIu64 " prompts: %" PRIu64 " tokens read, %" PRIu64 " made\n",
            report->prompts,
            report->prompt_tokens,
            report->answer_tokens);
    print_steps(out, report);
    print_cache(out, report);
    print_memory(out, report);
    if (comparison != NULL) print_comparison(out, report, comparison);
}

static void write_step_json(FILE* out, const llm_report_step* step) {
    const berth_step_counters* c = &step->counters;
    fprintf(out, "{\"name\":\"%s\"", step->name);
#define WRITE_COUNTER(name, help) fprintf(out, ",\"" #name "\":%" PRIu64, c->name);
    BERTH_STEP_STATS_MAP(WRITE_COUNTER)
#undef WRITE_COUNTER
    fprintf(out,
            ",\"late_misses\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"run_ns\":%" PRIu64
            ",\"coverage\":%.6f,\"ratio_mean\":%.6f,\"ratio_max\":%.6f,\"reuse_factor\":%.3f"
            ",\"planning_share\":%.8f,\"tokens_per_s\":%.2f}",
            step->record.late_misses,
            step->record.tokens,
            step->record.run_ns,
            coverage(c),
            mean_ratio(c),
            (double)c->ratio_max_ppm * 1e-6,
            reuse_factor(c),
            planning_share(step),
            per_second(step->record.tokens, step->record.run_ns));
}

/// Writes the members of a report without the braces around them.
static void write_members(FILE* out, const llm_report* report) {
    fprintf(out,
            "\"prompts\":%" PRIu64 ",\"prompt_tokens\":%" PRIu64 ",\"answer_tokens\":%" PRIu64
            ",\"steps\":[",
            report->prompts,
            report->prompt_tokens,
            report->answer_tokens);
    for (size_t i = 0; i < report->step_count; i++) {
        if (i > 0) fputc(',', out);
        write_step_json(out, &report->steps[i]);
    }
    fprintf(out,
            "],\"file_weight_bytes\":%" PRIu64 ",\"kv\":{\"block_tokens\":%" PRId64,
            report->file_weight_bytes,
            report->layout.block_tokens);
#define WRITE_KV(name, help) fprintf(out, ",\"" #name "\":%" PRIu64, report->kv.name);
    BERTH_KV_STATS_MAP(WRITE_KV)
#undef WRITE_KV
    fputs("},\"memory\":{", out);
    const char* comma = "";
#define WRITE_MEMORY(name, help)                                                                   \
    fprintf(out, "%s\"" #name "\":%" PRIu64, comma, report->memory.name);                          \
    comma = ",";
    BERTH_MEMORY_STATS_MAP(WRITE_MEMORY)
#undef WRITE_MEMORY
    fputc('}', out);
}

void llm_report_write_json(FILE* out, const llm_report* report, const llm_comparison* comparison) {
    fputc('{', out);
    write_members(out, report);
    if (comparison != NULL) {
        fprintf(out,
                ",\"identical\":%s,\"planning_off\":{",
                comparison->tokens_are_identical ? "true" : "false");
        write_members(out, comparison->other);
        fputc('}', out);
    }
    fputs("}\n", out);
}
