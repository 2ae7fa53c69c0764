// SPDX-License-Identifier: Apache-2.0
// Finding stop strings in a text that grows.
#include "answer_text.h"

#include <string.h>

void answer_text_init(answer_text* answer,
                      const llm_tokenizer* tokenizer,
                      const llm_bytes* stops,
                      size_t stop_count) {
    *answer = (answer_text){.stops = stops, .stop_count = stop_count};
    llm_decoder_init(&answer->decoder, tokenizer, false);
}

/// What a place in the text is to the stop strings.
typedef enum place {
    PLACE_PLAIN, ///< none begins here
    PLACE_OPEN,  ///< one may begin here: the text ends within it
    PLACE_STOP,  ///< one begins here
} place;

static place examine(const answer_text* answer, size_t at) {
    const char* text = answer->text.data + at;
    const size_t left = answer->text.size - at;
    place found = PLACE_PLAIN;
    for (size_t i = 0; i < answer->stop_count; i++) {
        const llm_bytes* stop = &answer->stops[i];
        const size_t common = stop->size < left ? stop->size : left;
        if (memcmp(text, stop->data, common) != 0) continue;
        if (common == stop->size) return PLACE_STOP;
        found = PLACE_OPEN;
    }
    return found;
}

/// Goes on to the first place at which a stop string begins, or may begin unless the text is whole.
/// Every place before `ready_bytes` is plain, so none is examined again but the one it stands at.
static void advance(answer_text* answer, bool is_whole) {
    for (; answer->ready_bytes < answer->text.size; answer->ready_bytes++) {
        const place here = examine(answer, answer->ready_bytes);
        if (here == PLACE_OPEN && !is_whole) return;
        if (here != PLACE_STOP) continue;
        answer->has_stopped = true;
        answer->text.size = answer->ready_bytes;
        return;
    }
}

static void count_characters(answer_text* answer, size_t from) {
    for (size_t i = from; i < answer->text.size; i++)
        answer->characters += ((unsigned char)answer->text.data[i] & 0xc0) != 0x80;
}

berth_status answer_text_push(answer_text* answer, int32_t id, llm_error* error) {
    if (answer->has_stopped) return BERTH_OK;
    const size_t before = answer->text.size;
    const berth_status status = llm_decoder_push(&answer->decoder, id, &answer->text, error);
    if (status != BERTH_OK) return status;
    count_characters(answer, before);
    advance(answer, false);
    return BERTH_OK;
}

berth_status answer_text_finish(answer_text* answer, llm_error* error) {
    if (answer->has_stopped) return BERTH_OK;
    const size_t before = answer->text.size;
    const berth_status status = llm_decoder_finish(&answer->decoder, &answer->text, error);
    if (status != BERTH_OK) return status;
    count_characters(answer, before);
    advance(answer, true);
    return BERTH_OK;
}

void answer_text_fini(answer_text* answer) {
    llm_bytes_fini(&answer->text);
    answer->ready_bytes = 0;
    answer->characters = 0;
}
