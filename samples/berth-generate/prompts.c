// SPDX-License-Identifier: Apache-2.0
// Gathering prompts: a text, a message, ids, a file of lines, a folder of files.
#include "prompts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/// What is needed to turn texts into prompts.
typedef struct gatherer {
    const llm_tokenizer* tokenizer;
    const llm_chat* chat; ///< NULL for models that only continue text
    prompt_list* list;
    llm_error* error;
} gatherer;

/// Adds an empty prompt to the list, or returns NULL.
static prompt* add_prompt(const gatherer* g, const char* name) {
    prompt_list* list = g->list;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        prompt* items = llm_realloc(list->items, capacity, sizeof *items);
        if (items == NULL) return NULL;
        list->items = items;
        list->capacity = capacity;
    }
    prompt* added = &list->items[list->count++];
    *added = (prompt){0};
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

static berth_status encode(const gatherer* g, llm_str text, bool as_chat, prompt* out) {
    out->continues_text = !as_chat;
    if (!as_chat)
        return llm_tokenizer_encode(
            g->tokenizer, text, LLM_ENCODE_ADD_SPECIAL, &out->tokens, g->error);
    llm_chat_message message = {.role = llm_str_of("user"), .content = text};
    return llm_chat_render(g->chat, &message, 1, true, true, &out->tokens, g->error);
}

/// Adds a text under a name, as a message if the model takes messages and `may_chat`.
static berth_status add_text(const gatherer* g, const char* name, llm_str text, bool may_chat) {
    prompt* added = add_prompt(g, name);
    if (added == NULL) return llm_fail_memory(g->error, "the prompts");
    berth_status status = encode(g, text, may_chat && g->chat != NULL, added);
    if (status != BERTH_OK || added->tokens.count > 0) return status;
    return llm_fail(g->error,
                    BERTH_ERR_INVALID_ARGUMENT,
                    "prompt %s has no tokens",
                    name[0] == '\0' ? "given" : name);
}

/// Reads ids that are separated by white space or commas.
static berth_status add_ids(const gatherer* g, const char* text) {
    prompt* added = add_prompt(g, "");
    if (added == NULL) return llm_fail_memory(g->error, "the prompts");
    added->continues_text = true;
    const char* at = text;
    for (;;) {
        at += strspn(at, " \t\n\r,");
        if (*at == '\0') break;
        char* end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno != 0 || id < 0 || id > INT32_MAX)
            return llm_fail(g->error,
                            BERTH_ERR_INVALID_ARGUMENT,
                            "\"%s\" does not begin with a token id",
                            llm_quote(llm_str_of(at)).text);
        berth_status status = llm_tokens_push(&added->tokens, (int32_t)id, g->error);
        if (status != BERTH_OK) return status;
        at = end;
    }
    if (added->tokens.count > 0) return BERTH_OK;
    return llm_fail(g->error, BERTH_ERR_INVALID_ARGUMENT, "--tokens names no token");
}

static berth_status fail_io(const gatherer* g, const char* path) {
    return llm_fail(g->error, BERTH_ERR_IO, "%s: %s", path, strerror(errno));
}

/// Appends a file's bytes to `out`.
static berth_status read_file(const gatherer* g, const char* path, llm_bytes* out) {
    FILE* file = fopen(path, "rb");
    if (file == NULL) return fail_io(g, path);
    char block[4096];
    berth_status status = BERTH_OK;
    size_t size;
    while (status == BERTH_OK && (size = fread(block, 1, sizeof block, file)) > 0)
        status = llm_bytes_append(out, block, size, g->error);
    if (status == BERTH_OK && ferror(file)) status = fail_io(g, path);
    fclose(file);
    return status;
}

/// Cuts the new line at the end of a file off.
static llm_str without_end(llm_str text) {
    while (text.size > 0 && strchr("\r\n", text.data[text.size - 1]) != NULL)
        text.size--;
    return text;
}

/// One prompt a line; empty lines are nothing.
static berth_status add_lines(const gatherer* g, llm_str text) {
    berth_status status = BERTH_OK;
    for (size_t number = 1; text.size > 0 && status == BERTH_OK; number++) {
        const char* end = memchr(text.data, '\n', text.size);
        size_t size = end == NULL ? text.size : (size_t)(end - text.data);
        llm_str line = without_end((llm_str){text.data, size});
        char name[32];
        snprintf(name, sizeof name, "line %zu", number);
        if (line.size > 0) status = add_text(g, name, line, true);
        size_t taken = end == NULL ? size : size + 1;
        text = (llm_str){text.data + taken, text.size - taken};
    }
    return status;
}

static int is_text_file(const struct dirent* entry) {
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0;
}

static int by_name(const struct dirent** a, const struct dirent** b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static berth_status add_file(const gatherer* g, const char* folder, const char* name) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return llm_fail(g->error, BERTH_ERR_INVALID_ARGUMENT, "the path of %s is too long", name);
    llm_bytes text = {0};
    berth_status status = read_file(g, path, &text);
    if (status == BERTH_OK)
        status = add_text(g, name, without_end((llm_str){text.data, text.size}), true);
    llm_bytes_fini(&text);
    return status;
}

/// One prompt a .txt file, in the order of their names.
static berth_status add_folder(const gatherer* g, const char* folder) {
    struct dirent** entries;
    int count = scandir(folder, &entries, is_text_file, by_name);
    if (count < 0) return fail_io(g, folder);
    berth_status status = BERTH_OK;
    for (int i = 0; i < count; i++) {
        if (status == BERTH_OK) status = add_file(g, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static berth_status add_path(const gatherer* g, const char* path) {
    struct stat about;
    if (stat(path, &about) != 0) return fail_io(g, path);
    if (S_ISDIR(about.st_mode)) return add_folder(g, path);
    llm_bytes text = {0};
    berth_status status = read_file(g, path, &text);
    if (status == BERTH_OK) status = add_lines(g, (llm_str){text.data, text.size});
    llm_bytes_fini(&text);
    return status;
}

berth_status prompt_list_load(const generate_options* options,
                              const llm_gguf* gguf,
                              const llm_tokenizer* tokenizer,
                              prompt_list* out_list,
                              llm_error* error) {
    *out_list = (prompt_list){0};
    llm_chat chat;
    berth_status chats = BERTH_ERR_UNSUPPORTED;
    if (tokenizer != NULL) chats = llm_chat_init(&chat, gguf, tokenizer, error);
    bool has_template = llm_gguf_find(gguf, "tokenizer.chat_template") != NULL;
    gatherer g = {.tokenizer = tokenizer,
                  .chat = chats == BERTH_OK ? &chat : NULL,
                  .list = out_list,
                  .error = error};
    berth_status status = BERTH_OK;
    switch (options->source) {
    case PROMPT_TEXT:
        status = add_text(&g, "", llm_str_of(options->prompt), false);
        break;
    case PROMPT_CHAT:
        if (chats != BERTH_OK) return chats;
        status = add_text(&g, "", llm_str_of(options->prompt), true);
        break;
    case PROMPT_TOKENS:
        status = add_ids(&g, options->prompt);
        break;
    case PROMPT_FILES:
        // a base model may have the control tokens without ever having been taught the frame
        if (!has_template) g.chat = NULL;
        status = add_path(&g, options->prompt);
        break;
    case PROMPT_NONE:
        break;
    }
    if (status != BERTH_OK || out_list->count > 0) return status;
    return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "%s holds no prompts", options->prompt);
}

void prompt_list_fini(prompt_list* list) {
    for (size_t i = 0; i < list->count; i++)
        llm_tokens_fini(&list->items[i].tokens);
    llm_free(list->items);
    *list = (prompt_list){0};
}
