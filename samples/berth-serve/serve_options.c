// SPDX-License-Identifier: Apache-2.0
// Reading the command line, from one table of its options.
#include "serve_options.h"

#include "option_text.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// clang-format off
/// Options with a whole number: X(ID, name, member, least, most, default, help).
#define NUMBER_OPTION_MAP(X)                                                                       \
    X(PORT,        "port", port, 0, 65535, 8080, "where to listen; 0: any port that is free")      \
    X(CONTEXT,     "ctx", context_tokens, 0, INT32_MAX, 0,                                         \
      "most tokens of prompt and answer; 0: what the model was trained for")                       \
    X(BATCH,       "max-batch", scheduler.max_running, 1, 4096, 64,                                \
      "most requests that are computed at a time")                                                 \
    X(STEP,        "step-tokens", scheduler.step_tokens, 1, 65536, 256,                            \
      "most tokens that are computed at a time")                                                   \
    X(QUEUE,       "queue", scheduler.max_queued, 1, 1000000, 1024, "most requests that wait")     \
    X(TENANT_QUEUE, "tenant-queue", scheduler.tenant_queued, 0, 1000000, 0,                        \
      "most of one tenant's requests that wait; 0: no limit of its own")                           \
    X(TENANT_SHARE, "tenant-share", scheduler.tenant_share_percent, 0, 100, 75,                    \
      "per cent of the requests that are computed that one tenant may have while there are "       \
      "others; 0: no limit")                                                                       \
    X(CONNECTIONS, "connections", connections, 1, 65536, 1024, "most connections")                 \
    X(REQUEST,     "request-timeout", request_seconds, 1, 86400, 60,                               \
      "seconds in which a connection has to send its (next) request")                              \
    X(IDLE,        "idle-timeout", idle_seconds, 1, 86400, 60,                                     \
      "seconds in which a client has to take something of its answer")                             \
    X(FIRST,       "first-token-timeout", first_token_seconds, 0, 86400, 300,                      \
      "seconds after which a request that has not begun to be answered is refused; 0: never")      \
    X(DRAIN,       "drain", drain_seconds, 0, 86400, 30,                                           \
      "seconds that requests have to end in after SIGTERM")
// clang-format on

enum {
    OPT_HELP = 'h',
    OPT_MODEL = 256,
    OPT_RANDOM,
    OPT_NAME,
    OPT_HOST,
    OPT_MEMORY,
    OPT_KV_TYPE,
    OPT_THREADS,
    OPT_DEVICE,
    OPT_PLAN_CACHE,
    OPT_KEYS,
    OPT_BODY,
    OPT_LOG,
#define NUMBER_ENUM(id, name, member, least, most, otherwise, help) OPT_##id,
    NUMBER_OPTION_MAP(NUMBER_ENUM)
#undef NUMBER_ENUM
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"model", required_argument, NULL, OPT_MODEL},
    {"random", optional_argument, NULL, OPT_RANDOM},
    {"model-name", required_argument, NULL, OPT_NAME},
    {"host", required_argument, NULL, OPT_HOST},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"kv-type", required_argument, NULL, OPT_KV_TYPE},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"plan-cache", required_argument, NULL, OPT_PLAN_CACHE},
    {"api-key-file", required_argument, NULL, OPT_KEYS},
    {"max-body", required_argument, NULL, OPT_BODY},
    {"log", required_argument, NULL, OPT_LOG},
#define NUMBER_LONG(id, name, member, least, most, otherwise, help)                                \
    {name, required_argument, NULL, OPT_##id},
    NUMBER_OPTION_MAP(NUMBER_LONG)
#undef NUMBER_LONG
        {NULL, 0, NULL, 0},
};

void serve_options_print_help(void) {
    fputs("usage: berth-serve (--model PATH | --random) [OPTIONS]\n"
          "\n"
          "Serves a language model by OpenAI's HTTP interface: /v1/chat/completions,\n"
          "/v1/completions, /v1/models, /tokenize, /detokenize, /health, /props, /metrics,\n"
          "/memory, and a page to chat with it at /.\n"
          "SIGTERM ends it when its requests have ended, a second one at once.\n"
          "\n"
          "  --model PATH         a GGUF file of the llama architecture\n"
          "  --random[=tiny]      random weights instead, of the geometry of SmolLM2-135M\n"
          "  --model-name NAME    under which it is served (default: after the file)\n"
          "  --host ADDRESS       where to listen (default 127.0.0.1: this machine alone)\n"
          "  --memory BYTES       for everything: weights, frames, pool and KV cache, and the\n"
          "                       server itself (default 4G, or half of what there is)\n"
          "  --kv-type TYPE       of cached keys and values: f16 (default), f32, bf16 or q8_0\n"
          "  --device DEVICE      cpu, or cuda, whose memory --memory is of then (default:\n"
          "                       BERTH_DEVICE, which is cpu)\n"
          "  --threads N          that compute (default: BERTH_THREADS)\n"
          "  --plan-cache FILE    keeps what was learned of steps for the next start\n"
          "  --api-key-file FILE  keys, a line each, one of which every request has to have; with\n"
          "                       more than one, each is a tenant\n"
          "  --max-body BYTES     most of a request's body (default 4M)\n"
          "  --log WHAT           off (default), requests (a line each), or prompts (what they\n"
          "                       hold, too)\n",
          stdout);
#define NUMBER_HELP(id, name, member, least, most, otherwise, help)                                \
    printf("  --%-18s %s (default %d)\n", name " N", help, otherwise);
    NUMBER_OPTION_MAP(NUMBER_HELP)
#undef NUMBER_HELP
    fputs("\nBerth's own options are in the environment: berth-config prints them.\n", stdout);
}

static serve_parse wrong(const char* option, const char* value, const char* expected) {
    fprintf(stderr, "berth-serve: --%s %s: expected %s\n", option, value, expected);
    return SERVE_WRONG;
}

static serve_parse take_whole(
    const char* option, const char* text, int64_t least, int64_t most, int64_t* out) {
    if (llm_parse_whole(text, least, most, out)) return SERVE_RUN;
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, least, most);
    return wrong(option, text, expected);
}

static serve_parse take_number(serve_options* o, int option, const char* text) {
    switch (option) {
#define NUMBER_CASE(id, name, member, least, most, otherwise, help)                                \
    case OPT_##id:                                                                                 \
        return take_whole(name, text, least, most, &o->member);
        NUMBER_OPTION_MAP(NUMBER_CASE)
#undef NUMBER_CASE
    default:
        return SERVE_WRONG; // getopt has said why
    }
}

static serve_parse take_random(serve_options* o, bool* random, const char* text) {
    *random = true;
    o->setup.is_tiny = text != NULL && strcmp(text, "tiny") == 0;
    if (text == NULL || o->setup.is_tiny) return SERVE_RUN;
    return wrong("random", text, "tiny, or nothing");
}

static serve_parse take_log(serve_options* o, const char* text) {
    static const char* const words[] = {[SERVE_LOG_OFF] = "off",
                                        [SERVE_LOG_REQUESTS] = "requests",
                                        [SERVE_LOG_PROMPTS] = "prompts"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        o->log = (serve_log)i;
        if (strcmp(text, words[i]) == 0) return SERVE_RUN;
    }
    return wrong("log", text, "off, requests or prompts");
}

static serve_parse take_option(serve_options* o, int option, const char* text, bool* random) {
    switch (option) {
    case OPT_HELP:
        return SERVE_HELP;
    case OPT_MODEL:
        o->setup.model_path = text;
        return SERVE_RUN;
    case OPT_RANDOM:
        return take_random(o, random, text);
    case OPT_NAME:
        o->setup.model_name = text;
        return text[0] != '\0' ? SERVE_RUN : wrong("model-name", text, "a name");
    case OPT_HOST:
        o->host = text;
        return SERVE_RUN;
    case OPT_MEMORY:
        if (llm_parse_bytes(text, &o->setup.memory_bytes) && o->setup.memory_bytes > 0)
            return SERVE_RUN;
        return wrong("memory", text, "bytes, such as 512M or 4GiB");
    case OPT_KV_TYPE:
        if (llm_kv_dtype_find(text, &o->kv_dtype)) return SERVE_RUN;
        return wrong("kv-type", text, "f32, f16, bf16 or q8_0");
    case OPT_THREADS:
        o->setup.threads = text;
        return SERVE_RUN;
    case OPT_DEVICE:
        o->setup.device = text;
        return SERVE_RUN;
    case OPT_PLAN_CACHE:
        o->setup.plan_cache = text;
        return SERVE_RUN;
    case OPT_KEYS:
        o->key_path = text;
        return SERVE_RUN;
    case OPT_BODY:
        if (llm_parse_bytes(text, &o->body_bytes) && o->body_bytes >= 1024 &&
            o->body_bytes <= 1u << 30)
            return SERVE_RUN;
        return wrong("max-body", text, "bytes from 1K to 1G");
    case OPT_LOG:
        return take_log(o, text);
    default:
        return take_number(o, option, text);
    }
}

static serve_parse refuse(const char* sentence, const char* what) {
    fprintf(stderr, "berth-serve: %s%s; see --help\n", sentence, what);
    return SERVE_WRONG;
}

serve_parse serve_options_parse(int argc, char** argv, serve_options* out_options) {
    *out_options = (serve_options){
        .host = "127.0.0.1", .kv_dtype = BERTH_F16, .body_bytes = 4u << 20, .log = SERVE_LOG_OFF};
#define NUMBER_DEFAULT(id, name, member, least, most, otherwise, help)                             \
    out_options->member = otherwise;
    NUMBER_OPTION_MAP(NUMBER_DEFAULT)
#undef NUMBER_DEFAULT
    bool random = false;
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        serve_parse result = take_option(out_options, option, optarg, &random);
        if (result != SERVE_RUN) return result;
    }
    if (optind < argc) return refuse("unexpected argument ", argv[optind]);
    if (random == (out_options->setup.model_path != NULL))
        return refuse("one of --model PATH and --random is needed", "");
    if (out_options->scheduler.step_tokens < out_options->scheduler.max_running)
        return refuse("--step-tokens has to be --max-batch at least", "");
    return SERVE_RUN;
}
