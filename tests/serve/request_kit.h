// SPDX-License-Identifier: Apache-2.0
// Shared by the tests that read requests: a small vocabulary with a frame for conversations, and
// what is read or refused with it.
#ifndef BERTH_TESTS_REQUEST_KIT_H
#define BERTH_TESTS_REQUEST_KIT_H

#include "serve/serve_kit.h"

#include "api_request.h"

enum { REQUEST_CONTEXT = 64 };

/// What requests are read with, the last one, and what was wrong with it.
typedef struct request_desk {
    vocab v;
    llm_chat chat;
    api_reader reader;
    api_request request;
    api_error error;
} request_desk;

static request_desk desk;

static inline int desk_open(void** state) {
    (void)state;
    vocab_begin_bytes(&desk.v);
    vocab_put(&desk.v, "gpt2", "smollm");
    vocab_open(&desk.v);
    assert_int_equal(llm_chat_init(&desk.chat, desk.v.gguf, desk.v.tokenizer, NULL), BERTH_OK);
    return 0;
}

static inline int desk_close(void** state) {
    (void)state;
    vocab_close(&desk.v);
    return 0;
}

static inline int desk_setup(void** state) {
    (void)state;
    desk.reader = (api_reader){.tokenizer = desk.v.tokenizer,
                               .chat = &desk.chat,
                               .model_name = "models/tiny",
                               .context_tokens = REQUEST_CONTEXT,
                               .most_token_bytes = 13};
    return 0;
}

static inline int desk_fini(void** state) {
    (void)state;
    api_request_fini(&desk.request);
    return 0;
}

#define DESK_TEST(name) cmocka_unit_test_setup_teardown(name, desk_setup, desk_fini)

/// Reads a body from a block of exactly its size.
static inline bool try_read(api_endpoint endpoint, const char* body) {
    api_request_fini(&desk.request);
    const size_t size = strlen(body);
    char* copy = copy_exactly(body, size);
    const bool is_read = api_request_parse(
        &desk.reader, endpoint, (llm_str){copy, size}, &desk.request, &desk.error);
    free(copy);
    return is_read;
}

static inline void read_body(api_endpoint endpoint, const char* body) {
    if (!try_read(endpoint, body)) fail_msg("%s: %s", body, desk.error.message);
    assert_int_equal(desk.error.kind, API_ERROR_NONE);
}

static inline void assert_refused(api_endpoint endpoint,
                                  const char* body,
                                  api_error_kind kind,
                                  const char* param,
                                  const char* part) {
    if (try_read(endpoint, body)) fail_msg("%s is read", body);
    assert_int_equal(desk.error.kind, kind);
    assert_string_equal(desk.error.param, param);
    assert_says(&desk.error, part);
}

/// A body of a chat with the members `more`, which end in a comma if there are some.
#define CHAT(more) "{" more "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"
/// A body of a completion, likewise.
#define COMPLETION(more) "{" more "\"prompt\":\"Hi\"}"

/// Asserts that a chat and a completion with a member are refused as INVALID in the same way.
#define ASSERT_BOTH_REFUSE(more, param, part)                                                      \
    do {                                                                                           \
        assert_refused(API_CHAT, CHAT(more), API_ERROR_INVALID, param, part);                      \
        assert_refused(API_COMPLETION, COMPLETION(more), API_ERROR_INVALID, param, part);          \
    } while (0)

#endif // BERTH_TESTS_REQUEST_KIT_H
