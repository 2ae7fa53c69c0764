// SPDX-License-Identifier: Apache-2.0
// Reads bucket policies and finds buckets.
#include "plan/bucket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define STEPS_MAX 4096
/// Steps an octave of an adaptive policy that has learned nothing.
#define UNLEARNED_STEPS 4
/// Octaves end here; larger values share one bucket.
#define LARGEST_OCTAVE (INT64_C(1) << 61)

static berth_status refuse(const char* text, const char* reason) {
    return berth_fail(
        BERTH_ERR_INVALID_ARGUMENT,
        "bucket policy \"%s\" %s; expected geometric:N (N from 1 to %d), pow2, linear:N, "
        "list:a,b,... (ascending, at most %u) or adaptive:N (N from 1 to %u)",
        text,
        reason,
        STEPS_MAX,
        BERTH_BUCKET_LIST_MAX,
        BERTH_BUCKET_LIST_MAX);
}

/// Reads a decimal number from 1 to `most` at `*at` and moves behind it.
static bool read_number(const char** at, int64_t most, int64_t* out) {
    if (**at < '0' || **at > '9') return false;
    char* end;
    errno = 0;
    const long long number = strtoll(*at, &end, 10);
    if (errno != 0 || number < 1 || number > most) return false;
    *at = end;
    *out = number;
    return true;
}

static berth_status read_list(berth_bucket_policy* policy, const char* text, const char* at) {
    for (;;) {
        int64_t bound;
        if (!read_number(&at, LARGEST_OCTAVE, &bound)) return refuse(text, "has a bad bound");
        if (policy->list_count == BERTH_BUCKET_LIST_MAX) return refuse(text, "is too long");
        if (policy->list_count > 0 && policy->list[policy->list_count - 1] >= bound)
            return refuse(text, "does not ascend");
        policy->list[policy->list_count++] = bound;
        if (*at == '\0') return BERTH_OK;
        if (*at++ != ',') return refuse(text, "has text behind a bound");
    }
}

static const char* after(const char* text, const char* prefix) {
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

berth_status berth_bucket_policy_parse(berth_bucket_policy* out_policy, const char* text) {
    *out_policy = (berth_bucket_policy){.kind = BERTH_BUCKET_GEOMETRIC, .number = 1};
    if (text == NULL) return refuse("", "is missing");
    const char* at;
    if (strcmp(text, "pow2") == 0) return BERTH_OK;
    if ((at = after(text, "geometric:")) != NULL) {
        if (!read_number(&at, STEPS_MAX, &out_policy->number) || *at != '\0')
            return refuse(text, "has a bad number");
        return BERTH_OK;
    }
    if ((at = after(text, "linear:")) != NULL) {
        out_policy->kind = BERTH_BUCKET_LINEAR;
        if (!read_number(&at, LARGEST_OCTAVE, &out_policy->number) || *at != '\0')
            return refuse(text, "has a bad number");
        return BERTH_OK;
    }
    if ((at = after(text, "list:")) != NULL) {
        out_policy->kind = BERTH_BUCKET_LIST;
        return read_list(out_policy, text, at);
    }
    if ((at = after(text, "adaptive:")) != NULL) {
        out_policy->kind = BERTH_BUCKET_ADAPTIVE;
        if (!read_number(&at, BERTH_BUCKET_LIST_MAX, &out_policy->number) || *at != '\0')
            return refuse(text, "has a bad number");
        return BERTH_OK;
    }
    return refuse(text, "is unknown");
}

/// The part of the octave around `value` > 0.
static berth_bucket octave_part(int64_t steps, int64_t value) {
    if (value == 1) return (berth_bucket){0, 1};
    if (value > LARGEST_OCTAVE) return (berth_bucket){LARGEST_OCTAVE, INT64_MAX};
    const int64_t low = INT64_C(1) << (63 - __builtin_clzll((uint64_t)value - 1));
    const int64_t width = low / steps > 0 ? low / steps : 1;
    const int64_t begin = low + (value - low - 1) / width * width;
    const int64_t end = begin + width;
    return (berth_bucket){begin, end < 2 * low ? end : 2 * low};
}

static berth_bucket list_part(const berth_bucket_policy* policy, int64_t value) {
    int64_t lo = 0;
    for (uint32_t i = 0; i < policy->list_count; i++) {
        if (value <= policy->list[i]) return (berth_bucket){lo, policy->list[i]};
        lo = policy->list[i];
    }
    berth_bucket part = octave_part(1, value);
    if (part.lo < lo) part.lo = lo;
    return part;
}

berth_bucket berth_bucket_of(const berth_bucket_policy* policy, int64_t value) {
    if (value == 0) return (berth_bucket){-1, 0};
    switch (policy->kind) {
    case BERTH_BUCKET_GEOMETRIC:
        return octave_part(policy->number, value);
    case BERTH_BUCKET_LINEAR: {
        const int64_t lo = (value - 1) / policy->number * policy->number;
        return (berth_bucket){lo,
                              lo > INT64_MAX - policy->number ? INT64_MAX : lo + policy->number};
    }
    case BERTH_BUCKET_LIST:
        return list_part(policy, value);
    case BERTH_BUCKET_ADAPTIVE:
        return octave_part(UNLEARNED_STEPS, value);
    }
    return (berth_bucket){value - 1, value};
}

berth_bucket berth_bucket_quantum(uint32_t steps, int64_t value) {
    if (value == 0 || steps == 0) return (berth_bucket){value - 1, value};
    return octave_part(steps, value);
}
