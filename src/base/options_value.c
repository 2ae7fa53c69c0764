// SPDX-License-Identifier: Apache-2.0
// Parsers for each type of option, by hand: the C library's accept signs, blanks, hexadecimal,
// "nan" and the locale's decimal point.
#include "base/options_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"

/// A share that nothing exceeds.
#define SHARE_OFF 2.0

const berth_option_info* berth_option_query_info(berth_option option) {
    static const berth_option_info infos[BERTH_OPTION_COUNT] = {
#define OPTION_INFO(id, type, text, min, max, unit, words, help)                                   \
    [BERTH_OPTION_##id] = {#id, BERTH_OPTION_TYPE_##type, text, min, max, unit, words, help},
        BERTH_OPTION_MAP(OPTION_INFO)
#undef OPTION_INFO
    };
    return &infos[option];
}

/// Reads digits at `*at` and moves it behind them; false without digits or on overflow.
static bool parse_digits(const char** at, uint64_t* out) {
    uint64_t value = 0;
    const char* digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (!berth_mul_u64(value, 10, &value) ||
            !berth_add_u64(value, (uint64_t)(*digit - '0'), &value))
            return false;
    }
    const bool any = digit != *at;
    *at = digit;
    *out = value;
    return any;
}

static bool parse_bool(const char* text, uint64_t* out) {
    static const char* const words[] = {"0", "false", "no", "off", "1", "true", "yes", "on"};
    for (size_t i = 0; i < 8; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = i / 4;
            return true;
        }
    }
    return false;
}

/// The words that stand for numbers where the bounds allow them.
static bool parse_number_word(const berth_option_info* info, const char* text, uint64_t* out) {
    // a time that may have no end could be over at once, or never
    const bool has_off =
        info->type != BERTH_OPTION_TYPE_COUNT || info->max != BERTH_OPTION_UNLIMITED;
    if (info->min == 0 && has_off && strcasecmp(text, "off") == 0) {
        *out = 0;
        return true;
    }
    if (info->max == BERTH_OPTION_UNLIMITED && strcasecmp(text, "unlimited") == 0) {
        *out = BERTH_OPTION_UNLIMITED;
        return true;
    }
    return false;
}

static bool parse_count(const char* text, uint64_t* out) {
    return parse_digits(&text, out) && *text == '\0';
}

static bool parse_bytes(const char* text, uint64_t* out) {
    static const char prefixes[] = "kmgt";
    if (!parse_digits(&text, out)) return false;
    const char* prefix = *text == '\0' ? NULL : strchr(prefixes, *text | 0x20);
    if (prefix != NULL) {
        const uint64_t unit = 1ull << (10 * (prefix - prefixes + 1));
        if (!berth_mul_u64(*out, unit, out)) return false;
        text++;
    }
    return *text == '\0' || strcasecmp(text, "b") == 0 ||
           (prefix != NULL && strcasecmp(text, "ib") == 0);
}

/// Reads "0.3" or, with a per cent sign, "30%"; `*out_percent` says which.
static bool parse_ratio(const char* text, double* out, bool* out_percent) {
    uint64_t whole;
    if (!parse_digits(&text, &whole)) return false;
    double value = (double)whole;
    if (*text == '.') {
        double unit = 0.1;
        const char* digit = text + 1;
        if (*digit < '0' || *digit > '9') return false;
        for (; *digit >= '0' && *digit <= '9'; digit++, unit /= 10)
            value += unit * (*digit - '0');
        text = digit;
    }
    *out_percent = *text == '%';
    if (*out_percent) text++;
    *out = *out_percent ? value / 100 : value;
    return *text == '\0';
}

static uint32_t count_words(const char* words) {
    uint32_t count = 1;
    for (; *words != '\0'; words++)
        count += *words == '|';
    return count;
}

/// The index of `text` among the words; their number if it is none of them.
static uint32_t find_word(const char* words, const char* text) {
    const size_t length = strlen(text);
    uint32_t index = 0;
    for (const char* word = words;; index++) {
        const size_t word_length = strcspn(word, "|");
        if (word_length == length && strncasecmp(word, text, length) == 0) return index;
        if (word[word_length] == '\0') return count_words(words);
        word += word_length + 1;
    }
}

static bool in_bounds(const berth_option_info* info, uint64_t number) {
    return number >= info->min && number <= info->max;
}

static bool parse_bytes_or_word(const berth_option_info* info,
                                const char* text,
                                berth_option_value* out) {
    return (parse_number_word(info, text, &out->number) || parse_bytes(text, &out->number)) &&
           in_bounds(info, out->number);
}

static bool parse_share(const char* text, double* out) {
    bool percent;
    if (strcasecmp(text, "off") == 0) {
        *out = SHARE_OFF;
        return true;
    }
    return parse_ratio(text, out, &percent) && *out <= 1;
}

static bool parse_typed(const berth_option_info* info, const char* text, berth_option_value* out) {
    bool percent;
    switch (info->type) {
    case BERTH_OPTION_TYPE_BOOL:
        return parse_bool(text, &out->number);
    case BERTH_OPTION_TYPE_COUNT:
        return (parse_number_word(info, text, &out->number) || parse_count(text, &out->number)) &&
               in_bounds(info, out->number);
    case BERTH_OPTION_TYPE_BYTES:
        return parse_bytes_or_word(info, text, out);
    case BERTH_OPTION_TYPE_BYTES_OR_PERCENT:
        if (parse_bytes_or_word(info, text, out)) return true;
        out->number = 0;
        return parse_ratio(text, &out->ratio, &percent) && percent && out->ratio > 0 &&
               out->ratio <= 1;
    case BERTH_OPTION_TYPE_SHARE:
        return parse_share(text, &out->ratio);
    case BERTH_OPTION_TYPE_WORD:
        out->word = find_word(info->words, text);
        return out->word < count_words(info->words);
    case BERTH_OPTION_TYPE_WORD_OR_BYTES:
        out->word = find_word(info->words, text);
        return out->word < count_words(info->words) || parse_bytes_or_word(info, text, out);
    case BERTH_OPTION_TYPE_TEXT:
        return *text != '\0';
    }
    return false;
}

bool berth_option_parse(const berth_option_info* info, const char* text, berth_option_value* out) {
    *out = (berth_option_value){.ratio = -1};
    const size_t length = strlen(text);
    if (length >= sizeof out->text || !parse_typed(info, text, out)) return false;
    memcpy(out->text, text, length + 1);
    return true;
}

/// True if 0 is not a size but says that there is no such limit.
static bool zero_is_off(const berth_option_info* info) {
    return strcmp(info->default_text, "off") == 0;
}

static void format_number(uint64_t number, char* out, size_t size) {
    if (number == BERTH_OPTION_UNLIMITED)
        (void)snprintf(out, size, "unlimited");
    else
        (void)snprintf(out, size, "%" PRIu64, number);
}

void berth_option_describe(const berth_option_info* info, char* out, size_t size) {
    char max[32];
    format_number(info->max, max, sizeof max);
    const char* unit = info->unit;
    const char* open = *unit == '\0' ? "" : " ";
    switch (info->type) {
    case BERTH_OPTION_TYPE_BOOL:
        (void)snprintf(out, size, "1 or 0, true or false, yes or no, on or off");
        return;
    case BERTH_OPTION_TYPE_COUNT:
        (void)snprintf(
            out, size, "a whole number from %" PRIu64 " to %s%s%s", info->min, max, open, unit);
        return;
    case BERTH_OPTION_TYPE_BYTES:
        (void)snprintf(
            out, size, "bytes from %" PRIu64 " to %s, such as 512M or 2GiB", info->min, max);
        return;
    case BERTH_OPTION_TYPE_BYTES_OR_PERCENT:
        (void)snprintf(out,
                       size,
                       "bytes from %" PRIu64 " to %s, such as 512M, or per cent up to 100%%%s",
                       info->min,
                       max,
                       zero_is_off(info) ? ", or off" : "");
        return;
    case BERTH_OPTION_TYPE_SHARE:
        (void)snprintf(out, size, "a share from 0 to 1, such as 0.3 or 30%%, or off");
        return;
    case BERTH_OPTION_TYPE_WORD:
        (void)snprintf(out, size, "one of %s", info->words);
        return;
    case BERTH_OPTION_TYPE_WORD_OR_BYTES:
        (void)snprintf(
            out, size, "one of %s, or bytes from %" PRIu64 " to %s", info->words, info->min, max);
        return;
    case BERTH_OPTION_TYPE_TEXT:
        (void)snprintf(
            out, size, "a text of 1 to %d bytes: %s", BERTH_OPTION_TEXT_BYTES - 1, info->words);
        return;
    }
}

void berth_option_value_format(const berth_option_info* info,
                               const berth_option_value* value,
                               char* out,
                               size_t size) {
    switch (info->type) {
    case BERTH_OPTION_TYPE_BOOL:
    case BERTH_OPTION_TYPE_COUNT:
    case BERTH_OPTION_TYPE_BYTES:
        format_number(value->number, out, size);
        return;
    case BERTH_OPTION_TYPE_BYTES_OR_PERCENT:
        if (value->ratio >= 0)
            (void)snprintf(out, size, "%g%%", value->ratio * 100);
        else if (value->number == 0 && zero_is_off(info))
            (void)snprintf(out, size, "off");
        else
            format_number(value->number, out, size);
        return;
    case BERTH_OPTION_TYPE_SHARE:
        if (value->ratio > 1)
            (void)snprintf(out, size, "off");
        else
            (void)snprintf(out, size, "%g%%", value->ratio * 100);
        return;
    case BERTH_OPTION_TYPE_WORD_OR_BYTES:
        if (value->word == count_words(info->words)) {
            format_number(value->number, out, size);
            return;
        }
        (void)snprintf(out, size, "%s", value->text);
        return;
    case BERTH_OPTION_TYPE_WORD:
    case BERTH_OPTION_TYPE_TEXT:
        (void)snprintf(out, size, "%s", value->text);
        return;
    }
}
