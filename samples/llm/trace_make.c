// SPDX-License-Identifier: Apache-2.0
// Random conversations, their turns in the order of arrival, and the text of them.
#include "trace_make.h"

#include "llm_random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Answer tokens a second that a user is taken to see, for the time of the next turn.
static const double answer_rate = 30.0;

/// One request of a conversation.
typedef struct turn {
    double arrival_ms;
    int64_t number; ///< in the order of making, which decides between equal arrivals
    int64_t prompt_tokens;
    int64_t answer_tokens;
    int64_t system_prompt;
    int64_t first_block; ///< id of the conversation's first block behind the shared ones
} turn;

/// What is being made.
typedef struct maker {
    const llm_trace_recipe* recipe;
    uint64_t state;
    turn* turns; ///< [recipe->requests]
    int64_t count;
    int64_t next_block;
} maker;

// ---- Random numbers.

/// Uniform in (0, 1].
static double draw(maker* m) { return (double)((llm_random_next(&m->state) >> 11) + 1) * 0x1p-53; }

static double draw_exponential(maker* m, double mean) { return -log(draw(m)) * mean; }

/// Log-normal, rounded up to whole tokens.
static int64_t draw_tokens(maker* m, double median, double sigma) {
    const double radius = sqrt(-2.0 * log(draw(m)));
    const double normal = radius * cos(6.283185307179586 * draw(m));
    // far beyond every limit of a trace, so that the conversion is defined
    return (int64_t)fmin(ceil(median * exp(sigma * normal)), 1e12);
}

/// Number of a system prompt, the first ones being more common.
static int64_t draw_system_prompt(maker* m) {
    const int64_t count = (int64_t)m->recipe->systems;
    double all = 0.0;
    for (int64_t i = 0; i < count; i++)
        all += 1.0 / (double)(i + 1);
    double left = draw(m) * all;
    for (int64_t i = 0; i < count; i++) {
        left -= 1.0 / (double)(i + 1);
        if (left <= 0.0) return i;
    }
    return count - 1;
}

// ---- Conversations.

static int64_t system_tokens(const llm_trace_recipe* r) {
    return r->systems >= 1.0 ? (int64_t)r->system_tokens : 0;
}

/// Whole blocks of a system prompt: those that conversations share.
static int64_t shared_blocks(const llm_trace_recipe* r) {
    return system_tokens(r) / LLM_TRACE_MAKE_BLOCK;
}

/// Cuts a message and its answer down to the room that is left, which is at least two tokens.
static void fit_turn(int64_t room, int64_t* message, int64_t* answer) {
    if (*message > room - 1) *message = room - 1;
    if (*answer > room - *message) *answer = room - *message;
}

/// Adds a conversation's turns, all or as many as are still wanted.
static void add_conversation(maker* m, double begin_ms) {
    const llm_trace_recipe* r = m->recipe;
    const int64_t most = (int64_t)r->most_tokens;
    const int64_t system_prompt = draw_system_prompt(m);
    const int64_t first_block = m->next_block;
    int64_t before = system_tokens(r);
    double at_ms = begin_ms;
    for (bool goes_on = true; goes_on && m->count < (int64_t)r->requests;) {
        int64_t message = draw_tokens(m, r->message_median, r->message_sigma);
        int64_t answer = draw_tokens(m, r->answer_median, r->answer_sigma);
        fit_turn(most - before, &message, &answer);
        m->turns[m->count] = (turn){.arrival_ms = at_ms,
                                    .number = m->count,
                                    .prompt_tokens = before + message,
                                    .answer_tokens = answer,
                                    .system_prompt = system_prompt,
                                    .first_block = first_block};
        m->count++;
        before += message + answer;
        at_ms += (double)answer / answer_rate * 1e3 + draw_exponential(m, r->think_s * 1e3);
        goes_on = draw(m) > 1.0 / r->turns && most - before >= 2;
    }
    m->next_block += before / LLM_TRACE_MAKE_BLOCK - shared_blocks(r);
}

static int by_arrival(const void* a, const void* b) {
    const turn* left = a;
    const turn* right = b;
    if (left->arrival_ms != right->arrival_ms) return left->arrival_ms < right->arrival_ms ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

static void add_conversations(maker* m) {
    const llm_trace_recipe* r = m->recipe;
    const double mean_ms = r->turns / r->rate * 1e3;
    double begin_ms = 0.0;
    while (m->count < (int64_t)r->requests) {
        begin_ms += draw_exponential(m, mean_ms);
        add_conversation(m, begin_ms);
    }
    qsort(m->turns, (size_t)m->count, sizeof *m->turns, by_arrival);
}

// ---- Text.

static berth_status write_number(llm_bytes* text, const char* before, int64_t value, llm_error* e) {
    char number[64];
    const int size = snprintf(number, sizeof number, "%s%" PRId64, before, value);
    return llm_bytes_append(text, number, (size_t)size, e);
}

/// Writes the ids of the blocks from `begin` to `end` of a conversation.
static berth_status write_blocks(
    const maker* m, const turn* t, int64_t begin, int64_t end, llm_bytes* text, llm_error* error) {
    const int64_t shared = shared_blocks(m->recipe);
    berth_status status = BERTH_OK;
    for (int64_t at = begin; at < end && status == BERTH_OK; at++) {
        const int64_t id =
            at < shared ? t->system_prompt * shared + at : t->first_block + at - shared;
        status = write_number(text, at > begin ? "," : "", id, error);
    }
    return status;
}

static berth_status write_turn(const maker* m, const turn* t, llm_bytes* text, llm_error* error) {
    const int64_t in_blocks = t->prompt_tokens / LLM_TRACE_MAKE_BLOCK;
    const int64_t all_blocks = (t->prompt_tokens + t->answer_tokens) / LLM_TRACE_MAKE_BLOCK;
    static const char tail[] = "],\"all_blocks_tail\":[";
    char head[160];
    const int size =
        snprintf(head,
                 sizeof head,
                 "{\"t_ms\":%.3f,\"in\":%" PRId64 ",\"out\":%" PRId64 ",\"in_blocks\":[",
                 t->arrival_ms,
                 t->prompt_tokens,
                 t->answer_tokens);
    berth_status status = llm_bytes_append(text, head, (size_t)size, error);
    if (status == BERTH_OK) status = write_blocks(m, t, 0, in_blocks, text, error);
    if (status == BERTH_OK) status = llm_bytes_append(text, tail, sizeof tail - 1, error);
    if (status == BERTH_OK) status = write_blocks(m, t, in_blocks, all_blocks, text, error);
    if (status == BERTH_OK) status = llm_bytes_append(text, "]}\n", 3, error);
    return status;
}

berth_status llm_trace_make(const llm_trace_recipe* recipe, llm_bytes* out_text, llm_error* error) {
    *out_text = (llm_bytes){0};
    if ((double)system_tokens(recipe) > recipe->most_tokens - 2.0)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "system_tokens is %.0f, which leaves no message and answer within "
                        "most_tokens, %.0f",
                        recipe->system_tokens,
                        recipe->most_tokens);
    maker m = {.recipe = recipe, .state = (uint64_t)recipe->seed};
    m.next_block = (int64_t)recipe->systems * shared_blocks(recipe);
    m.turns = llm_alloc((size_t)recipe->requests, sizeof *m.turns);
    if (m.turns == NULL) return llm_fail_memory(error, "the turns of a trace");
    add_conversations(&m);
    berth_status status = BERTH_OK;
    for (int64_t i = 0; i < m.count && status == BERTH_OK; i++)
        status = write_turn(&m, &m.turns[i], out_text, error);
    llm_free(m.turns);
    return status;
}

// ---- Recipes.

/// A parameter's name, place and range.
typedef struct parameter {
    const char* name;
    size_t offset;
    double start[3]; ///< by kind
    double least;
    double most;
} parameter;

// clang-format off
static const parameter parameters[] = {
#define PARAMETER(name, chat, single, shared, least, most, help)                                   \
    {#name, offsetof(llm_trace_recipe, name), {chat, single, shared}, least, most},
    LLM_TRACE_PARAMETER_MAP(PARAMETER)
#undef PARAMETER
};

#define PARAMETER_NAME(name, chat, single, shared, least, most, help) " " #name
#define PARAMETER_NAMES LLM_TRACE_PARAMETER_MAP(PARAMETER_NAME)
// clang-format on

static const char* const kinds[] = {"chat", "single", "shared"};

static double* place_of(llm_trace_recipe* recipe, const parameter* p) {
    return (double*)(void*)((char*)recipe + p->offset);
}

static const parameter* find_parameter(llm_str name) {
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (llm_str_equal(name, llm_str_of(parameters[i].name))) return &parameters[i];
    return NULL;
}

/// Reads one "NAME=VALUE".
static berth_status take_setting(llm_trace_recipe* recipe, llm_str setting, llm_error* error) {
    const char* equals = memchr(setting.data, '=', setting.size);
    const size_t name_size = equals == NULL ? setting.size : (size_t)(equals - setting.data);
    const parameter* p = find_parameter((llm_str){setting.data, name_size});
    if (p == NULL || equals == NULL)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "\"%s\" is no parameter of a trace with a value: expected NAME=VALUE with "
                        "one of" PARAMETER_NAMES,
                        llm_quote(setting).text);
    char* end;
    const double value = strtod(equals + 1, &end);
    const char* wanted = setting.data + setting.size;
    if (end == wanted && end != equals + 1 && value >= p->least && value <= p->most) {
        *place_of(recipe, p) = value;
        return BERTH_OK;
    }
    return llm_fail(error,
                    BERTH_ERR_INVALID_ARGUMENT,
                    "\"%s\": expected a number from %g to %g",
                    llm_quote(setting).text,
                    p->least,
                    p->most);
}

/// Fills in the starting values of a kind; false if there is no such kind.
static bool start_with(llm_trace_recipe* recipe, llm_str kind) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (!llm_str_equal(kind, llm_str_of(kinds[k]))) continue;
        for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
            *place_of(recipe, &parameters[i]) = parameters[i].start[k];
        return true;
    }
    return false;
}

berth_status llm_trace_recipe_parse(const char* text,
                                    llm_trace_recipe* out_recipe,
                                    llm_error* error) {
    *out_recipe = (llm_trace_recipe){0};
    const size_t kind_size = strcspn(text, ":");
    if (!start_with(out_recipe, (llm_str){text, kind_size}))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "\"%s\" is no kind of trace: expected chat, single or shared",
                        llm_quote((llm_str){text, kind_size}).text);
    berth_status status = BERTH_OK;
    for (const char* at = text + kind_size; *at != '\0' && status == BERTH_OK;) {
        at++; // over ':' or ','
        const size_t size = strcspn(at, ",");
        status = take_setting(out_recipe, (llm_str){at, size}, error);
        at += size;
    }
    return status;
}
