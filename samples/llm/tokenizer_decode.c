// SPDX-License-Identifier: Apache-2.0
// Token ids to text, whole or as a stream that is valid UTF-8 at every moment.
#include "tokenizer_internal.h"

#include "unicode.h"

#include <string.h>

static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; // U+FFFD

/// Moves what can be decided of the held bytes to `out`; returns the end of what was written.
static char* settle(llm_decoder* decoder, char* out) {
    while (decoder->held > 0) {
        size_t size;
        llm_utf8_state state = llm_utf8_examine((llm_str){decoder->bytes, decoder->held}, &size);
        if (state == LLM_UTF8_PARTIAL) return out;
        bool is_whole = state == LLM_UTF8_COMPLETE;
        out = mempcpy(out, is_whole ? decoder->bytes : replacement, is_whole ? size : 3);
        decoder->held = (uint8_t)(decoder->held - size);
        memmove(decoder->bytes, decoder->bytes + size, decoder->held);
    }
    return out;
}

void llm_decoder_init(llm_decoder* decoder, const llm_tokenizer* tokenizer, bool at_text_start) {
    *decoder = (llm_decoder){.tokenizer = tokenizer,
                             .drops_space = at_text_start && tokenizer->adds_space};
}

berth_status llm_decoder_push(llm_decoder* decoder, int32_t id, llm_bytes* text, llm_error* error) {
    llm_str piece = llm_tokenizer_bytes(decoder->tokenizer, id);
    if (piece.size == 0) return BERTH_OK;
    // every byte in and held may become a replacement of three
    berth_status status = llm_bytes_reserve(text, 3 * (piece.size + sizeof decoder->bytes), error);
    if (status != BERTH_OK) return status;
    char* out = text->data + text->size;
    bool skips = decoder->drops_space && piece.data[0] == ' ';
    decoder->drops_space = false;
    for (size_t i = skips ? 1 : 0; i < piece.size; i++) {
        decoder->bytes[decoder->held++] = piece.data[i];
        out = settle(decoder, out);
    }
    text->size = (size_t)(out - text->data);
    return BERTH_OK;
}

berth_status llm_decoder_finish(llm_decoder* decoder, llm_bytes* text, llm_error* error) {
    if (decoder->held == 0) return BERTH_OK;
    berth_status status = llm_bytes_append(text, replacement, sizeof replacement, error);
    if (status == BERTH_OK) decoder->held = 0;
    return status;
}

berth_status llm_tokenizer_decode(const llm_tokenizer* tokenizer,
                                  const int32_t* ids,
                                  size_t count,
                                  llm_bytes* text,
                                  llm_error* error) {
    size_t before = text->size;
    llm_decoder decoder;
    llm_decoder_init(&decoder, tokenizer, true);
    berth_status status = BERTH_OK;
    for (size_t i = 0; i < count && status == BERTH_OK; i++)
        status = llm_decoder_push(&decoder, ids[i], text, error);
    if (status == BERTH_OK) status = llm_decoder_finish(&decoder, text, error);
    if (status != BERTH_OK) text->size = before;
    return status;
}
