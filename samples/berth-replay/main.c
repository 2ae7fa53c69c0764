// SPDX-License-Identifier: Apache-2.0
// berth-replay: serves a trace of requests with a language model, for real or simulated.
#include "llm_device.h"
#include "replay_cli.h"
#include "replay_report.h"
#include "replay_url.h"
#include "report_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

/// A line on the terminal that is written over and over.
static void show_progress(void* user, const llm_replay_progress* p) {
    (void)user;
    enum { WIDTH = 24 };
    char bar[WIDTH + 1];
    const uint64_t filled = p->done * WIDTH / p->requests;
    for (uint64_t i = 0; i < WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr,
            "\r\033[K[%s] %" PRIu64 "/%" PRIu64 "  %.1f tok/s  %" PRIu64 " running",
            bar,
            p->done,
            p->requests,
            llm_ratio((double)p->answer_tokens, p->seconds),
            p->running);
    // of another process it is not known
    if (p->mapped_bytes > 0)
        fprintf(
            stderr, ", %" PRIu64 " queued, %s", p->queued, llm_cell_bytes(p->mapped_bytes).text);
    fflush(stderr);
}

static void hide_progress(const replay_cli* cli) {
    if (cli->setup.replay.on_progress != NULL) fputs("\r\033[K", stderr);
}

/// Closes a file that was written; says which write failed.
static berth_status close_written(FILE* file, const char* path, llm_error* error) {
    const int earlier = ferror(file) != 0 ? EIO : 0;
    const int reason = fclose(file) != 0 ? errno : earlier;
    if (reason == 0) return BERTH_OK;
    return llm_fail(error, BERTH_ERR_IO, "%s: %s", path, strerror(reason));
}

static berth_status open_written(const char* path, FILE** out_file, llm_error* error) {
    *out_file = fopen(path, "w");
    if (*out_file != NULL) return BERTH_OK;
    return llm_fail(error, BERTH_ERR_IO, "%s: %s", path, strerror(errno));
}

static berth_status write_text(const char* path, const llm_bytes* text, llm_error* error) {
    FILE* file;
    berth_status status = open_written(path, &file, error);
    if (status != BERTH_OK) return status;
    fwrite(text->data, 1, text->size, file);
    return close_written(file, path, error);
}

/// Reads or makes the trace; a made one that is only to be written is written.
static berth_status open_trace(const replay_cli* cli, llm_request_trace* out, llm_error* error) {
    if (!cli->makes) return llm_request_trace_read(cli->trace_path, out, error);
    llm_bytes text;
    berth_status status = llm_trace_make(&cli->recipe, &text, error);
    if (status == BERTH_OK && cli->write_path != NULL)
        status = write_text(cli->write_path, &text, error);
    else if (status == BERTH_OK)
        status =
            llm_request_trace_parse((llm_str){text.data, text.size}, "the made trace", out, error);
    llm_bytes_fini(&text);
    return status;
}

/// Fills in what depends on the trace.
static berth_status fit_to_trace(replay_cli* cli,
                                 const llm_request_trace* trace,
                                 llm_error* error) {
    llm_replay_options* o = &cli->setup.replay;
    o->trace = trace;
    o->stop = &stop;
    if (o->first_row >= trace->row_count)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "--skip %zu leaves nothing of the trace's %zu requests",
                        o->first_row,
                        trace->row_count);
    o->row_count = trace->row_count - o->first_row;
    if (cli->requests > 0 && cli->requests < o->row_count) o->row_count = cli->requests;
    if (!cli->has_speed) o->speed = trace->rows[o->first_row].arrival_ms < 0.0 ? 0.0 : 1.0;
    if (isatty(STDERR_FILENO) != 0) o->on_progress = show_progress;
    if (!cli->calibrates) return BERTH_OK;
    berth_status status = llm_replay_calibrate(&cli->setup, &o->cost, error);
    if (status == BERTH_OK)
        printf("--step-cost %.1f,%.2f,%.4f\n",
               o->cost.fixed_ns * 1e-3,
               o->cost.token_ns * 1e-3,
               o->cost.key_token_ns * 1e-3);
    return status;
}

static const char* const compared_modes[] = {"plan", "pool", "system"};
enum { MOST_MODES = sizeof compared_modes / sizeof *compared_modes };

/// Replays in one mode, or in all that are compared, and reports; as JSON to `json`, unless NULL.
static berth_status replay_here(const replay_cli* cli, FILE* json, llm_error* error) {
    static llm_replay_report reports[MOST_MODES];
    const char* const* modes = cli->compares ? compared_modes : &cli->mode;
    const bool is_apart = llm_device_is_apart(cli->setup.device);
    // the last takes memory of the process, which other devices do not reach
    const size_t count = !cli->compares ? 1 : is_apart ? MOST_MODES - 1 : MOST_MODES;
    const char* names[MOST_MODES];
    size_t done = 0;
    berth_status status = BERTH_OK;
    while (done < count && status == BERTH_OK && stop == 0) {
        status = llm_replay_in_mode(&cli->setup, modes[done], &reports[done], error);
        hide_progress(cli);
        if (status != BERTH_OK) break;
        names[done] = modes[done] == NULL ? "default" : modes[done];
        if (done == 0) llm_replay_report_print(stdout, &reports[0]);
        done++;
    }
    if (cli->compares && done > 0) llm_replay_report_print_compared(stdout, reports, names, done);
    if (status == BERTH_OK && json != NULL)
        llm_replay_report_write_json(json, reports, names, done);
    return status;
}

static berth_status replay(const replay_cli* cli, FILE* json, llm_error* error) {
    if (cli->url == NULL) return replay_here(cli, json, error);
    http_load_report report;
    berth_status status = replay_url(cli, &report, error);
    hide_progress(cli);
    if (status != BERTH_OK) return status;
    http_load_report_print(stdout, &report);
    if (json != NULL) http_load_report_write_json(json, &report);
    return BERTH_OK;
}

/// Replays with the file for JSON open from the beginning: a long replay is not lost to a wrong
/// path.
static berth_status replay_to_files(const replay_cli* cli, llm_error* error) {
    if (cli->json_path == NULL) return replay(cli, NULL, error);
    FILE* json;
    berth_status status = open_written(cli->json_path, &json, error);
    if (status != BERTH_OK) return status;
    status = replay(cli, json, error);
    if (status == BERTH_OK) return close_written(json, cli->json_path, error);
    fclose(json);
    return status;
}

int main(int argc, char** argv) {
    replay_cli cli;
    switch (replay_cli_parse(argc, argv, &cli)) {
    case REPLAY_HELP:
        replay_cli_print_help();
        return 0;
    case REPLAY_WRONG:
        return 2;
    case REPLAY_RUN:
        break;
    }
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &action, NULL);
    llm_error error = {{0}};
    llm_request_trace trace = {0};
    berth_status status = open_trace(&cli, &trace, &error);
    if (status == BERTH_OK && cli.write_path == NULL) {
        status = fit_to_trace(&cli, &trace, &error);
        if (status == BERTH_OK) status = replay_to_files(&cli, &error);
    }
    if (status == BERTH_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        status = llm_fail(&error, BERTH_ERR_IO, "the report could not be written to stdout");
    if (status != BERTH_OK) {
        fflush(stdout);
        fprintf(stderr, "berth-replay: %s\n", error.text);
    }
    llm_request_trace_fini(&trace);
    return status == BERTH_OK ? 0 : 1;
}
