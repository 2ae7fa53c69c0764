// SPDX-License-Identifier: Apache-2.0
// berth-generate: answers prompts with a language model and reports what its memory did.
#include "engine.h"
#include "gguf_random.h"
#include "prompts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// Everything one run of the program holds.
typedef struct program {
    generate_options options;
    void* random_file; ///< of --random
    llm_gguf* gguf;
    llm_tokenizer* tokenizer;
    prompt_list prompts;
    llm_tokens* answers; ///< [prompts.count], of the first round
    llm_error error;
} program;

/// One round over all prompts.
typedef struct round {
    program* program;
    engine* engine;
    llm_sampler* sampler;
    bool is_silent; ///< the second round of a comparison
    bool identical; ///< so far, to the first round
    llm_report report;
} round;

/// Prints one answer while it is made.
typedef struct printer {
    round* round;
    size_t at; ///< index of the prompt
    llm_decoder decoder;
    llm_bytes text;
    bool failed;
    int logits_error; ///< errno of writing the logits, 0: none
} printer;

static berth_status open_model(program* p) {
    const generate_options* options = &p->options;
    if (options->model_path != NULL)
        return llm_gguf_open(options->model_path, options->use_mmap, &p->gguf, &p->error);
    llm_random_spec spec = options->random_tiny ? llm_random_spec_tiny(options->random_seed)
                                                : llm_random_spec_smollm2(options->random_seed);
    size_t size;
    berth_status status = llm_random_model(&spec, &p->random_file, &size, &p->error);
    if (status != BERTH_OK) return status;
    return llm_gguf_open_memory(p->random_file, size, &p->gguf, &p->error);
}

/// Reads the tokenizer. Without one, ids can go in and come out.
static berth_status open_tokenizer(program* p) {
    bool needs_text = p->options.source != PROMPT_TOKENS || !p->options.print_tokens;
    berth_status status = llm_tokenizer_create(p->gguf, &p->tokenizer, &p->error);
    bool is_absent = status == BERTH_ERR_NOT_FOUND || status == BERTH_ERR_UNSUPPORTED;
    return !needs_text && is_absent ? BERTH_OK : status;
}

static bool shows_progress(const round* r) {
    return isatty(STDERR_FILENO) != 0 && (r->is_silent || r->program->prompts.count > 1);
}

/// Says on the terminal what is being worked on; the line disappears when the answer begins.
static void show_progress(const round* r, size_t at) {
    if (!shows_progress(r)) return;
    const prompt_list* prompts = &r->program->prompts;
    fprintf(stderr,
            "\r\033[K%s %zu of %zu: %zu tokens ...",
            r->is_silent ? "planning off, prompt" : "prompt",
            at + 1,
            prompts->count,
            prompts->items[at].tokens.count);
    fflush(stderr);
}

static void hide_progress(const round* r) {
    if (shows_progress(r)) fputs("\r\033[K", stderr);
}

/// Closes a file that was written. 0, or the errno of whichever write failed.
static int close_written(FILE* file) {
    // a failure of an earlier write need not show in the last one
    const int earlier = ferror(file) != 0 ? EIO : 0;
    return fclose(file) != 0 ? errno : earlier;
}

/// Writes the logits after the last prompt, for checks against other programs. 0 or an errno.
static int write_logits(const round* r, const float* logits) {
    FILE* file = fopen(r->program->options.logits_path, "w");
    if (file == NULL) return errno;
    for (int64_t i = 0; i < r->engine->model->params.vocab_tokens; i++)
        fprintf(file, "%.9g\n", (double)logits[i]);
    return close_written(file);
}

static void on_prompt(void* user, const float* logits) {
    printer* print = user;
    const round* r = print->round;
    if (!r->is_silent) hide_progress(r);
    bool is_last = print->at + 1 == r->program->prompts.count;
    if (!r->is_silent && is_last && r->program->options.logits_path != NULL)
        print->logits_error = write_logits(r, logits);
}

static void print_text(const llm_bytes* text) {
    if (text->size > 0) fwrite(text->data, 1, text->size, stdout);
}

static bool on_token(void* user, int32_t id) {
    printer* print = user;
    const program* p = print->round->program;
    if (print->round->is_silent) return true;
    if (p->options.print_tokens) {
        printf("%" PRId32 " ", id);
    } else {
        print->text.size = 0;
        print->failed = llm_decoder_push(&print->decoder, id, &print->text, NULL) != BERTH_OK;
        print_text(&print->text);
    }
    fflush(stdout);
    return !print->failed;
}

static void finish_text(printer* print) {
    print->text.size = 0;
    if (llm_decoder_finish(&print->decoder, &print->text, NULL) == BERTH_OK)
        print_text(&print->text);
}

static void print_heading(const round* r, size_t at) {
    const prompt* item = &r->program->prompts.items[at];
    if (r->is_silent || item->name[0] == '\0') return;
    printf("--- %s (%zu tokens)\n", item->name, item->tokens.count);
    fflush(stdout);
}

/// Keeps the answer of the first round, or compares that of the second with it.
static void keep_or_compare(round* r, size_t at, llm_tokens* answer) {
    llm_tokens* first = &r->program->answers[at];
    if (!r->is_silent) {
        *first = *answer;
        *answer = (llm_tokens){0};
        return;
    }
    bool same = first->count == answer->count &&
                (first->count == 0 ||
                 memcmp(first->ids, answer->ids, first->count * sizeof *first->ids) == 0);
    r->identical = r->identical && same;
}

static berth_status answer_prompt(round* r, size_t at) {
    program* p = r->program;
    const prompt* item = &p->prompts.items[at];
    printer print = {.round = r, .at = at};
    if (p->tokenizer != NULL) llm_decoder_init(&print.decoder, p->tokenizer, !item->continues_text);
    llm_generate_options options = {.max_tokens = p->options.max_tokens,
                                    .tokenizer = p->tokenizer,
                                    .sampler = r->sampler,
                                    .on_prompt = on_prompt,
                                    .on_token = on_token,
                                    .user = &print};
    print_heading(r, at);
    show_progress(r, at);
    llm_tokens answer = {0};
    llm_generate_result result;
    llm_session_reset(r->engine->session);
    berth_status status = llm_generate(r->engine->session,
                                       item->tokens.ids,
                                       (int64_t)item->tokens.count,
                                       &options,
                                       &answer,
                                       &result,
                                       &p->error);
    if (!r->is_silent && p->tokenizer != NULL && !p->options.print_tokens) finish_text(&print);
    if (!r->is_silent && status == BERTH_OK) puts(p->prompts.count > 1 ? "\n" : "");
    if (status == BERTH_OK && print.failed)
        status = llm_fail_memory(&p->error, "the answer's text");
    if (status == BERTH_OK && print.logits_error != 0)
        status = llm_fail(&p->error,
                          BERTH_ERR_IO,
                          "%s: %s",
                          p->options.logits_path,
                          strerror(print.logits_error));
    r->report.prompts++;
    r->report.prompt_tokens += item->tokens.count;
    r->report.answer_tokens += answer.count;
    keep_or_compare(r, at, &answer);
    llm_tokens_fini(&answer);
    llm_bytes_fini(&print.text);
    return status;
}

/// Answers every prompt on an open engine; each begins with a fresh sampler.
static berth_status answer_all(round* r) {
    program* p = r->program;
    size_t vocab = (size_t)r->engine->model->params.vocab_tokens;
    berth_status status = BERTH_OK;
    for (size_t at = 0; at < p->prompts.count && status == BERTH_OK; at++) {
        status = llm_sampler_create(&p->options.sampling, vocab, &r->sampler, &p->error);
        if (status == BERTH_OK) status = answer_prompt(r, at);
        llm_sampler_destroy(r->sampler);
        r->sampler = NULL;
    }
    hide_progress(r);
    return status;
}

/// Runs a round in a runtime of its own.
static berth_status run_round(round* r, const char* mode) {
    program* p = r->program;
    engine own;
    berth_status status = engine_open(&p->options, mode, p->gguf, &own, &p->error);
    r->engine = &own;
    r->identical = true;
    if (status == BERTH_OK) status = answer_all(r);
    if (status == BERTH_OK) {
        llm_report counts = r->report;
        status = llm_report_collect(own.session, &r->report, &p->error);
        r->report.prompts = counts.prompts;
        r->report.prompt_tokens = counts.prompt_tokens;
        r->report.answer_tokens = counts.answer_tokens;
    }
    engine_close(&own);
    r->engine = NULL;
    return status;
}

static berth_status write_json(program* p,
                               const llm_report* report,
                               const llm_comparison* comparison) {
    const char* path = p->options.json_path;
    FILE* file = fopen(path, "w");
    if (file == NULL) return llm_fail(&p->error, BERTH_ERR_IO, "%s: %s", path, strerror(errno));
    llm_report_write_json(file, report, comparison);
    const int error = close_written(file);
    if (error == 0) return BERTH_OK;
    return llm_fail(&p->error, BERTH_ERR_IO, "%s: %s", path, strerror(error));
}

/// Answers, perhaps twice, and reports.
static berth_status run_rounds(program* p) {
    p->answers = llm_alloc_zeroed(p->prompts.count, sizeof *p->answers);
    if (p->answers == NULL) return llm_fail_memory(&p->error, "the answers");
    round first = {.program = p};
    berth_status status = run_round(&first, p->options.mode);
    round second = {.program = p, .is_silent = true};
    if (status == BERTH_OK && p->options.compare) status = run_round(&second, "pool");
    if (status != BERTH_OK) return status;
    llm_comparison comparison = {.other = &second.report, .tokens_are_identical = second.identical};
    const llm_comparison* compared = p->options.compare ? &comparison : NULL;
    if (p->options.report || p->options.compare) llm_report_print(stdout, &first.report, compared);
    if (p->options.json_path != NULL) status = write_json(p, &first.report, compared);
    if (status == BERTH_OK && compared != NULL && !compared->tokens_are_identical)
        status = llm_fail(
            &p->error, BERTH_ERR_INTERNAL, "answers differ between planning on and planning off");
    return status;
}

static void program_fini(program* p) {
    for (size_t i = 0; p->answers != NULL && i < p->prompts.count; i++)
        llm_tokens_fini(&p->answers[i]);
    llm_free(p->answers);
    prompt_list_fini(&p->prompts);
    llm_tokenizer_destroy(p->tokenizer);
    llm_gguf_close(p->gguf);
    llm_gguf_writer_release(p->random_file);
}

int main(int argc, char** argv) {
    program p = {0};
    switch (generate_options_parse(argc, argv, &p.options)) {
    case PARSE_HELP:
        generate_options_print_help();
        return 0;
    case PARSE_WRONG:
        return 2;
    case PARSE_RUN:
        break;
    }
    berth_status status = open_model(&p);
    if (status == BERTH_OK) status = open_tokenizer(&p);
    if (status == BERTH_OK)
        status = prompt_list_load(&p.options, p.gguf, p.tokenizer, &p.prompts, &p.error);
    if (status == BERTH_OK) status = run_rounds(&p);
    if (status == BERTH_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        status = llm_fail(&p.error, BERTH_ERR_IO, "the answer could not be written to stdout");
    if (status != BERTH_OK) {
        fflush(stdout);
        fprintf(stderr, "berth-generate: %s\n", p.error.text);
    }
    program_fini(&p);
    return status == BERTH_OK ? 0 : 1;
}
