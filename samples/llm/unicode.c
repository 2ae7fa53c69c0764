// SPDX-License-Identifier: Apache-2.0
// UTF-8 and character classes, on utf8proc's tables.
#include "unicode.h"

#include <utf8proc.h>

/// The characters with the property White_Space, which is what \s means here.
static bool is_space(int32_t code) {
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    if (code == 0x85) return true;
    utf8proc_category_t category = utf8proc_category(code);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

static llm_char_class classify_ascii(int32_t code) {
    if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return LLM_CHAR_LETTER;
    if (code >= '0' && code <= '9') return LLM_CHAR_NUMBER;
    return is_space(code) ? LLM_CHAR_SPACE : LLM_CHAR_OTHER;
}

static llm_char_class classify(int32_t code) {
    if (code < 0x80) return classify_ascii(code);
    utf8proc_category_t category = utf8proc_category(code);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return LLM_CHAR_LETTER;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return LLM_CHAR_NUMBER;
    return is_space(code) ? LLM_CHAR_SPACE : LLM_CHAR_OTHER;
}

/// Bytes of the sequence that `first` announces, with the range its second byte must lie in
/// (Unicode standard, table 3-7); 0 when `first` announces none.
static size_t announced(unsigned char first, unsigned char* low, unsigned char* high) {
    *low = 0x80;
    *high = 0xbf;
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if (first == 0xe0) *low = 0xa0;
    if (first == 0xed) *high = 0x9f;
    if (first >= 0xe0 && first <= 0xef) return 3;
    if (first == 0xf0) *low = 0x90;
    if (first == 0xf4) *high = 0x8f;
    if (first >= 0xf0 && first <= 0xf4) return 4;
    return 0;
}

llm_utf8_state llm_utf8_examine(llm_str text, size_t* out_size) {
    unsigned char low, high;
    size_t wanted = announced((unsigned char)text.data[0], &low, &high);
    *out_size = 1;
    if (wanted == 0) return LLM_UTF8_BROKEN;
    for (; *out_size < wanted; ++*out_size) {
        if (*out_size == text.size) return LLM_UTF8_PARTIAL;
        unsigned char next = (unsigned char)text.data[*out_size];
        if (next < low || next > high) return LLM_UTF8_BROKEN;
        low = 0x80;
        high = 0xbf;
    }
    return LLM_UTF8_COMPLETE;
}

llm_char llm_char_read(llm_str text, size_t at) {
    const char* bytes = text.data + at;
    unsigned char first = (unsigned char)bytes[0];
    if (first < 0x80) return (llm_char){first, 1, classify_ascii(first)};
    size_t size;
    llm_str rest = {bytes, text.size - at};
    if (llm_utf8_examine(rest, &size) != LLM_UTF8_COMPLETE)
        return (llm_char){LLM_CHAR_INVALID, 1, LLM_CHAR_OTHER};
    int32_t code = first & (0x7f >> size);
    for (size_t i = 1; i < size; i++)
        code = (code << 6) | (bytes[i] & 0x3f);
    return (llm_char){code, (uint32_t)size, classify(code)};
}
