// SPDX-License-Identifier: Apache-2.0
// gpu-tokens: what small generated language models answer on a GPU, against what they answered on
// the CPU when the bundle was made.
//
// Every prompt's answer is fed back as the CPU had it, token by token, so that one tie that goes
// the other way is one difference and not the rest of the answer. A difference is a failure where
// the CPU had the token well before the next likeliest one.
//
// usage: gpu-tokens --make FOLDER | --check FOLDER [--device cuda|cpu|...] [--prompts N]
//                   [--answer N]
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_random.h"
#include "kit/random.h"
#include "session.h"

enum { PROMPTS = 6, LONGEST_PROMPT = 160, ANSWER = 20, SKIPPED = 77 };

/// Answers of a model, and how much of the spread of a row of logits an error may be.
typedef struct model_kind {
    const char* name;
    uint32_t embedding_type;
    uint32_t matrix_type;
    const char* kv_type;
    double tolerance;
} model_kind;

static const model_kind kinds[] = {
    {"f32", LLM_TENSOR_F32, LLM_TENSOR_F32, "f32", 1e-3},
    // on a GPU quantised weights become f16 ones
    {"q8_0", LLM_TENSOR_Q8_0, LLM_TENSOR_Q8_0, "f16", 2e-2},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/// The most likely token of a row of logits.
typedef struct verdict {
    int32_t id;
    double logit;
    double margin; ///< before the next likeliest
    double spread; ///< standard deviation of the row
} verdict;

typedef struct answer {
    verdict tokens[ANSWER];
} answer;

_Noreturn static void die(const char* what, const char* reason) {
    (void)fprintf(stderr, "gpu-tokens: %s: %s\n", what, reason);
    exit(1);
}

static verdict judge(const float* logits, int64_t count) {
    verdict v = {.id = 0, .logit = (double)logits[0], .margin = 0};
    double second = -(double)INFINITY, sum = 0, squares = 0;
    for (int64_t i = 0; i < count; ++i) {
        const double logit = (double)logits[i];
        sum += logit;
        squares += logit * logit;
        if (i > 0 && logit > v.logit) {
            second = v.logit;
            v.id = (int32_t)i;
            v.logit = logit;
        } else if (i > 0 && logit > second) {
            second = logit;
        }
    }
    const double mean = sum / (double)count;
    v.margin = v.logit - second;
    v.spread = sqrt(fmax(squares / (double)count - mean * mean, 0));
    return v;
}

/// Prompt `index`: the same everywhere, the first a short one.
static int64_t make_prompt(int index, int32_t* ids) {
    test_random random = test_random_make((uint64_t)index + 7);
    const int64_t count = index == 0 ? 3 : 1 + (int64_t)test_random_below(&random, LONGEST_PROMPT);
    for (int64_t i = 0; i < count; ++i)
        ids[i] =
            LLM_RANDOM_CONTROL_TOKENS + (int32_t)test_random_below(&random, LLM_RANDOM_TOKENS - 16);
    return count;
}

// --- A model on a device -------------------------------------------------------------------------

typedef struct engine {
    berth_runtime* runtime;
    berth_context* context;
    llm_gguf* gguf;
    llm_model* model;
    llm_session* session;
} engine;

/// Ends the program if the model cannot be opened; false if there is no such device.
static bool open_engine(engine* e, const char* device, const char* path, const model_kind* kind) {
    const berth_option_setting settings[] = {{"device", device}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    *e = (engine){0};
    if (berth_runtime_create(&options, &e->runtime) != BERTH_OK) return false;
    llm_session_options session = {.context_tokens = 0};
    if (!llm_kv_dtype_find(kind->kv_type, &session.kv_dtype)) die(kind->kv_type, "no such type");
    llm_error error = {.text = ""};
    if (berth_context_create(e->runtime, &e->context) != BERTH_OK) die(device, berth_last_error());
    if (llm_gguf_open(path, true, &e->gguf, &error) != BERTH_OK ||
        llm_model_create(e->context, e->gguf, &e->model, &error) != BERTH_OK ||
        llm_session_create(e->model, &session, &e->session, &error) != BERTH_OK)
        die(path, error.text);
    return true;
}

static void close_engine(engine* e) {
    llm_session_destroy(e->session);
    llm_model_destroy(e->model);
    llm_gguf_close(e->gguf);
    berth_context_release(e->context);
    berth_runtime_release(e->runtime);
}

static void feed(engine* e, const int32_t* ids, int64_t count) {
    llm_error error;
    if (llm_session_feed(e->session, ids, count, &error) != BERTH_OK) die("a step", error.text);
}

/// Answers prompt `index`; what is fed back is the answer's own tokens, or `expected`'s.
static void answer_prompt(engine* e, int index, int tokens, const answer* expected, answer* out) {
    int32_t ids[LONGEST_PROMPT];
    const int64_t vocabulary = e->model->params.vocab_tokens;
    llm_session_reset(e->session);
    feed(e, ids, make_prompt(index, ids));
    for (int i = 0; i < tokens; ++i) {
        out->tokens[i] = judge(e->session->logits, vocabulary);
        const int32_t next = expected != NULL ? expected->tokens[i].id : out->tokens[i].id;
        if (i + 1 < tokens) feed(e, &next, 1);
    }
}

// --- Making --------------------------------------------------------------------------------------

static FILE* open_file(const char* folder, const char* name, const char* ending, const char* mode) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE* file = fopen(path, mode);
    if (file == NULL) die(path, "cannot be opened");
    return file;
}

static void close_file(FILE* file) {
    const bool is_written = ferror(file) == 0;
    if (fclose(file) != 0 || !is_written) die("a file", "cannot be written");
}

static void write_model(const char* folder, const model_kind* kind) {
    const llm_random_spec spec = {.width = 192,
                                  .layers = 3,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .ffn_width = 512,
                                  .context = 512,
                                  .rope_base = 10000,
                                  .embedding_type = kind->embedding_type,
                                  .matrix_type = kind->matrix_type,
                                  .seed = 11};
    llm_error error;
    void* data;
    size_t size;
    if (llm_random_model(&spec, &data, &size, &error) != BERTH_OK) die(kind->name, error.text);
    FILE* file = open_file(folder, kind->name, ".gguf", "wb");
    if (fwrite(data, 1, size, file) != size) die(kind->name, "cannot be written");
    close_file(file);
    llm_gguf_writer_release(data);
}

static void make(const char* folder) {
    for (int k = 0; k < KINDS; ++k) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s.gguf", folder, kinds[k].name);
        write_model(folder, &kinds[k]);
        engine e;
        if (!open_engine(&e, "cpu", path, &kinds[k])) die("the CPU", berth_last_error());
        FILE* file = open_file(folder, kinds[k].name, ".expected", "w");
        for (int p = 0; p < PROMPTS; ++p) {
            answer a;
            answer_prompt(&e, p, ANSWER, NULL, &a);
            for (int i = 0; i < ANSWER; ++i) {
                const verdict* v = &a.tokens[i];
                (void)fprintf(
                    file, "%" PRId32 " %.9g %.9g %.9g\n", v->id, v->logit, v->margin, v->spread);
            }
        }
        close_file(file);
        close_engine(&e);
    }
}

// --- Checking ------------------------------------------------------------------------------------

/// What all prompts of a model showed.
typedef struct tally {
    int tokens, equal, ties, wrong;
    double worst; ///< difference of an expected token's logit, as a share of the row's spread
} tally;

static void compare(
    const model_kind* kind, int tokens, const answer* want, const answer* got, tally* sums) {
    for (int i = 0; i < tokens; ++i) {
        const verdict *w = &want->tokens[i], *g = &got->tokens[i];
        const double off = fabs(w->logit - g->logit) / w->spread;
        const bool is_far = !(off <= kind->tolerance);
        if (!(off <= sums->worst)) sums->worst = off;
        ++sums->tokens;
        if (w->id == g->id && !is_far)
            ++sums->equal;
        else if (w->margin <= 2 * kind->tolerance * w->spread && !is_far)
            ++sums->ties;
        else
            ++sums->wrong;
    }
}

static bool read_answer(FILE* file, answer* out) {
    for (int i = 0; i < ANSWER; ++i) {
        verdict* v = &out->tokens[i];
        if (fscanf(file, "%" SCNd32 " %lf %lf %lf", &v->id, &v->logit, &v->margin, &v->spread) != 4)
            return false;
    }
    return true;
}

/// 0 if all is well, 1 if tokens are wrong, SKIPPED if there is no such device.
static int check(const char* folder, const char* device, int prompts, int tokens) {
    int wrong = 0;
    for (int k = 0; k < KINDS; ++k) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s.gguf", folder, kinds[k].name);
        engine e;
        if (!open_engine(&e, device, path, &kinds[k])) {
            printf("skipped: %s\n", berth_last_error());
            return SKIPPED;
        }
        FILE* file = open_file(folder, kinds[k].name, ".expected", "r");
        tally sums = {0};
        for (int p = 0; p < prompts; ++p) {
            answer want, got;
            if (!read_answer(file, &want)) die(path, "the expected tokens cannot be read");
            answer_prompt(&e, p, tokens, &want, &got);
            compare(&kinds[k], tokens, &want, &got, &sums);
        }
        close_file(file);
        close_engine(&e);
        wrong += sums.wrong;
        printf("%-5s %3d tokens: %d equal, %d ties, %d wrong; logits at most %.2g of their spread "
               "apart (%.2g allowed)\n",
               kinds[k].name,
               sums.tokens,
               sums.equal,
               sums.ties,
               sums.wrong,
               sums.worst,
               kinds[k].tolerance);
    }
    return wrong > 0;
}

int main(int count, char** arguments) {
    static const struct option known[] = {{"make", required_argument, NULL, 'm'},
                                          {"check", required_argument, NULL, 'c'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"prompts", required_argument, NULL, 'p'},
                                          {"answer", required_argument, NULL, 'a'},
                                          {NULL, 0, NULL, 0}};
    const char *made = NULL, *checked = NULL, *device = "cuda";
    int prompts = PROMPTS, tokens = ANSWER;
    for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;) {
        if (option == 'm')
            made = optarg;
        else if (option == 'c')
            checked = optarg;
        else if (option == 'd')
            device = optarg;
        else if (option == 'p')
            prompts = (int)strtol(optarg, NULL, 10);
        else if (option == 'a')
            tokens = (int)strtol(optarg, NULL, 10);
        else
            return 2;
    }
    const bool is_in_range = prompts >= 1 && prompts <= PROMPTS && tokens >= 1 && tokens <= ANSWER;
    if ((made == NULL) == (checked == NULL) || !is_in_range) {
        (void)fprintf(stderr,
                      "usage: gpu-tokens --make FOLDER | --check FOLDER [--device NAME] "
                      "[--prompts 1..%d] [--answer 1..%d]\n",
                      PROMPTS,
                      ANSWER);
        return 2;
    }
    if (checked != NULL) return check(checked, device, prompts, tokens);
    make(made);
    return 0;
}
