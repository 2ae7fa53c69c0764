// SPDX-License-Identifier: Apache-2.0
// Digits by exact arithmetic: a value and the bounds of its interval are expanded to decimal
// fractions of a fixed length, which compare as text.
//
// Source: free-format output of Steele and White 1990, "How to print floating-point numbers
//         accurately", with the rules of NumPy for cutting digits off.
#include "tensor/print_number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// f32 is the widest type: up to 39 digits before the point, and 149 behind it, 2 more for the
// bounds half and a quarter of a place away.
enum {
    LIMB_DIGITS = 9,
    LIMB = 1000000000,
    WHOLE_LIMBS = 5,
    LIMBS = WHOLE_LIMBS + 17,
    WHOLE = WHOLE_LIMBS * LIMB_DIGITS, ///< digits before the point
    DIGITS = LIMBS * LIMB_DIGITS,
    SHIFT_BITS = 29, ///< shifted at a time: a limb times 2^29 fits 64 bits
};
_Static_assert(WHOLE + BERTH_PRINT_MAX_PRECISION < DIGITS - 1, "a digit follows the last one");

/// Digits of a number that is not negative: digit i counts 10^(WHOLE - 1 - i).
typedef struct expansion {
    unsigned char digits[DIGITS];
} expansion;

/// What is printed of an expansion.
typedef struct digit_range {
    int32_t first; ///< the first digit that is not 0; the last one if there is none
    int32_t last;
} digit_range;

static void shift_left(uint32_t* limbs, int32_t bits) {
    uint64_t carry = 0;
    for (int32_t i = WHOLE_LIMBS - 1; i >= 0; --i) {
        const uint64_t value = ((uint64_t)limbs[i] << bits) + carry;
        limbs[i] = (uint32_t)(value % LIMB);
        carry = value / LIMB;
    }
    BERTH_CHECK(2, carry == 0);
}

static void shift_right(uint32_t* limbs, int32_t bits) {
    uint64_t rest = 0;
    for (int32_t i = 0; i < LIMBS; ++i) {
        const uint64_t value = rest * LIMB + limbs[i];
        limbs[i] = (uint32_t)(value >> bits);
        rest = value & ((UINT64_C(1) << bits) - 1);
    }
    BERTH_CHECK(2, rest == 0);
}

/// Expands mantissa * 2^exponent, with mantissa < 2^27.
static void expand(uint32_t mantissa, int32_t exponent, expansion* out) {
    uint32_t limbs[LIMBS] = {0};
    limbs[WHOLE_LIMBS - 1] = mantissa;
    for (int32_t left = exponent; left > 0; left -= SHIFT_BITS)
        shift_left(limbs, left < SHIFT_BITS ? left : SHIFT_BITS);
    for (int32_t left = -exponent; left > 0; left -= SHIFT_BITS)
        shift_right(limbs, left < SHIFT_BITS ? left : SHIFT_BITS);
    for (int32_t i = 0; i < LIMBS; ++i) {
        uint32_t rest = limbs[i];
        for (int32_t d = LIMB_DIGITS - 1; d >= 0; --d, rest /= 10)
            out->digits[i * LIMB_DIGITS + d] = (unsigned char)(rest % 10);
    }
}

/// True if there are only zeros from digit `from` on.
static bool ends_at(const expansion* x, int32_t from) {
    for (int32_t i = from; i < DIGITS; ++i)
        if (x->digits[i] != 0) return false;
    return true;
}

/// Adds one to digit `last`, carrying to the left, and clears what follows.
static void round_up(expansion* x, int32_t last) {
    memset(x->digits + last + 1, 0, (size_t)(DIGITS - 1 - last));
    for (int32_t i = last; ++x->digits[i] == 10; --i)
        x->digits[i] = 0;
}

/// True if the digits up to `last` alone name the value, being above its lower bound (or on it,
/// where `is_even`).
static bool is_low_enough(const expansion* value,
                          const expansion* lower,
                          bool is_even,
                          int32_t last) {
    if (memcmp(value->digits, lower->digits, (size_t)last + 1) > 0) return true;
    return is_even && ends_at(lower, last + 1);
}

/// As is_low_enough for the digits up to `last` plus one, and the upper bound.
static bool is_high_enough(const expansion* value,
                           const expansion* upper,
                           bool is_even,
                           int32_t last) {
    expansion next = *value;
    round_up(&next, last);
    const int order = memcmp(next.digits, upper->digits, (size_t)last + 1);
    if (order != 0) return order < 0;
    return is_even || !ends_at(upper, last + 1);
}

/// True if what follows digit `last` is more than half of its place, or just half and it is odd.
static bool rounds_up(const expansion* value, int32_t last) {
    const unsigned char next = value->digits[last + 1];
    if (next != 5) return next > 5;
    return !ends_at(value, last + 2) || value->digits[last] % 2 != 0;
}

static int32_t first_digit(const expansion* x, int32_t last) {
    int32_t i = 0;
    while (i < last && x->digits[i] == 0)
        ++i;
    return i;
}

/// Rounds the number's expansion in `value` to the fewest digits that identify it, but to no digit
/// behind `limit`, and to none before `least`.
static digit_range choose_digits(const berth_print_number* number,
                                 expansion* value,
                                 int32_t least,
                                 int32_t limit) {
    const uint32_t quarters = number->mantissa * 4;
    expansion lower, upper;
    expand(quarters - (number->has_near_neighbour ? 1 : 2), number->exponent - 2, &lower);
    expand(quarters + 2, number->exponent - 2, &upper);
    const bool is_even = number->mantissa % 2 == 0;
    int32_t last = first_digit(value, limit);
    bool low, high;
    for (;; ++last) {
        low = is_low_enough(value, &lower, is_even, last);
        high = is_high_enough(value, &upper, is_even, last);
        if (last == limit || ((low || high) && last >= least)) break;
    }
    if (low == high ? rounds_up(value, last) : high) {
        round_up(value, last);
    } else {
        memset(value->digits + last + 1, 0, (size_t)(DIGITS - 1 - last));
    }
    return (digit_range){first_digit(value, last), last};
}

static berth_print_number decode_bits(uint32_t bits, int32_t exponent_bits, int32_t mantissa_bits) {
    const uint32_t fraction = bits & ((1u << mantissa_bits) - 1);
    const uint32_t top = (1u << exponent_bits) - 1;
    const uint32_t biased = (bits >> mantissa_bits) & top;
    const int32_t bias = (int32_t)(top >> 1) + mantissa_bits;
    berth_print_number number = {.is_negative = (bits >> (exponent_bits + mantissa_bits)) != 0};
    if (biased == top) {
        number.is_nan = fraction != 0;
        number.is_infinite = fraction == 0;
        number.value = number.is_nan ? (double)NAN : (double)INFINITY;
    } else {
        number.has_near_neighbour = fraction == 0 && biased > 1;
        number.mantissa = biased == 0 ? fraction : fraction | 1u << mantissa_bits;
        number.exponent = (biased == 0 ? 1 : (int32_t)biased) - bias;
        number.value = ldexp((double)number.mantissa, number.exponent);
    }
    if (number.is_negative) number.value = -number.value;
    return number;
}

berth_print_number berth_print_decode(berth_dtype dtype, const void* element) {
    uint32_t wide;
    uint16_t half;
    if (dtype == BERTH_F32) {
        memcpy(&wide, element, sizeof wide);
        return decode_bits(wide, 8, 23);
    }
    memcpy(&half, element, sizeof half);
    return dtype == BERTH_F16 ? decode_bits(half, 5, 10) : decode_bits(half, 8, 7);
}

static void put_char(berth_print_text* out, char c) { out->text[out->length++] = c; }

static void put_digits(berth_print_text* out, const expansion* value, int32_t first, int32_t last) {
    for (int32_t i = first; i <= last; ++i)
        put_char(out, (char)('0' + value->digits[i]));
}

static void begin_text(const berth_print_number* number, berth_print_text* out) {
    out->length = out->whole = out->fraction = out->exponent = 0;
    if (number->is_negative) put_char(out, '-');
}

static int32_t clamp_precision(int32_t precision) {
    return precision < BERTH_PRINT_MAX_PRECISION ? precision : BERTH_PRINT_MAX_PRECISION;
}

void berth_print_positional(const berth_print_number* number,
                            int32_t precision,
                            bool has_whole_digits,
                            berth_print_text* out) {
    expansion value;
    expand(number->mantissa, number->exponent, &value);
    digit_range range = {WHOLE - 1, WHOLE - 1};
    const int32_t least = has_whole_digits ? WHOLE - 1 : 0;
    if (number->mantissa != 0)
        range = choose_digits(number, &value, least, WHOLE - 1 + clamp_precision(precision));
    begin_text(number, out);
    put_digits(out, &value, range.first < WHOLE ? range.first : WHOLE - 1, WHOLE - 1);
    out->whole = out->length;
    put_char(out, '.');
    while (range.last >= WHOLE && value.digits[range.last] == 0)
        --range.last;
    put_digits(out, &value, WHOLE, range.last);
    out->fraction = out->length - out->whole - 1;
    out->text[out->length] = '\0';
}

static void put_exponent(berth_print_text* out, int32_t exponent, int32_t min_digits) {
    char digits[4]; // in reverse; 45 is the largest
    int32_t count = 0;
    for (int32_t rest = abs(exponent); rest > 0 || count < min_digits; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    put_char(out, 'e');
    put_char(out, exponent < 0 ? '-' : '+');
    out->exponent = count + 1;
    while (count > 0)
        put_char(out, digits[--count]);
}

void berth_print_scientific(const berth_print_number* number,
                            int32_t precision,
                            int32_t min_digits,
                            int32_t exponent_digits,
                            berth_print_text* out) {
    expansion value;
    expand(number->mantissa, number->exponent, &value);
    digit_range range = {WHOLE - 1, WHOLE - 1};
    if (number->mantissa != 0) {
        const int32_t first = first_digit(&value, DIGITS - 1);
        const int32_t limit = first + clamp_precision(precision);
        range = choose_digits(
            number, &value, first + min_digits, limit < DIGITS - 2 ? limit : DIGITS - 2);
    }
    while (range.last > range.first && value.digits[range.last] == 0)
        --range.last;
    const int32_t fraction = range.last - range.first;
    begin_text(number, out);
    put_digits(out, &value, range.first, range.first);
    out->whole = out->length;
    put_char(out, '.');
    put_digits(out, &value, range.first + 1, range.last);
    for (int32_t i = fraction; i < min_digits; ++i)
        put_char(out, '0');
    out->fraction = fraction > min_digits ? fraction : min_digits;
    put_exponent(out, WHOLE - 1 - range.first, exponent_digits);
    out->text[out->length] = '\0';
}
