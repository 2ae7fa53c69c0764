// SPDX-License-Identifier: Apache-2.0
// A server asked by 1, 8 and 32 clients at a time: prompts of 16 to 1,000 words, some of which
// begin alike, answers of 16 to 128 tokens. Each row is the median of the rounds; each round asks
// what was not asked before, and all servers the same.
//
// Servers are berth-serve, started here with --model or --random, and those at the URLs: two at
// most. They take turns, and their numbers are set beside each other. Most memory is the process's
// own (VmHWM) since the row began; it needs --pid for one that was not started here.
//
// usage: bench-serve [--model PATH | --random[=tiny]] [--memory BYTES] [--threads N] [--ctx N]
//                    [--kv-type TYPE] [--url URL [--pid PID]]... [--requests N] [--rounds N]
//                    [--seed N] [--json FILE]
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "client_child.h"
#include "http_load_trace.h"
#include "kit/json_rows.h"
#include "kit/median.h"
#include "llm_random.h"
#include "option_text.h"
#include "report_text.h"

enum {
    MOST_SERVERS = 2,
    MOST_ROUNDS = 15,
    LEVELS = 3,
    LEAST_REQUESTS = 8,
    BLOCK = 16,        ///< tokens that an id stands for
    COMMON_BLOCKS = 8, ///< that prompts begin alike with
    COMMON_BEGINNINGS = 2,
    START_MS = 300000,
    END_MS = 60000,
};

static const size_t levels[LEVELS] = {1, 8, 32};

/// The columns of a row.
typedef struct numbers {
    double tok_s;
    double first_p50_ms;
    double first_p99_ms;
    double token_p50_ms;
    double peak_bytes; ///< NaN: not known
} numbers;

typedef struct server {
    const char* url;
    const char* name;
    pid_t pid; ///< 0: not known
    client_child child;
    client* client;
    llm_bytes model;
    numbers rounds[LEVELS][MOST_ROUNDS];
    numbers medians[LEVELS];
} server;

enum { MOST_WORDS = 16 };

typedef struct options {
    const char* serve[MOST_WORDS]; ///< berth-serve's command line, NULL at its end
    size_t serve_count;
    bool starts;
    server servers[MOST_SERVERS];
    size_t server_count;
    size_t url_count;
    const char* json;
    uint64_t seed;
    size_t requests; ///< for each that runs at a time
    size_t rounds;
} options;

// ---- The command line.

_Noreturn static void refuse(const char* sentence) {
    fprintf(stderr, "bench-serve: %s\n", sentence);
    exit(2);
}

/// Reads a whole number from 1 to `most` or ends the program.
static int64_t read_count(const char* option, const char* text, int64_t most) {
    int64_t value;
    if (llm_parse_whole(text, 1, most, &value)) return value;
    fprintf(stderr,
            "bench-serve: --%s %s: expected a whole number from 1 to %" PRId64 "\n",
            option,
            text,
            most);
    exit(2);
}

static void pass_on(options* o, const char* name, const char* value) {
    if (o->serve_count + 3 > MOST_WORDS) refuse("too many options");
    o->serve[o->serve_count++] = name;
    if (value != NULL) o->serve[o->serve_count++] = value;
}

static void add_url(options* o, const char* url) {
    if (o->url_count == MOST_SERVERS) refuse("at most two servers are compared");
    server* s = &o->servers[o->url_count++];
    *s = (server){.url = url, .name = url};
}

static void take(options* o, int option, const char* text) {
    switch (option) {
    case 'm':
        o->starts = true;
        pass_on(o, "--model", text);
        return;
    case 'r':
        o->starts = true;
        pass_on(o, text == NULL ? "--random" : "--random=tiny", NULL);
        return;
    case 'b':
        pass_on(o, "--memory", text);
        return;
    case 't':
        pass_on(o, "--threads", text);
        return;
    case 'c':
        pass_on(o, "--ctx", text);
        return;
    case 'v':
        pass_on(o, "--kv-type", text);
        return;
    case 'u':
        add_url(o, text);
        return;
    case 'p':
        if (o->url_count == 0) refuse("--pid follows the --url that it belongs to");
        o->servers[o->url_count - 1].pid = (pid_t)read_count("pid", text, INT32_MAX);
        return;
    case 'n':
        o->requests = (size_t)read_count("requests", text, 10000);
        return;
    case 'k':
        o->rounds = (size_t)read_count("rounds", text, MOST_ROUNDS);
        return;
    case 's':
        o->seed = (uint64_t)read_count("seed", text, INT64_MAX);
        return;
    case 'j':
        o->json = text;
        return;
    default:
        exit(2);
    }
}

static void parse(int argc, char** argv, options* o) {
    static const struct option known[] = {{"model", required_argument, NULL, 'm'},
                                          {"random", optional_argument, NULL, 'r'},
                                          {"memory", required_argument, NULL, 'b'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"ctx", required_argument, NULL, 'c'},
                                          {"kv-type", required_argument, NULL, 'v'},
                                          {"url", required_argument, NULL, 'u'},
                                          {"pid", required_argument, NULL, 'p'},
                                          {"requests", required_argument, NULL, 'n'},
                                          {"rounds", required_argument, NULL, 'k'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    *o = (options){.serve_count = 1, .requests = 3, .rounds = 3, .seed = 1};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        take(o, option, optarg);
    if (optind < argc) refuse("no arguments are expected");
    if (!o->starts && o->serve_count > 1)
        refuse("--memory, --threads, --ctx and --kv-type are berth-serve's: --model or --random");
    o->server_count = o->url_count + (o->starts ? 1 : 0);
    if (o->server_count == 0) refuse("one of --model PATH, --random and --url URL is needed");
    if (o->server_count > MOST_SERVERS) refuse("at most two servers are compared");
}

// ---- Servers.

/// Starts berth-serve, which lies beside this program, as the first server.
static void start_server(options* o) {
    static char path[PATH_MAX + 16];
    char self[PATH_MAX] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0)
        bench_fail_for("/proc/self/exe", "cannot be read");
    snprintf(path, sizeof path, "%s/berth-serve", dirname(self));
    for (size_t i = o->url_count; i > 0; i--)
        o->servers[i] = o->servers[i - 1];
    server* s = &o->servers[0];
    *s = (server){.name = "berth-serve"};
    o->serve[0] = path;
    pass_on(o, "--port", "0");
    llm_error error;
    if (client_child_start(o->serve, START_MS, &s->child, &error) != BERTH_OK)
        bench_fail_for("berth-serve", error.text);
    s->url = s->child.url;
    s->pid = s->child.pid;
}

static void connect_to(server* s) {
    client_options how = client_options_default();
    how.url = s->url;
    how.most_running = levels[LEVELS - 1];
    how.timeout_ms = 3600000;
    llm_error error;
    llm_bytes body = {0};
    berth_status status = client_create(&how, &s->client, &error);
    if (status == BERTH_OK) status = client_get(s->client, "/health", &body, &error);
    body.size = 0;
    if (status == BERTH_OK) status = client_get(s->client, "/v1/models", &body, &error);
    if (status == BERTH_OK)
        status = client_models_read((llm_str){body.data, body.size}, &s->model, &error);
    if (status != BERTH_OK) bench_fail_for(s->name, error.text);
    llm_bytes_fini(&body);
}

static void leave(server* s) {
    llm_error error;
    client_destroy(s->client);
    llm_bytes_fini(&s->model);
    if (s->child.pid != 0 && client_child_end(&s->child, END_MS, &error) != BERTH_OK)
        bench_fail_for(s->name, error.text);
}

// ---- The requests.

static double draw(uint64_t* state) { return (double)(llm_random_next(state) >> 11) * 0x1p-53; }

/// The id of a block that no other prompt has.
static int64_t draw_id(uint64_t* state) { return (int64_t)(llm_random_next(state) >> 12); }

/// A prompt's length is log-uniform; half of those that are long enough begin alike.
static void make_row(llm_request_trace* trace,
                     size_t row,
                     const int64_t common[COMMON_BEGINNINGS][COMMON_BLOCKS],
                     uint64_t* state) {
    const int64_t prompt = (int64_t)(16.0 * pow(1000.0 / 16.0, draw(state)));
    const int64_t answer = 16 + (int64_t)(113.0 * draw(state));
    const size_t beginning = llm_random_next(state) % (2 * (uint64_t)COMMON_BEGINNINGS);
    const bool is_common =
        beginning < COMMON_BEGINNINGS && prompt >= (int64_t)BLOCK * (COMMON_BLOCKS + 2);
    const size_t blocks = (size_t)(prompt - 1) / BLOCK + 1;
    trace->rows[row] = (llm_trace_row){.arrival_ms = -1.0,
                                       .prompt_tokens = prompt,
                                       .answer_tokens = answer,
                                       .session = -1,
                                       .first_id = trace->id_count,
                                       .prompt_ids = blocks};
    for (size_t i = 0; i < blocks; i++)
        trace->ids[trace->id_count++] =
            is_common && i < COMMON_BLOCKS ? common[beginning][i] : draw_id(state);
}

/// Makes requests that no other state makes.
static void make_trace(llm_request_trace* trace, size_t count, uint64_t state) {
    *trace =
        (llm_request_trace){.format = LLM_TRACE_BLOCKS, .block_tokens = BLOCK, .row_count = count};
    trace->rows = llm_alloc(count, sizeof *trace->rows);
    trace->ids = llm_alloc(count * (1000 / BLOCK + 1), sizeof *trace->ids);
    if (trace->rows == NULL || trace->ids == NULL) bench_fail_for("requests", "no memory");
    int64_t common[COMMON_BEGINNINGS][COMMON_BLOCKS];
    for (size_t i = 0; i < COMMON_BEGINNINGS; i++)
        for (size_t k = 0; k < COMMON_BLOCKS; k++)
            common[i][k] = draw_id(&state);
    for (size_t row = 0; row < count; row++)
        make_row(trace, row, (const int64_t(*)[COMMON_BLOCKS])common, &state);
}

// ---- Rounds.

static numbers ask(server* s, const llm_request_trace* trace, size_t concurrency) {
    const http_trace_options load = {.client = s->client,
                                     .model = s->model.data,
                                     .concurrency = concurrency,
                                     .trace = trace,
                                     .row_count = trace->row_count,
                                     .divide = 1,
                                     .tenants = 1};
    http_load_report report;
    llm_error error;
    const bool has_peak = s->pid != 0 && client_process_forget_peak(s->pid);
    if (http_load_trace(&load, &report, &error) != BERTH_OK) bench_fail_for(s->name, error.text);
    if (report.ends[CLIENT_ANSWERED] != report.requests)
        bench_fail_for(s->name, report.first_error.text);
    if (report.other_lengths > 0)
        fprintf(stderr,
                "bench-serve: %s: %" PRIu64 " answers are not as long as was asked for\n",
                s->name,
                report.other_lengths);
    uint64_t peak = 0;
    const bool is_known = has_peak && client_process_bytes(s->pid, "VmHWM", &peak);
    return (numbers){.tok_s = http_load_speed(&report),
                     .first_p50_ms = report.first.p50_ms,
                     .first_p99_ms = report.first.p99_ms,
                     .token_p50_ms = report.token.p50_ms,
                     .peak_bytes = is_known ? (double)peak : (double)NAN};
}

/// What is planned, loaded or cached at first is no part of the rounds.
static void warm_up(server* s, uint64_t seed) {
    llm_request_trace trace;
    make_trace(&trace, 2, ~seed);
    (void)ask(s, &trace, 1);
    llm_request_trace_fini(&trace);
}

static void run_round(options* o, size_t round) {
    for (size_t level = 0; level < LEVELS; level++) {
        const size_t wanted = levels[level] * o->requests;
        llm_request_trace trace;
        uint64_t state = o->seed * 1000 + round * LEVELS + level;
        make_trace(
            &trace, wanted < LEAST_REQUESTS ? LEAST_REQUESTS : wanted, llm_random_next(&state));
        for (size_t i = 0; i < o->server_count; i++) {
            // who is first changes from round to round
            server* s = &o->servers[(i + round) % o->server_count];
            s->rounds[level][round] = ask(s, &trace, levels[level]);
        }
        llm_request_trace_fini(&trace);
    }
}

// ---- Rows.

static double median_of(const numbers* rounds, size_t count, size_t offset) {
    double values[MOST_ROUNDS];
    for (size_t i = 0; i < count; i++)
        memcpy(&values[i], (const char*)&rounds[i] + offset, sizeof values[i]);
    return bench_median(values, (int)count);
}

static void take_medians(server* s, size_t rounds) {
    for (size_t level = 0; level < LEVELS; level++) {
        const numbers* all = s->rounds[level];
        s->medians[level] =
            (numbers){.tok_s = median_of(all, rounds, offsetof(numbers, tok_s)),
                      .first_p50_ms = median_of(all, rounds, offsetof(numbers, first_p50_ms)),
                      .first_p99_ms = median_of(all, rounds, offsetof(numbers, first_p99_ms)),
                      .token_p50_ms = median_of(all, rounds, offsetof(numbers, token_p50_ms)),
                      .peak_bytes = median_of(all, rounds, offsetof(numbers, peak_bytes))};
    }
}

static void print_row(const char* name, size_t concurrency, const numbers* n) {
    printf("%-24.24s %11zu %10.1f %12.1f %12.1f %12.2f %12s\n",
           name,
           concurrency,
           n->tok_s,
           n->first_p50_ms,
           n->first_p99_ms,
           n->token_p50_ms,
           isnan(n->peak_bytes) ? "" : llm_cell_bytes((uint64_t)n->peak_bytes).text);
}

static void print_ratio(size_t concurrency, const numbers* a, const numbers* b) {
    const double peak = a->peak_bytes / b->peak_bytes;
    printf("%-24s %11zu %10.3f %12.3f %12.3f %12.3f %12s\n",
           "the first by the second",
           concurrency,
           a->tok_s / b->tok_s,
           a->first_p50_ms / b->first_p50_ms,
           a->first_p99_ms / b->first_p99_ms,
           a->token_p50_ms / b->token_p50_ms,
           isnan(peak) ? "" : llm_cell_number(peak, 3, "").text);
}

static void print_rows(const options* o) {
    printf("Medians of %zu rounds, %zu requests for each at a time, %d at least\n",
           o->rounds,
           o->requests,
           LEAST_REQUESTS);
    printf("%-24s %11s %10s %12s %12s %12s %12s\n",
           "Server",
           "concurrency",
           "tok_s",
           "ttft_p50_ms",
           "ttft_p99_ms",
           "tpot_p50_ms",
           "peak");
    for (size_t level = 0; level < LEVELS; level++) {
        for (size_t i = 0; i < o->server_count; i++)
            print_row(o->servers[i].name, levels[level], &o->servers[i].medians[level]);
        if (o->server_count == 2)
            print_ratio(
                levels[level], &o->servers[0].medians[level], &o->servers[1].medians[level]);
    }
}

static void write_rows(const options* o) {
    json_rows rows = json_rows_open(o->json);
    for (size_t level = 0; level < LEVELS; level++)
        for (size_t i = 0; i < o->server_count; i++) {
            const numbers* n = &o->servers[i].medians[level];
            json_rows_begin(&rows, "server", o->servers[i].name);
            json_rows_count(&rows, "concurrency", levels[level]);
            json_rows_number(&rows, "tok_s", n->tok_s);
            json_rows_number(&rows, "ttft_p50_ms", n->first_p50_ms);
            json_rows_number(&rows, "ttft_p99_ms", n->first_p99_ms);
            json_rows_number(&rows, "tpot_p50_ms", n->token_p50_ms);
            if (isnan(n->peak_bytes))
                json_rows_number(&rows, "peak_bytes", n->peak_bytes); // null
            else
                json_rows_count(&rows, "peak_bytes", (uint64_t)n->peak_bytes);
            json_rows_end(&rows);
        }
    json_rows_close(&rows);
}

int main(int argc, char** argv) {
    static options o;
    parse(argc, argv, &o);
    if (o.starts) start_server(&o);
    for (size_t i = 0; i < o.server_count; i++) {
        connect_to(&o.servers[i]);
        warm_up(&o.servers[i], o.seed);
    }
    for (size_t round = 0; round < o.rounds; round++)
        run_round(&o, round);
    for (size_t i = 0; i < o.server_count; i++) {
        take_medians(&o.servers[i], o.rounds);
        leave(&o.servers[i]);
    }
    print_rows(&o);
    write_rows(&o);
    return 0;
}
