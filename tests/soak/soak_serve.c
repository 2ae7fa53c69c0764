// SPDX-License-Identifier: Apache-2.0
// Endurance test of berth-serve: waves of requests, ten times more at a time than the KV cache has
// room for. Some clients leave in mid-stream, some send what is no request; others on bare sockets
// read a few bytes at a time, close their half, fall silent in mid-request or send heads without
// end.
//
// The gates: the server lives; each request is answered or refused, with an expected status, within
// a minute; resident memory stays within --memory at every look; after each wave no request runs
// and no block is held; SIGTERM ends the server with status 0. Sanitizers need memory of their own,
// so that under them resident memory is not judged.
//
// usage: soak-serve [--count WAVES | --minutes N] [--seed N] [--model PATH] [--memory BYTES]
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "client_child.h"
#include "http_load_words.h"
#include "llm_clock.h"
#include "llm_random.h"
#include "option_text.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

enum {
    TIMES_MORE = 10,                    ///< requests at a time than there is room for
    MEAN_TOKENS = 240,                  ///< of a request, about
    REQUESTS = IS_SANITIZED ? 80 : 600, ///< of a wave
    MOST_CONCURRENCY = REQUESTS,
    PEERS = 24,        ///< bare sockets of a wave
    MOST_PROMPT = 256, ///< tokens, about
    SAMPLE_WORDS = 32, ///< whose tokens are counted first
    TOO_LONG = 10000,  ///< words of a prompt that no context has room for
    MOST_ANSWER = 160,
    HUGE_BYTES = 300000, ///< of a body beyond --max-body
    REQUEST_MS = 60000,
    START_MS = 300000,
    SETTLE_MS = 60000,
    END_MS = 60000,
    TURN_MS = 20,
    LEAST_MIB = 80, ///< that are tried, in these steps
    MOST_MIB = 1024,
    STEP_MIB = 16,
};

#define NS_A_MINUTE UINT64_C(60000000000)

/// What a client does.
typedef enum kind {
    PLAIN,    ///< asks and reads
    LEAVER,   ///< leaves when some text has come
    TOO_MUCH, ///< asks what no context has room for
    BAD,      ///< sends what is no request
    HUGE_ONE, ///< sends more than a body may have
    KIND_COUNT,
} kind;

typedef struct soak soak;

/// A request of the wave.
typedef struct asked {
    soak* soak;
    kind kind;
    uint64_t pieces_left; ///< before a leaver leaves
} asked;

/// What becomes of a bare socket.
typedef enum manner {
    SLOW,        ///< takes a few bytes of its answer at a time
    HALF_CLOSED, ///< has nothing more to send, and reads
    SILENT,      ///< sends nothing
    CUT_SHORT,   ///< falls silent within its body
    ENDLESS,     ///< sends headers, one after the other
    NOISE,       ///< sends what is no HTTP
    MANNER_COUNT,
} manner;

/// A bare socket.
typedef struct peer {
    int fd; ///< -1: none
    manner does;
} peer;

struct soak {
    uint64_t random;
    client_child server;
    client* client;
    uint16_t port;
    uint64_t memory_bytes;
    size_t concurrency;
    size_t most_words; ///< of a prompt
    asked requests[REQUESTS];
    size_t submitted, ended;
    int64_t prompt_tokens; ///< of the request that ended last
    peer peers[PEERS];
    llm_bytes text; ///< of the prompt that is made
    llm_bytes body;
    uint64_t waves;
    uint64_t answered, refused, left, told, broken;
    uint64_t most_resident;
    double longest_s;
};

/// Ends the program with what has gone wrong; the server ends with it.
_Noreturn static void fail(const soak* s, const char* what, const char* detail) {
    fprintf(stderr,
            "soak-serve: %s: %s (in wave %" PRIu64 ", %zu of its requests have ended)\n",
            what,
            detail,
            s->waves,
            s->ended);
    exit(1);
}

static uint64_t draw(soak* s, uint64_t below) { return llm_random_next(&s->random) % below; }

// ---- Requests.

/// A prompt; every other one begins as one of a few others do.
static llm_str make_prompt(soak* s, size_t words) {
    static int32_t ids[TOO_LONG];
    uint64_t common = 1 + draw(s, 4);
    const bool is_common = draw(s, 2) == 0;
    for (size_t i = 0; i < words; i++)
        ids[i] = (int32_t)((is_common && i < 48 ? llm_random_next(&common)
                                                : llm_random_next(&s->random)) %
                           HTTP_LOAD_WORDS);
    llm_error error;
    s->text.size = 0;
    if (http_load_write_words(ids, words, &s->text, &error) != BERTH_OK)
        fail(s, "a prompt", error.text);
    return (llm_str){s->text.data, s->text.size};
}

static const char* make_ask(soak* s, kind what) {
    char user[32];
    snprintf(user, sizeof user, "tenant-%d", (int)draw(s, 3));
    const size_t words = what == TOO_MUCH ? (size_t)TOO_LONG : 1 + (size_t)draw(s, s->most_words);
    const client_ask ask = {.is_chat = draw(s, 4) == 0,
                            .user = user,
                            .prompt = make_prompt(s, words),
                            .max_tokens = 1 + (int64_t)draw(s, MOST_ANSWER),
                            .temperature = draw(s, 2) == 0 ? 0.0 : 1.0,
                            .ignores_eos = true,
                            .streams = what == LEAVER || draw(s, 3) > 0};
    llm_error error;
    if (client_ask_write(&ask, &s->body, &error) != BERTH_OK) fail(s, "a request", error.text);
    return client_ask_path(&ask);
}

static void put(soak* s, const char* text) {
    llm_error error;
    if (llm_bytes_append(&s->body, text, strlen(text), &error) != BERTH_OK)
        fail(s, "a body", error.text);
}

/// A body that is no request.
static const char* make_bad(soak* s) {
    static const char* const bodies[] = {"{",
                                         "[]",
                                         "null",
                                         "{\"prompt\":}",
                                         "{\"prompt\":5}",
                                         "{\"prompt\":\"\xff\xfe\"}",
                                         "{\"prompt\":\"x\",\"max_tokens\":-1}",
                                         "{\"prompt\":\"x\",\"n\":1000000}",
                                         "{\"prompt\":\"x\",\"temperature\":\"hot\"}",
                                         "{\"prompt\":\"x\",\"max_tokens\":1e400}",
                                         "{\"prompt\":\"x\"} {\"prompt\":\"x\"}"};
    enum { BODIES = sizeof bodies / sizeof *bodies };
    const size_t which = (size_t)draw(s, BODIES + 2);
    if (which < BODIES) put(s, bodies[which]);
    for (int i = 0; which == BODIES && i < 5000; i++)
        put(s, "[");
    for (int i = 0; which > BODIES && i < 200; i++) {
        const char byte[] = {(char)(1 + draw(s, 255)), '\0'};
        put(s, byte);
    }
    return "/v1/completions";
}

static const char* make_huge(soak* s) {
    put(s, "{\"prompt\":\"");
    while (s->body.size < HUGE_BYTES)
        put(s, "word after word after word after word after word ");
    put(s, "\"}");
    return "/v1/completions";
}

static kind draw_kind(soak* s) {
    static const kind kinds[] = {PLAIN,
                                 PLAIN,
                                 PLAIN,
                                 PLAIN,
                                 PLAIN,
                                 PLAIN,
                                 PLAIN,
                                 PLAIN,
                                 LEAVER,
                                 LEAVER,
                                 LEAVER,
                                 BAD,
                                 BAD,
                                 TOO_MUCH,
                                 HUGE_ONE,
                                 PLAIN};
    return kinds[draw(s, sizeof kinds / sizeof *kinds)];
}

static bool on_text(void* user, llm_str text) {
    asked* a = user;
    (void)text;
    return a->kind != LEAVER || a->pieces_left-- > 0;
}

/// True if a request of this kind may be refused so. A server that is busy may refuse anything.
static bool may_be_refused(kind what, long http_status) {
    const bool is_request = what == PLAIN || what == LEAVER;
    if (http_status == 503 || (is_request && http_status == 429)) return true;
    return !is_request && http_status == (what == HUGE_ONE ? 413 : 400);
}

static void judge(soak* s, const asked* a, const client_result* r) {
    const bool is_request = a->kind == PLAIN || a->kind == LEAVER;
    switch (r->end) {
    case CLIENT_ANSWERED:
        if (!is_request) fail(s, "answered", "what is no request, or one beyond the context");
        s->answered++;
        return;
    case CLIENT_REFUSED:
        if (!may_be_refused(a->kind, r->http_status)) fail(s, "refused", r->text);
        s->refused++;
        return;
    case CLIENT_LEFT:
        s->left++;
        return;
    case CLIENT_FAILED:
        // an error that is told in mid-stream is an answer; anything else is none
        if (!is_request || strstr(r->text, "the server says") == NULL) fail(s, "failed", r->text);
        s->told++;
        return;
    case CLIENT_BROKEN:
        // who still sends when the refusal comes may see the connection end first
        if (a->kind != HUGE_ONE) fail(s, "broken off", r->text);
        s->broken++;
        return;
    case CLIENT_UNREACHED:
    case CLIENT_TIMED_OUT:
    case CLIENT_END_COUNT:
        break;
    }
    fail(s, client_end_text(r->end), r->text);
}

static void on_end(void* user, const client_result* result) {
    asked* a = user;
    soak* s = a->soak;
    s->ended++;
    s->prompt_tokens = result->usage.prompt_tokens;
    const double seconds = (double)(result->end_ns - result->sent_ns) * 1e-9;
    if (seconds > s->longest_s) s->longest_s = seconds;
    judge(s, a, result);
}

static void submit(soak* s) {
    asked* a = &s->requests[s->submitted++];
    *a = (asked){.soak = s, .kind = draw_kind(s), .pieces_left = draw(s, 20)};
    s->body.size = 0;
    const char* path = a->kind == BAD        ? make_bad(s)
                       : a->kind == HUGE_ONE ? make_huge(s)
                                             : make_ask(s, a->kind);
    const client_request request = {.path = path,
                                    .body = {s->body.data, s->body.size},
                                    .is_ask = true,
                                    .on_text = on_text,
                                    .on_end = on_end,
                                    .user = a};
    llm_error error;
    if (client_submit(s->client, &request, &error) != BERTH_OK) fail(s, "a request", error.text);
}

// ---- Bare sockets.

/// Sends what the socket takes at once.
static void send_some(const peer* p, const void* bytes, size_t size) {
    (void)!send(p->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_request(soak* s, const peer* p) {
    char head[256];
    s->body.size = 0;
    const char* path = make_ask(s, LEAVER);
    const int size = snprintf(head,
                              sizeof head,
                              "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                              "Content-Length: %zu\r\n\r\n",
                              path,
                              s->body.size);
    // one that is cut short has announced more than it sends
    const size_t sent = p->does == CUT_SHORT ? (size_t)draw(s, s->body.size) : s->body.size;
    send_some(p, head, (size_t)size);
    send_some(p, s->body.data, sent);
}

static void begin_peer(soak* s, peer* p) {
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(s->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int small = 2048;
    p->does = (manner)draw(s, MANNER_COUNT);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0) fail(s, "a socket", strerror(errno));
    if (p->does == SLOW) setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (connect(p->fd, (const struct sockaddr*)&address, sizeof address) != 0)
        fail(s, "a connection", strerror(errno));
    if (p->does == SLOW || p->does == HALF_CLOSED || p->does == CUT_SHORT) send_request(s, p);
    if (p->does == HALF_CLOSED) shutdown(p->fd, SHUT_WR);
    if (p->does == ENDLESS) send_some(p, "GET / HTTP/1.1\r\n", 16);
}

/// One turn of a peer; what the server does with it is not judged, only how it fares.
static void turn_peer(soak* s, const peer* p) {
    char bytes[4096];
    if (p->does == NOISE || p->does == ENDLESS) {
        const uint64_t number = llm_random_next(&s->random);
        const int size =
            snprintf(bytes, sizeof bytes, "X-%" PRIx64 ": %" PRIx64 "\r\n", number, number);
        if (p->does == NOISE) memcpy(bytes, &number, sizeof number);
        send_some(p, bytes, (size_t)size);
    }
    const size_t wanted = p->does == SLOW ? 3 : sizeof bytes;
    (void)!recv(p->fd, bytes, wanted, MSG_DONTWAIT);
}

static void end_peer(soak* s, peer* p) {
    // every other one without a farewell
    const struct linger at_once = {.l_onoff = 1};
    if (draw(s, 2) == 0) setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(p->fd);
    p->fd = -1;
}

// ---- The server.

static void look_at_memory(soak* s) {
    uint64_t resident;
    if (!client_child_is_alive(&s->server) ||
        !client_process_bytes(s->server.pid, "VmRSS", &resident))
        fail(s, "the server", "it has ended");
    if (resident > s->most_resident) s->most_resident = resident;
    if (IS_SANITIZED || resident <= s->memory_bytes) return;
    char text[96];
    snprintf(text, sizeof text, "%" PRIu64 " of %" PRIu64 " bytes", resident, s->memory_bytes);
    fail(s, "resident memory", text);
}

static json_t* get_numbers(soak* s) {
    llm_error error;
    llm_bytes body = {0};
    if (client_get(s->client, "/memory", &body, &error) != BERTH_OK)
        fail(s, "GET /memory", error.text);
    json_t* numbers = json_loadb(body.data, body.size, 0, NULL);
    llm_bytes_fini(&body);
    if (numbers == NULL) fail(s, "GET /memory", "no JSON");
    return numbers;
}

/// A number of GET /memory; it must be there.
static uint64_t number_of(soak* s, const json_t* numbers, const char* group, const char* name) {
    const json_t* value = json_object_get(json_object_get(numbers, group), name);
    if (!json_is_integer(value)) fail(s, "GET /memory has no", name);
    return (uint64_t)json_integer_value(value);
}

/// Waits until no request runs and no block is held.
static void settle(soak* s) {
    const uint64_t until_ns = llm_now_ns() + (uint64_t)SETTLE_MS * 1000000;
    for (;;) {
        json_t* numbers = get_numbers(s);
        const uint64_t requests = number_of(s, numbers, "scheduler", "running") +
                                  number_of(s, numbers, "scheduler", "queued") +
                                  number_of(s, numbers, "scheduler", "parked");
        const uint64_t blocks = number_of(s, numbers, "kv", "used_blocks");
        json_decref(numbers);
        look_at_memory(s);
        if (requests == 0 && blocks == 0) return;
        char text[96];
        snprintf(text,
                 sizeof text,
                 "%" PRIu64 " requests and %" PRIu64 " blocks are held by nobody",
                 requests,
                 blocks);
        if (llm_now_ns() > until_ns) fail(s, "after a wave", text);
        usleep(TURN_MS * 1000);
    }
}

static void run_wave(soak* s) {
    llm_error error;
    s->submitted = 0;
    s->ended = 0;
    for (size_t i = 0; i < PEERS; i++)
        begin_peer(s, &s->peers[i]);
    while (s->ended < REQUESTS) {
        while (s->submitted < REQUESTS && client_running(s->client) < s->concurrency)
            submit(s);
        if (client_turn(s->client, TURN_MS, &error) != BERTH_OK) fail(s, "the client", error.text);
        for (size_t i = 0; i < PEERS; i++)
            turn_peer(s, &s->peers[i]);
        look_at_memory(s);
    }
    for (size_t i = 0; i < PEERS; i++)
        end_peer(s, &s->peers[i]);
    settle(s);
}

/// Asks once, to see how many tokens a word has.
static void measure_words(soak* s) {
    asked sample = {.soak = s, .kind = PLAIN};
    const client_ask ask = {.prompt = make_prompt(s, SAMPLE_WORDS), .max_tokens = 1};
    llm_error error;
    s->body.size = 0;
    if (client_ask_write(&ask, &s->body, &error) != BERTH_OK) fail(s, "a request", error.text);
    const client_request request = {.path = client_ask_path(&ask),
                                    .body = {s->body.data, s->body.size},
                                    .is_ask = true,
                                    .on_end = on_end,
                                    .user = &sample};
    if (client_submit(s->client, &request, &error) != BERTH_OK) fail(s, "a request", error.text);
    while (s->ended == 0)
        if (client_turn(s->client, TURN_MS, &error) != BERTH_OK) fail(s, "a request", error.text);
    if (s->prompt_tokens < 1) fail(s, "a request", "its tokens are not counted");
    s->most_words = (size_t)(MOST_PROMPT * SAMPLE_WORDS / s->prompt_tokens);
}

/// Starts berth-serve, which lies beside this program.
static berth_status start(soak* s, const char* model, const char* memory, llm_error* error) {
    static char path[PATH_MAX + 16];
    char self[PATH_MAX] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) fail(s, self, strerror(errno));
    snprintf(path, sizeof path, "%s/berth-serve", dirname(self));
    char weights[PATH_MAX + 16] = "--random=tiny";
    if (model != NULL) snprintf(weights, sizeof weights, "--model=%s", model);
    const char* const words[] = {path,
                                 weights,
                                 "--port=0",
                                 "--memory",
                                 memory,
                                 "--kv-type=f32",
                                 "--connections=700",
                                 "--max-body=64K",
                                 "--queue=400",
                                 "--tenant-queue=300",
                                 "--first-token-timeout=40",
                                 "--drain=5",
                                 NULL};
    return client_child_start(words, START_MS, &s->server, error);
}

/// Starts it with the least memory that does; what that is depends on the build.
static berth_status start_small(soak* s, const char* model, llm_error* error) {
    berth_status status = BERTH_ERR_IO;
    for (int mib = LEAST_MIB; mib <= MOST_MIB && status != BERTH_OK; mib += STEP_MIB) {
        char memory[16];
        snprintf(memory, sizeof memory, "%dM", mib);
        status = start(s, model, memory, error);
    }
    return status;
}

/// How many requests are made at a time.
static void set_concurrency(soak* s) {
    json_t* numbers = get_numbers(s);
    s->memory_bytes = number_of(s, numbers, "budget", "total_bytes");
    const size_t room = (size_t)number_of(s, numbers, "budget", "kv_tokens") / MEAN_TOKENS;
    json_decref(numbers);
    s->concurrency =
        room * TIMES_MORE < MOST_CONCURRENCY ? room * TIMES_MORE : (size_t)MOST_CONCURRENCY;
    printf("soak-serve: %.1f MiB, room for about %zu requests, %zu at a time\n",
           (double)s->memory_bytes / (1 << 20),
           room,
           s->concurrency);
}

/// Starts the server, and a client of it.
static void begin(soak* s, const char* model, const char* memory) {
    llm_error error;
    const berth_status status =
        memory == NULL ? start_small(s, model, &error) : start(s, model, memory, &error);
    if (status != BERTH_OK) fail(s, "berth-serve", error.text);
    s->port = (uint16_t)strtoul(strrchr(s->server.url, ':') + 1, NULL, 10);
    client_options options = client_options_default();
    options.url = s->server.url;
    options.most_running = MOST_CONCURRENCY + 1;
    options.timeout_ms = REQUEST_MS;
    if (client_create(&options, &s->client, &error) != BERTH_OK) fail(s, "a client", error.text);
    set_concurrency(s);
    measure_words(s);
}

static void finish(soak* s) {
    llm_error error;
    client_destroy(s->client);
    if (client_child_end(&s->server, END_MS, &error) != BERTH_OK)
        fail(s, "the server's end", error.text);
    llm_bytes_fini(&s->text);
    llm_bytes_fini(&s->body);
}

static void report(const soak* s) {
    printf("soak-serve: %" PRIu64 " waves of %d: %" PRIu64 " answered, %" PRIu64
           " refused, %" PRIu64 " left, %" PRIu64 " told of an error, %" PRIu64
           " broken off; the longest took %.2f s; resident %.1f MiB at most, of %.1f\n",
           s->waves,
           REQUESTS,
           s->answered,
           s->refused,
           s->left,
           s->told,
           s->broken,
           s->longest_s,
           (double)s->most_resident / (1 << 20),
           (double)s->memory_bytes / (1 << 20));
    fflush(stdout);
}

/// A socket for each request; the usual limit leaves little more.
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

typedef struct arguments {
    int64_t count;
    int64_t minutes;
    int64_t seed;
    const char* model;
    const char* memory;
} arguments;

static bool parse(int count, char** words, arguments* out) {
    *out = (arguments){.seed = 1};
    for (int i = 1; i < count; i += 2) {
        if (i + 1 == count) return false;
        const char* value = words[i + 1];
        int64_t* target = strcmp(words[i], "--count") == 0     ? &out->count
                          : strcmp(words[i], "--minutes") == 0 ? &out->minutes
                          : strcmp(words[i], "--seed") == 0    ? &out->seed
                                                               : NULL;
        if (strcmp(words[i], "--model") == 0)
            out->model = value;
        else if (strcmp(words[i], "--memory") == 0)
            out->memory = value;
        else if (target == NULL || !llm_parse_whole(value, 1, INT32_MAX, target))
            return false;
    }
    if (out->count == 0 && out->minutes == 0) out->minutes = 10;
    return true;
}

int main(int count, char** words) {
    arguments given;
    if (!parse(count, words, &given)) {
        fprintf(stderr,
                "usage: soak-serve [--count WAVES | --minutes N] [--seed N] [--model PATH] "
                "[--memory BYTES]\n");
        return 2;
    }
    static soak s;
    s.random = (uint64_t)given.seed;
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    begin(&s, given.model, given.memory);
    const uint64_t begin_ns = llm_now_ns();
    for (;; s.waves++) {
        const uint64_t minutes = (llm_now_ns() - begin_ns) / NS_A_MINUTE;
        if (given.count > 0 ? s.waves >= (uint64_t)given.count : minutes >= (uint64_t)given.minutes)
            break;
        if (s.waves > 0 && s.waves % 50 == 0) report(&s);
        run_wave(&s);
    }
    finish(&s);
    report(&s);
    return 0;
}
