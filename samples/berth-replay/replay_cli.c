// SPDX-License-Identifier: Apache-2.0
// Command line: one table of long options, one switch that reads them.
#include "replay_cli.h"

#include "option_text.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_HELP = 256,
    OPT_MODEL,
    OPT_RANDOM,
    OPT_SHAPE,
    OPT_SPEED,
    OPT_REQUESTS,
    OPT_SKIP,
    OPT_DIVIDE,
    OPT_BATCH,
    OPT_STEP_TOKENS,
    OPT_MEMORY,
    OPT_THREADS,
    OPT_DEVICE,
    OPT_KV_TYPE,
    OPT_BLOCK,
    OPT_PARK,
    OPT_TENANTS,
    OPT_POLICY,
    OPT_MODE,
    OPT_COMPARE,
    OPT_JSON,
    OPT_SIMULATE,
    OPT_COST,
    OPT_CALIBRATE,
    OPT_GENERATE,
    OPT_WRITE,
    OPT_URL,
    OPT_CONCURRENCY,
    OPT_KEY,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"model", required_argument, NULL, OPT_MODEL},
    {"random", optional_argument, NULL, OPT_RANDOM},
    {"shape", required_argument, NULL, OPT_SHAPE},
    {"speed", required_argument, NULL, OPT_SPEED},
    {"requests", required_argument, NULL, OPT_REQUESTS},
    {"skip", required_argument, NULL, OPT_SKIP},
    {"length-divide", required_argument, NULL, OPT_DIVIDE},
    {"max-batch", required_argument, NULL, OPT_BATCH},
    {"step-tokens", required_argument, NULL, OPT_STEP_TOKENS},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"kv-type", required_argument, NULL, OPT_KV_TYPE},
    {"block-tokens", required_argument, NULL, OPT_BLOCK},
    {"park-bytes", required_argument, NULL, OPT_PARK},
    {"tenants", required_argument, NULL, OPT_TENANTS},
    {"policy", required_argument, NULL, OPT_POLICY},
    {"mode", required_argument, NULL, OPT_MODE},
    {"compare", no_argument, NULL, OPT_COMPARE},
    {"json", required_argument, NULL, OPT_JSON},
    {"simulate", no_argument, NULL, OPT_SIMULATE},
    {"step-cost", required_argument, NULL, OPT_COST},
    {"calibrate", no_argument, NULL, OPT_CALIBRATE},
    {"generate", required_argument, NULL, OPT_GENERATE},
    {"write-trace", required_argument, NULL, OPT_WRITE},
    {"url", required_argument, NULL, OPT_URL},
    {"concurrency", required_argument, NULL, OPT_CONCURRENCY},
    {"api-key-file", required_argument, NULL, OPT_KEY},
    {NULL, 0, NULL, 0},
};

void replay_cli_print_help(void) {
    fputs(
        "usage: berth-replay (--model PATH | --random[=tiny]) [OPTIONS] (TRACE | --generate KIND)\n"
        "       berth-replay --simulate [OPTIONS] (TRACE | --generate KIND)\n"
        "       berth-replay --url URL [OPTIONS] (TRACE | --generate KIND)\n"
        "       berth-replay --generate KIND --write-trace FILE\n"
        "\n"
        "Serves a trace of requests with a language model, or lets a server do it, and reports\n"
        "what that took.\n"
        "\n"
        "Requests\n"
        "  TRACE                file: CSV or JSON lines, the format shows itself\n"
        "  --generate KIND      make a trace: chat, single or shared, with parameters behind it,\n"
        "                       such as chat:requests=100,rate=4,turns=5,seed=2; also think_s,\n"
        "                       systems, system_tokens, message_median, message_sigma,\n"
        "                       answer_median, answer_sigma and most_tokens\n"
        "  --write-trace FILE   write the made trace instead of replaying it\n"
        "  --requests N         the first N only\n"
        "  --skip N             not the first N\n"
        "  --length-divide D    each length divided by D, at least 1\n"
        "  --speed X            1 is the trace's (default), max is as fast as possible\n"
        "  --tenants N          requests, or sessions, belong to N tenants in turn (default 1)\n"
        "\n"
        "Model\n"
        "  --model PATH         GGUF file\n"
        "  --random[=tiny]      random weights, of the geometry of SmolLM2-135M or tiny\n"
        "  --shape SHAPE        with --simulate: sizes only, llama-8b (default), llama-1b,\n"
        "                       llama-3b, llama-70b, smollm2-135m, or layers,width,ffn_width,\n"
        "                       heads,kv_heads,head_dims,vocab,context\n"
        "\n"
        "Serving\n"
        "  --memory BYTES       most memory for tensors and cache, such as 512M\n"
        "  --kv-type TYPE       of cached keys and values: f32 (default), f16, bf16 or q8_0\n"
        "  --block-tokens N     tokens of a block of the cache (default 16)\n"
        "  --policy lru|reuse   which cached block is given up first (default reuse)\n"
        "  --park-bytes BYTES   most host memory for parked requests, such as 1G (default 0)\n"
        "  --max-batch N        most requests at a time (default 64)\n"
        "  --step-tokens N      most tokens of a step (default 256)\n"
        "  --threads N          0 takes every core\n"
        "  --device DEVICE      cpu or cuda (default: BERTH_DEVICE, which is cpu)\n"
        "  --mode MODE          plan, pool, system or auto\n"
        "  --compare            plan, pool and system, one after the other\n"
        "\n"
        "Simulation\n"
        "  --simulate           nothing is computed, and time is what steps are said to cost\n"
        "  --step-cost A,B,C    microseconds of a step, of a token, and of a token's keys and\n"
        "                       values read (default 8000,60,0.05: an 8B model on one large GPU)\n"
        "  --calibrate          measure that with --model or --random first\n"
        "\n"
        "A server with OpenAI's interface\n"
        "  --url URL            where it is, such as http://127.0.0.1:8080\n"
        "  --model NAME         of a model that it has (default: its first)\n"
        "  --concurrency N      most requests at a time (default 256, or 8 with --speed max)\n"
        "  --api-key-file FILE  whose first key is sent\n"
        "\n"
        "  --json FILE          write the report as JSON\n",
        stdout);
}

static replay_parse wrong(const char* option, const char* value, const char* expected) {
    fprintf(stderr, "berth-replay: --%s %s: expected %s\n", option, value, expected);
    return REPLAY_WRONG;
}

static replay_parse take_whole(
    const char* option, const char* text, int64_t least, int64_t most, int64_t* out) {
    if (llm_parse_whole(text, least, most, out)) return REPLAY_RUN;
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64, least, most);
    return wrong(option, text, expected);
}

static replay_parse take_speed(replay_cli* cli, const char* text) {
    cli->has_speed = true;
    cli->setup.replay.speed = 0.0;
    if (strcmp(text, "max") == 0) return REPLAY_RUN;
    if (llm_parse_number(text, 1e-3, 1e6, &cli->setup.replay.speed)) return REPLAY_RUN;
    return wrong("speed", text, "max, or a number from 0.001 to 1000000");
}

static replay_parse take_cost(replay_cli* cli, const char* text) {
    double us[3];
    const char* at = text;
    for (int i = 0; i < 3; i++) {
        char* end;
        us[i] = strtod(at, &end);
        if (end == at || *end != (i < 2 ? ',' : '\0') || !(us[i] >= 0.0 && us[i] <= 1e9))
            return wrong("step-cost", text, "three numbers of microseconds with commas between");
        at = end + 1;
    }
    if (us[0] + us[1] <= 0.0)
        return wrong("step-cost", text, "a step, or a token of it, to cost something");
    cli->setup.replay.cost = (llm_step_cost){
        .fixed_ns = us[0] * 1e3, .token_ns = us[1] * 1e3, .key_token_ns = us[2] * 1e3};
    return REPLAY_RUN;
}

static replay_parse take_kv_type(replay_cli* cli, const char* text) {
    if (llm_kv_dtype_find(text, &cli->setup.kv_dtype)) return REPLAY_RUN;
    return wrong("kv-type", text, "f32, f16, bf16 or q8_0");
}

/// Reads an option that is one of some words.
static replay_parse take_word(replay_cli* cli, int option, const char* text) {
    if (option == OPT_KV_TYPE) return take_kv_type(cli, text);
    if (option == OPT_POLICY) {
        const bool is_lru = strcmp(text, "lru") == 0;
        if (!is_lru && strcmp(text, "reuse") != 0) return wrong("policy", text, "lru or reuse");
        cli->setup.eviction = is_lru ? BERTH_KV_EVICT_LRU : BERTH_KV_EVICT_REUSE;
        return REPLAY_RUN;
    }
    if (option == OPT_RANDOM) {
        cli->setup.random_tiny = text != NULL && strcmp(text, "tiny") == 0;
        if (text != NULL && !cli->setup.random_tiny)
            return wrong("random", text, "tiny, or nothing");
        return REPLAY_RUN;
    }
    cli->mode = text;
    static const char* const modes[] = {"auto", "plan", "pool", "system"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(text, modes[i]) == 0) return REPLAY_RUN;
    return wrong("mode", text, "auto, plan, pool or system");
}

/// Says what a parser of the library found wrong.
static replay_parse verdict(const char* option, berth_status status, const llm_error* error) {
    if (status == BERTH_OK) return REPLAY_RUN;
    fprintf(stderr, "berth-replay: --%s: %s\n", option, error->text);
    return REPLAY_WRONG;
}

static replay_parse take_count(replay_cli* cli, int option, const char* text) {
    llm_replay_options* o = &cli->setup.replay;
    int64_t value = 0;
    replay_parse result;
    switch (option) {
    case OPT_REQUESTS:
        result = take_whole("requests", text, 1, 10000000, &value);
        cli->requests = (size_t)value;
        return result;
    case OPT_SKIP:
        result = take_whole("skip", text, 0, 10000000, &value);
        o->first_row = (size_t)value;
        return result;
    case OPT_TENANTS:
        result = take_whole("tenants", text, 1, 1000000, &value);
        o->tenants = (uint32_t)value;
        return result;
    case OPT_PARK:
        if (llm_parse_bytes(text, &cli->setup.park_bytes)) return REPLAY_RUN;
        return wrong("park-bytes", text, "bytes, such as 512M or 2GiB");
    case OPT_DIVIDE:
        return take_whole("length-divide", text, 1, 1000000, &o->divide);
    case OPT_CONCURRENCY:
        result = take_whole("concurrency", text, 1, 65536, &value);
        cli->concurrency = (size_t)value;
        return result;
    case OPT_BATCH:
        return take_whole("max-batch", text, 1, 65536, &o->scheduler.max_running);
    case OPT_STEP_TOKENS:
        return take_whole("step-tokens", text, 1, 1 << 20, &o->scheduler.step_tokens);
    default:
        return take_whole("block-tokens", text, 1, 1024, &cli->setup.block_tokens);
    }
}

static replay_parse take_option(replay_cli* cli, int option, const char* text) {
    llm_error error;
    switch (option) {
    case OPT_HELP:
        return REPLAY_HELP;
    case OPT_MODEL:
        cli->setup.model_path = text;
        return REPLAY_RUN;
    case OPT_SHAPE:
        cli->setup.has_shape = true;
        return verdict("shape", llm_shape_parse(text, &cli->setup.shape, &error), &error);
    case OPT_SPEED:
        return take_speed(cli, text);
    case OPT_REQUESTS:
    case OPT_SKIP:
    case OPT_TENANTS:
    case OPT_PARK:
    case OPT_DIVIDE:
    case OPT_BATCH:
    case OPT_STEP_TOKENS:
    case OPT_BLOCK:
    case OPT_CONCURRENCY:
        return take_count(cli, option, text);
    case OPT_MEMORY:
        cli->setup.memory = text;
        return REPLAY_RUN;
    case OPT_THREADS:
        cli->setup.threads = text;
        return REPLAY_RUN;
    case OPT_DEVICE:
        cli->setup.device = text;
        return REPLAY_RUN;
    case OPT_RANDOM:
    case OPT_KV_TYPE:
    case OPT_POLICY:
    case OPT_MODE:
        return take_word(cli, option, text);
    case OPT_COMPARE:
        cli->compares = true;
        return REPLAY_RUN;
    case OPT_JSON:
        cli->json_path = text;
        return REPLAY_RUN;
    case OPT_SIMULATE:
        cli->setup.replay.simulates = true;
        return REPLAY_RUN;
    case OPT_COST:
        return take_cost(cli, text);
    case OPT_CALIBRATE:
        cli->calibrates = true;
        return REPLAY_RUN;
    case OPT_GENERATE:
        cli->makes = true;
        return verdict("generate", llm_trace_recipe_parse(text, &cli->recipe, &error), &error);
    case OPT_WRITE:
        cli->write_path = text;
        return REPLAY_RUN;
    case OPT_URL:
        cli->url = text;
        return REPLAY_RUN;
    case OPT_KEY:
        cli->key_path = text;
        return REPLAY_RUN;
    default:
        return REPLAY_WRONG; // getopt has said why
    }
}

static replay_parse refuse(const char* sentence) {
    fprintf(stderr, "berth-replay: %s; see --help\n", sentence);
    return REPLAY_WRONG;
}

static uint64_t bit_of(int option) { return UINT64_C(1) << (option - OPT_HELP); }

static bool is_for_server(int option) {
    return option == OPT_URL || option == OPT_CONCURRENCY || option == OPT_KEY;
}

/// True for options of serving in this process.
static bool is_for_process(int option) {
    switch (option) {
    case OPT_HELP:
    case OPT_MODEL:
    case OPT_SPEED:
    case OPT_REQUESTS:
    case OPT_SKIP:
    case OPT_DIVIDE:
    case OPT_TENANTS:
    case OPT_JSON:
    case OPT_GENERATE:
        return false;
    default:
        return !is_for_server(option);
    }
}

/// Looks for options that mean nothing to who serves.
static replay_parse check_server(const replay_cli* cli, uint64_t given) {
    for (const struct option* o = long_options; o->name != NULL; o++) {
        if ((given & bit_of(o->val)) == 0) continue;
        if (cli->url != NULL ? !is_for_process(o->val) : !is_for_server(o->val)) continue;
        fprintf(stderr,
                "berth-replay: --%s %s --url; see --help\n",
                o->name,
                cli->url != NULL ? "means nothing to the server of" : "needs the server of");
        return REPLAY_WRONG;
    }
    return REPLAY_RUN;
}

/// Looks for what is missing or does not go together.
static replay_parse check(replay_cli* cli, uint64_t given, int argc, char** argv) {
    const bool random = (given & bit_of(OPT_RANDOM)) != 0;
    llm_replay_setup* setup = &cli->setup;
    if (optind < argc) cli->trace_path = argv[optind++];
    if (optind < argc) {
        fprintf(stderr, "berth-replay: unexpected argument \"%s\"\n", argv[optind]);
        return REPLAY_WRONG;
    }
    if (check_server(cli, given) != REPLAY_RUN) return REPLAY_WRONG;
    if ((cli->trace_path != NULL) == cli->makes)
        return refuse(cli->makes ? "TRACE and --generate exclude each other"
                                 : "one of TRACE and --generate is needed");
    if (cli->write_path != NULL) {
        if (!cli->makes) return refuse("--write-trace needs --generate");
        if (cli->requests > 0 || setup->replay.first_row > 0)
            return refuse("--write-trace writes the whole trace: --generate KIND:requests=N "
                          "says how many requests it has");
        return REPLAY_RUN;
    }
    if (cli->url != NULL) return REPLAY_RUN;
    const int models = (setup->model_path != NULL) + random + setup->has_shape;
    if (models > 1) return refuse("--model, --random and --shape exclude each other");
    if (setup->has_shape && !setup->replay.simulates)
        return refuse("--shape has no weights and needs --simulate");
    if (models == 0 && !setup->replay.simulates)
        return refuse("one of --model PATH, --random and --simulate is needed");
    if (setup->replay.simulates && (cli->compares || cli->mode != NULL) &&
        (cli->compares || strcmp(cli->mode, "system") == 0))
        return refuse("a simulation has no allocator of the system to compare with");
    if (setup->device != NULL && setup->replay.simulates && !cli->calibrates)
        return refuse("a simulation has a device of its own");
    if (cli->calibrates && (models == 0 || setup->has_shape))
        return refuse("--calibrate measures a model, --model or --random");
    llm_error error;
    if (models > 0) return REPLAY_RUN;
    setup->has_shape = true;
    return verdict("shape", llm_shape_parse("llama-8b", &setup->shape, &error), &error);
}

replay_parse replay_cli_parse(int argc, char** argv, replay_cli* out_cli) {
    *out_cli = (replay_cli){
        .setup = {.kv_dtype = BERTH_F32,
                  .eviction = BERTH_KV_EVICT_REUSE,
                  .replay = {.divide = 1,
                             .tenants = 1,
                             .cost = {.fixed_ns = 8e6, .token_ns = 6e4, .key_token_ns = 50}}}};
    uint64_t given = 0;
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        const replay_parse result =
            option == 'h' ? REPLAY_HELP : take_option(out_cli, option, optarg);
        if (result != REPLAY_RUN) return result;
        given |= bit_of(option);
    }
    return check(out_cli, given, argc, argv);
}
