// SPDX-License-Identifier: Apache-2.0
// The report of a load, as text and as JSON.
#include <inttypes.h>
#include <stdio.h>

#include "http_load_trace.h"
#include "replay_report.h"
#include "report_text.h"

double http_load_speed(const http_load_report* report) {
    return llm_ratio((double)report->answer_tokens, report->seconds);
}

static double cached_share(const http_load_report* report) {
    return llm_ratio((double)report->cached_tokens, (double)report->prompt_tokens);
}

// ---- Text.

static void print_head(FILE* out, const http_load_report* report) {
    fprintf(out,
            "Answered %" PRIu64 " of %" PRIu64 " requests in %.2f s%s\n",
            report->ends[CLIENT_ANSWERED],
            report->requests,
            report->seconds,
            report->was_stopped ? ", stopped" : "");
    for (int end = 0; end < CLIENT_END_COUNT; end++)
        if (end != CLIENT_ANSWERED && report->ends[end] > 0)
            fprintf(out,
                    "  %-28s %12" PRIu64 "\n",
                    client_end_text((client_end)end),
                    report->ends[end]);
    for (size_t i = 0; i < report->status_count; i++)
        fprintf(out,
                "  HTTP status %-16ld %12" PRIu64 "\n",
                report->statuses[i].http_status,
                report->statuses[i].count);
    if (report->first_error.text[0] != '\0')
        fprintf(out, "  the first: %s\n", report->first_error.text);
}

static void print_tokens(FILE* out, const http_load_report* report) {
    const double prompts = (double)report->prompt_tokens;
    fprintf(out, "%-30s %12s %12s\n", "Tokens", "prompt", "answer");
    fprintf(out,
            "  %-28s %12" PRIu64 " %12" PRIu64 "\n",
            "of answered requests",
            report->prompt_tokens,
            report->answer_tokens);
    fprintf(out,
            "  %-28s %12.1f %12.1f\n",
            "a second",
            llm_ratio(prompts, report->seconds),
            http_load_speed(report));
    fprintf(out, "  %-28s %11.2f%%\n", "found in the cache", 100.0 * cached_share(report));
    if (report->other_lengths > 0)
        fprintf(out,
                "  %-28s %12s %12" PRIu64 "\n",
                "answers of another length",
                "",
                report->other_lengths);
    if (report->uncounted > 0)
        fprintf(out,
                "  The server did not count the tokens of %" PRIu64
                " requests: their answers are counted by events.\n",
                report->uncounted);
    if (report->unknown_cache > 0)
        fprintf(out,
                "  The server did not say of %" PRIu64 " requests what it had cached.\n",
                report->unknown_cache);
}

void http_load_report_print(FILE* out, const http_load_report* report) {
    print_head(out, report);
    print_tokens(out, report);
    const llm_replay_times_row rows[] = {{"waiting to be sent", &report->queue},
                                         {"to the first token", &report->first},
                                         {"for each further token", &report->token},
                                         {"to the end", &report->whole}};
    llm_replay_times_print(out, rows, sizeof rows / sizeof *rows);
}

// ---- JSON.

static void write_counts(FILE* out, const http_load_report* report) {
    fputs(",\"ends\":{", out);
    for (int end = 0; end < CLIENT_END_COUNT; end++)
        fprintf(out,
                "%s\"%s\":%" PRIu64,
                end == 0 ? "" : ",",
                client_end_text((client_end)end),
                report->ends[end]);
    fputs("},\"statuses\":{", out);
    for (size_t i = 0; i < report->status_count; i++)
        fprintf(out,
                "%s\"%ld\":%" PRIu64,
                i == 0 ? "" : ",",
                report->statuses[i].http_status,
                report->statuses[i].count);
    fputc('}', out);
}

void http_load_report_write_json(FILE* out, const http_load_report* r) {
    fprintf(
        out,
        "{\"modes\":[\n{\"mode\":\"url\",\"simulated\":false,\"stopped\":%s,\"requests\":%" PRIu64
        ",\"seconds\":%.6f,\"prompt_tokens\":%" PRIu64 ",\"cached_tokens\":%" PRIu64
        ",\"answer_tokens\":%" PRIu64 ",\"uncounted\":%" PRIu64 ",\"other_lengths\":%" PRIu64
        ",\"prompt_tok_s\":%.3f,\"tok_s\":%.3f",
        r->was_stopped ? "true" : "false",
        r->requests,
        r->seconds,
        r->prompt_tokens,
        r->cached_tokens,
        r->answer_tokens,
        r->uncounted,
        r->other_lengths,
        llm_ratio((double)r->prompt_tokens, r->seconds),
        http_load_speed(r));
    if (r->unknown_cache < r->ends[CLIENT_ANSWERED])
        fprintf(out, ",\"hit_rate\":%.6f", cached_share(r));
    else
        fputs(",\"hit_rate\":null", out);
    write_counts(out, r);
    llm_replay_times_write_json(out, "queue", &r->queue);
    llm_replay_times_write_json(out, "ttft", &r->first);
    llm_replay_times_write_json(out, "tpot", &r->token);
    llm_replay_times_write_json(out, "whole", &r->whole);
    fputs("}\n]}\n", out);
}
