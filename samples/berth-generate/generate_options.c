// SPDX-License-Identifier: Apache-2.0
// Command line: one table of long options, one switch that reads them.
#include "generate_options.h"

#include "option_text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "berth-generate";

enum {
    OPT_HELP = 256,
    OPT_MODEL,
    OPT_RANDOM,
    OPT_RANDOM_SIZE,
    OPT_NO_MMAP,
    OPT_PROMPT,
    OPT_CHAT,
    OPT_PROMPTS,
    OPT_TOKENS,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_SEED,
    OPT_THREADS,
    OPT_DEVICE,
    OPT_MEMORY,
    OPT_PLAN,
    OPT_KV_TYPE,
    OPT_CTX,
    OPT_CHUNK,
    OPT_REPORT,
    OPT_COMPARE,
    OPT_JSON,
    OPT_LOGITS,
    OPT_PRINT_TOKENS,
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"model", required_argument, NULL, OPT_MODEL},
    {"random", optional_argument, NULL, OPT_RANDOM},
    {"random-size", required_argument, NULL, OPT_RANDOM_SIZE},
    {"no-mmap", no_argument, NULL, OPT_NO_MMAP},
    {"prompt", required_argument, NULL, OPT_PROMPT},
    {"chat", required_argument, NULL, OPT_CHAT},
    {"prompts", required_argument, NULL, OPT_PROMPTS},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"temperature", required_argument, NULL, OPT_TEMPERATURE},
    {"top-k", required_argument, NULL, OPT_TOP_K},
    {"top-p", required_argument, NULL, OPT_TOP_P},
    {"seed", required_argument, NULL, OPT_SEED},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"plan", required_argument, NULL, OPT_PLAN},
    {"kv-type", required_argument, NULL, OPT_KV_TYPE},
    {"ctx", required_argument, NULL, OPT_CTX},
    {"chunk", required_argument, NULL, OPT_CHUNK},
    {"report", no_argument, NULL, OPT_REPORT},
    {"compare", no_argument, NULL, OPT_COMPARE},
    {"json", required_argument, NULL, OPT_JSON},
    {"logits", required_argument, NULL, OPT_LOGITS},
    {"print-tokens", no_argument, NULL, OPT_PRINT_TOKENS},
    {NULL, 0, NULL, 0},
};

void generate_options_print_help(void) {
    fputs("usage: berth-generate (--model PATH | --random) PROMPT [OPTIONS]\n"
          "\n"
          "Answers prompts with a llama-architecture model in a GGUF file.\n"
          "\n"
          "Model\n"
          "  --model PATH         GGUF file\n"
          "  --random[=SEED]      random weights instead, of the geometry of SmolLM2-135M\n"
          "  --random-size SIZE   full (default) or tiny\n"
          "  --no-mmap            read the file into memory instead of mapping it\n"
          "\n"
          "Prompt, one of\n"
          "  --prompt TEXT        text to continue\n"
          "  --chat TEXT          message to answer, in the model's chat format\n"
          "  --prompts PATH       folder of .txt files, or file with one prompt a line; asked in\n"
          "                       the chat format if the model has one\n"
          "  --tokens \"ID ID...\"  token ids to continue\n"
          "\n"
          "Answer\n"
          "  -n N                 most tokens to make (default 64)\n"
          "  --temperature X      0 (default) takes the likeliest token always\n"
          "  --top-k N            choose among the N likeliest; 0 (default): all\n"
          "  --top-p X            choose among the likeliest of total probability X; default 1\n"
          "  --seed N             of the choice (default 1)\n"
          "  --print-tokens       print ids instead of text\n"
          "  --logits FILE        write the logits after the last prompt, one a line\n"
          "\n"
          "Running\n"
          "  --threads N          0 takes every core\n"
          "  --device DEVICE      cpu or cuda (default: BERTH_DEVICE, which is cpu)\n"
          "  --memory BYTES       most memory for tensors, such as 512M\n"
          "  --plan on|off        plan the memory of steps, or take all from the pool\n"
          "  --kv-type TYPE       of cached keys and values: f32 (default), f16, bf16 or q8_0\n"
          "  --ctx N              most tokens of prompt and answer (default: the model's)\n"
          "  --chunk N            most tokens of one step (default: the whole prompt)\n"
          "\n"
          "Report\n"
          "  --report             print what the steps needed and how they were placed\n"
          "  --compare            answer again with planning off and compare\n"
          "  --json FILE          write the report as JSON\n",
          stdout);
}

static parse_result wrong(const char* option, const char* value, const char* expected) {
    fprintf(stderr, "%s: --%s %s: expected %s\n", program, option, value, expected);
    return PARSE_WRONG;
}

/// Reads a seed.
static bool read_seed(const char* text, uint64_t* out_value) {
    int64_t value;
    if (!llm_parse_whole(text, 0, INT64_MAX, &value)) return false;
    *out_value = (uint64_t)value;
    return true;
}

static bool read_float(const char* text, double least, double most, float* out_value) {
    double value;
    if (!llm_parse_number(text, least, most, &value)) return false;
    *out_value = (float)value;
    return true;
}

/// Where the prompt comes from; a second source is a mistake.
static parse_result take_prompt(generate_options* options,
                                prompt_source source,
                                const char* value) {
    if (options->source != PROMPT_NONE) {
        fprintf(
            stderr, "%s: --prompt, --chat, --prompts and --tokens exclude each other\n", program);
        return PARSE_WRONG;
    }
    options->source = source;
    options->prompt = value;
    return PARSE_RUN;
}

/// Reads an option that chooses tokens.
static parse_result take_sampling(generate_options* options, int option, const char* value) {
    llm_sampler_options* sampling = &options->sampling;
    int64_t count;
    switch (option) {
    case OPT_TEMPERATURE:
        if (read_float(value, 0.0, 1000.0, &sampling->temperature)) return PARSE_RUN;
        return wrong("temperature", value, "a number from 0 to 1000");
    case OPT_TOP_K:
        if (!llm_parse_whole(value, 0, INT32_MAX, &count))
            return wrong("top-k", value, "a whole number from 0");
        sampling->top_k = (int32_t)count;
        return PARSE_RUN;
    case OPT_TOP_P:
        if (read_float(value, 0.0, 1.0, &sampling->top_p)) return PARSE_RUN;
        return wrong("top-p", value, "a number from 0 to 1");
    default:
        if (read_seed(value, &sampling->seed)) return PARSE_RUN;
        return wrong("seed", value, "a whole number from 0");
    }
}

/// Reads the element type of cached keys and values.
static parse_result take_kv_type(generate_options* options, const char* value) {
    if (llm_kv_dtype_find(value, &options->kv_dtype)) return PARSE_RUN;
    return wrong("kv-type", value, "f32, f16, bf16 or q8_0");
}

/// Reads an option that has a choice of words.
static parse_result take_word(generate_options* options, int option, const char* value) {
    if (option == OPT_PLAN) {
        bool off = strcmp(value, "off") == 0;
        if (!off && strcmp(value, "on") != 0) return wrong("plan", value, "on or off");
        options->mode = off ? "pool" : "auto";
    } else if (option == OPT_KV_TYPE) {
        return take_kv_type(options, value);
    } else {
        options->random_tiny = strcmp(value, "tiny") == 0;
        if (!options->random_tiny && strcmp(value, "full") != 0)
            return wrong("random-size", value, "full or tiny");
    }
    return PARSE_RUN;
}

static parse_result take_count(const char* option, const char* value, int64_t* out_count) {
    if (llm_parse_whole(value, 1, INT32_MAX, out_count)) return PARSE_RUN;
    return wrong(option, value, "a whole number from 1");
}

static parse_result take_option(generate_options* o, int option, const char* value, bool* random) {
    switch (option) {
    case 'n':
        if (llm_parse_whole(value, 0, INT32_MAX, &o->max_tokens)) return PARSE_RUN;
        fprintf(stderr, "%s: -n %s: expected a whole number from 0\n", program, value);
        return PARSE_WRONG;
    case OPT_MODEL:
        o->model_path = value;
        return PARSE_RUN;
    case OPT_RANDOM:
        *random = true;
        if (value == NULL || read_seed(value, &o->random_seed)) return PARSE_RUN;
        return wrong("random", value, "a whole number from 0");
    case OPT_NO_MMAP:
        o->use_mmap = false;
        return PARSE_RUN;
    case OPT_PROMPT:
        return take_prompt(o, PROMPT_TEXT, value);
    case OPT_CHAT:
        return take_prompt(o, PROMPT_CHAT, value);
    case OPT_PROMPTS:
        return take_prompt(o, PROMPT_FILES, value);
    case OPT_TOKENS:
        return take_prompt(o, PROMPT_TOKENS, value);
    case OPT_TEMPERATURE:
    case OPT_TOP_K:
    case OPT_TOP_P:
    case OPT_SEED:
        return take_sampling(o, option, value);
    case OPT_RANDOM_SIZE:
    case OPT_PLAN:
    case OPT_KV_TYPE:
        return take_word(o, option, value);
    case OPT_THREADS:
        o->threads = value;
        return PARSE_RUN;
    case OPT_DEVICE:
        o->device = value;
        return PARSE_RUN;
    case OPT_MEMORY:
        o->memory = value;
        return PARSE_RUN;
    case OPT_CTX:
        return take_count("ctx", value, &o->context_tokens);
    case OPT_CHUNK:
        return take_count("chunk", value, &o->chunk_tokens);
    case OPT_REPORT:
        o->report = true;
        return PARSE_RUN;
    case OPT_COMPARE:
        o->compare = true;
        return PARSE_RUN;
    case OPT_JSON:
        o->json_path = value;
        return PARSE_RUN;
    case OPT_LOGITS:
        o->logits_path = value;
        return PARSE_RUN;
    case OPT_PRINT_TOKENS:
        o->print_tokens = true;
        return PARSE_RUN;
    case OPT_HELP:
        return PARSE_HELP;
    default:
        return PARSE_WRONG; // getopt has said why
    }
}

/// Looks for what is missing or does not go together.
static parse_result check(const generate_options* options, bool random, int argc, char** argv) {
    if (optind < argc) {
        fprintf(stderr, "%s: unexpected argument \"%s\"\n", program, argv[optind]);
        return PARSE_WRONG;
    }
    if ((options->model_path != NULL) == random) {
        fprintf(stderr, "%s: one of --model PATH and --random is needed; see --help\n", program);
        return PARSE_WRONG;
    }
    if (options->source == PROMPT_NONE) {
        fprintf(stderr,
                "%s: one of --prompt, --chat, --prompts and --tokens is needed; see --help\n",
                program);
        return PARSE_WRONG;
    }
    return PARSE_RUN;
}

parse_result generate_options_parse(int argc, char** argv, generate_options* out_options) {
    *out_options = (generate_options){.random_seed = 1,
                                      .use_mmap = true,
                                      .max_tokens = 64,
                                      .sampling = {.top_p = 1.0f, .seed = 1},
                                      .kv_dtype = BERTH_F32};
    bool random = false;
    int option;
    while ((option = getopt_long(argc, argv, "n:h", long_options, NULL)) != -1) {
        if (option == 'h') return PARSE_HELP;
        parse_result result = take_option(out_options, option, optarg, &random);
        if (result != PARSE_RUN) return result;
    }
    return check(out_options, random, argc, argv);
}
