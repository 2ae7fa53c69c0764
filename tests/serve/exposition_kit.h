// SPDX-License-Identifier: Apache-2.0
// A strict reader of Prometheus' text exposition format 0.0.4, for tests: whatever breaks its rules
// fails the test.
#ifndef BERTH_TESTS_EXPOSITION_KIT_H
#define BERTH_TESTS_EXPOSITION_KIT_H

#include "llm/llm_kit.h"

#include <math.h>
#include <stdio.h>

enum { MOST_SAMPLES = 1024, MOST_FAMILIES = 256 };

/// A sample: a line that is no comment. Names and labels lie in the text, cut off by zero bytes.
typedef struct sample {
    const char* name;
    const char* labels; ///< between the braces, "" for none
    double value;
    size_t family;
} sample;

typedef struct family {
    const char* name;
    const char* kind;
    size_t samples;
} family;

/// What was read.
typedef struct exposition {
    char* text; ///< a copy, cut into pieces
    family families[MOST_FAMILIES];
    size_t family_count;
    sample samples[MOST_SAMPLES];
    size_t sample_count;
} exposition;

static inline bool is_name_char(char c, bool is_first) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return is_letter || (!is_first && c >= '0' && c <= '9');
}

/// Passes over a name and returns what follows it.
static inline char* pass_name(char* at) {
    if (!is_name_char(*at, true)) fail_msg("no name begins at '%.40s'", at);
    while (is_name_char(*at, false))
        at++;
    return at;
}

static inline char* pass(char* at, char expected) {
    if (*at != expected) fail_msg("'%c' is missing at '%.40s'", expected, at);
    return at + 1;
}

/// Passes over labels up to the closing brace.
static inline char* pass_labels(char* at) {
    while (*at != '}') {
        at = pass(pass(pass_name(at), '='), '"');
        while (*at != '"') {
            assert_true(*at != '\0');
            if (*at == '\\' && strchr("\\\"n", *++at) == NULL) fail_msg("no escape: '\\%c'", *at);
            at++;
        }
        at++;
        if (*at == ',') at++;
    }
    return at;
}

/// "name HELP TEXT" and the line that gives its type; both begin a family.
static inline void read_help(exposition* e, char* at) {
    char* end = pass_name(at);
    assert_true(*pass(end, ' ') != '\0');
    *end = '\0';
    for (size_t i = 0; i < e->family_count; i++)
        if (strcmp(e->families[i].name, at) == 0) fail_msg("%s begins twice", at);
    assert_true(e->family_count < MOST_FAMILIES);
    assert_true(strncmp(at, "berth_", 6) == 0);
    e->families[e->family_count++] = (family){.name = at};
}

static inline void read_type(exposition* e, char* at) {
    char* end = pass_name(at);
    family* f = &e->families[e->family_count - 1];
    f->kind = pass(end, ' ');
    *end = '\0';
    assert_string_equal(f->name, at);
    const bool is_total = strlen(at) > 6 && strcmp(end - 6, "_total") == 0;
    if (strcmp(f->kind, "counter") == 0) {
        if (!is_total) fail_msg("%s is a counter", at);
        return;
    }
    if (is_total) fail_msg("%s is no counter", at);
    if (strcmp(f->kind, "gauge") != 0) assert_string_equal(f->kind, "histogram");
}

/// Whether a sample of that name belongs to a family.
static inline bool belongs(const family* f, const char* name) {
    const size_t size = strlen(f->name);
    if (strcmp(f->kind, "histogram") != 0) return strcmp(f->name, name) == 0;
    return strncmp(f->name, name, size) == 0 &&
           (strcmp(name + size, "_bucket") == 0 || strcmp(name + size, "_sum") == 0 ||
            strcmp(name + size, "_count") == 0);
}

static inline void read_sample(exposition* e, char* at) {
    sample s = {.name = at, .labels = ""};
    char* end = pass_name(at);
    if (*end == '{') {
        s.labels = end + 1;
        *end = '\0';
        end = pass_labels(end + 1);
        *end++ = '\0';
    }
    char* number = pass(end, ' ');
    *end = '\0';
    char* rest;
    s.value = strtod(number, &rest);
    if (rest == number || *rest != '\0' || !isfinite(s.value))
        fail_msg("%s{%s} is '%s'", s.name, s.labels, number);
    assert_true(e->family_count > 0);
    s.family = e->family_count - 1;
    family* f = &e->families[s.family];
    if (f->kind == NULL || !belongs(f, s.name)) fail_msg("%s stands in %s", s.name, f->name);
    f->samples++;
    for (size_t i = 0; i < e->sample_count; i++)
        if (strcmp(e->samples[i].name, s.name) == 0 && strcmp(e->samples[i].labels, s.labels) == 0)
            fail_msg("%s{%s} stands there twice", s.name, s.labels);
    assert_true(e->sample_count < MOST_SAMPLES);
    e->samples[e->sample_count++] = s;
}

static inline const sample* find_sample(const exposition* e, const char* name, const char* labels) {
    for (size_t i = 0; i < e->sample_count; i++)
        if (strcmp(e->samples[i].name, name) == 0 && strcmp(e->samples[i].labels, labels) == 0)
            return &e->samples[i];
    fail_msg("%s{%s} is missing", name, labels);
    return NULL;
}

static inline double sample_of(const exposition* e, const char* name, const char* labels) {
    return find_sample(e, name, labels)->value;
}

/// Buckets ascend, their counts do not fall, and the last one is that of all values.
static inline void check_histogram(const exposition* e, size_t at) {
    const family* f = &e->families[at];
    char name[128];
    double bound = -HUGE_VAL;
    double count = 0.0;
    snprintf(name, sizeof name, "%s_bucket", f->name);
    for (size_t i = 0; i < e->sample_count; i++) {
        const sample* s = &e->samples[i];
        if (s->family != at || strcmp(s->name, name) != 0) continue;
        char* rest;
        assert_int_equal(strncmp(s->labels, "le=\"", 4), 0);
        const double here = strtod(s->labels + 4, &rest);
        assert_string_equal(rest, "\"");
        assert_true(here > bound);
        assert_true(s->value >= count);
        bound = here;
        count = s->value;
    }
    assert_true(isinf(bound));
    snprintf(name, sizeof name, "%s_count", f->name);
    assert_true(sample_of(e, name, "") == count);
    snprintf(name, sizeof name, "%s_sum", f->name);
    assert_true(sample_of(e, name, "") >= 0.0);
}

/// Reads all of `text`. The caller gives it to exposition_close().
static inline void exposition_open(exposition* e, const llm_bytes* text) {
    *e = (exposition){.text = malloc(text->size + 1)};
    assert_non_null(e->text);
    memcpy(e->text, text->data, text->size);
    e->text[text->size] = '\0';
    assert_int_equal(strlen(e->text), text->size);
    bool wants_type = false;
    for (char* at = e->text; *at != '\0';) {
        char* end = strchr(at, '\n');
        assert_non_null(end); // the last line ends as well
        *end = '\0';
        const bool is_type = strncmp(at, "# TYPE ", 7) == 0;
        assert_int_equal(is_type, wants_type);
        wants_type = strncmp(at, "# HELP ", 7) == 0;
        if (wants_type)
            read_help(e, at + 7);
        else if (is_type)
            read_type(e, at + 7);
        else
            read_sample(e, at);
        at = end + 1;
    }
    for (size_t i = 0; i < e->family_count; i++) {
        assert_true(e->families[i].samples > 0);
        if (strcmp(e->families[i].kind, "histogram") == 0) check_histogram(e, i);
    }
}

static inline void exposition_close(exposition* e) { free(e->text); }

#endif // BERTH_TESTS_EXPOSITION_KIT_H
