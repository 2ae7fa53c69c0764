// SPDX-License-Identifier: Apache-2.0
// One pass over the elements finds the widths, a second one writes them.
//
// Source: the notation is that of NumPy's array printing.
#include "tensor/print_array.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "device/cpu/kernel_convert_scalar.h"
#include "tensor/print_number.h"
#include "tensor/shape.h"

enum { MIN_EXPONENT_DIGITS = 2 };

/// How each element of a floating-point array is written.
typedef struct float_format {
    bool is_scientific;
    int32_t precision;       ///< digits after the point at most
    int32_t min_digits;      ///< digits after the point at least
    int32_t exponent_digits; ///< at least
    int32_t left;            ///< characters before the point, filled up with spaces
    int32_t right;           ///< characters after the point, likewise
} float_format;

/// What a first look at the elements finds.
typedef struct float_range {
    double least, most; ///< magnitudes that are finite and not 0; 0 if there are none
    int64_t finite;
    bool has_nan, has_infinity, has_negative_infinity;
} float_range;

/// Where the text has come to.
typedef struct writer {
    const berth_print_array* array;
    berth_text* text;
    float_format floats;
    int32_t int_width;
    int64_t next;   ///< number of the next element in `data`
    int32_t column; ///< characters of the line so far, spaces to come included
    int32_t spaces; ///< of them, not written yet: dropped at the end of a line
} writer;

berth_status berth_print_array_init(berth_print_array* array,
                                    const berth_print_options* options,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims) {
    static const berth_print_options defaults = BERTH_PRINT_OPTIONS_DEFAULT;
    const berth_print_options* o = options != NULL ? options : &defaults;
    if (o->precision < 0 || o->threshold < 0 || o->edge_items < 1 || o->line_width < 1)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "precision %d, threshold %" PRId64 ", edge_items %d, line_width %d: the "
                          "least that makes sense is 0, 0, 1, 1",
                          (int)o->precision,
                          o->threshold,
                          (int)o->edge_items,
                          (int)o->line_width);
    *array = (berth_print_array){.dtype = dtype,
                                 .rank = rank,
                                 .edge_items = o->edge_items,
                                 .precision = o->precision,
                                 .line_width = o->line_width};
    const bool is_summary = berth_shape_count(rank, dims) > o->threshold;
    for (int32_t d = 0; d < rank; ++d) {
        array->is_cut[d] = is_summary && dims[d] > 2 * (int64_t)o->edge_items;
        array->shown[d] = array->is_cut[d] ? 2 * (int64_t)o->edge_items : dims[d];
    }
    return BERTH_OK;
}

static const unsigned char* element(const berth_print_array* array, int64_t i) {
    return array->data + (uint64_t)i * berth_dtype_info_of(array->dtype)->block_bytes;
}

static berth_print_number number_at(const berth_print_array* array, int64_t i) {
    return berth_print_decode(array->dtype, element(array, i));
}

static int64_t integer_at(const berth_print_array* array, int64_t i) {
    return berth_integer_to_i64(array->dtype, element(array, i));
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

// ---------------------------------------------------------------------------- floating-point words

static float_range look_at_floats(const berth_print_array* array, int64_t count) {
    float_range range = {0};
    for (int64_t i = 0; i < count; ++i) {
        const berth_print_number number = number_at(array, i);
        range.has_nan |= number.is_nan;
        range.has_infinity |= number.is_infinite;
        range.has_negative_infinity |= number.is_infinite && number.is_negative;
        if (number.is_nan || number.is_infinite) continue;
        ++range.finite;
        const double magnitude = fabs(number.value);
        if (magnitude == 0) continue;
        if (range.most == 0 || magnitude < range.least) range.least = magnitude;
        if (magnitude > range.most) range.most = magnitude;
    }
    return range;
}

/// The quotient of the extremes, rounded as the element type's division would.
static double spread(berth_dtype dtype, const float_range* range) {
    const float quotient = (float)range->most / (float)range->least;
    return (double)(dtype == BERTH_F16 ? berth_f16_to_f32(berth_f32_to_f16(quotient)) : quotient);
}

static bool wants_exponents(berth_dtype dtype, const float_range* range) {
    if (range->most == 0) return false;
    return range->most >= 1e8 || range->least < 1e-4 || spread(dtype, range) > 1000;
}

/// Finds the widths of the finite elements.
static void measure_floats(const berth_print_array* array, int64_t count, float_format* format) {
    int32_t fraction = 0, exponent = 0;
    for (int64_t i = 0; i < count; ++i) {
        const berth_print_number number = number_at(array, i);
        if (number.is_nan || number.is_infinite) continue;
        berth_print_text text;
        if (format->is_scientific) {
            berth_print_scientific(&number, array->precision, 0, MIN_EXPONENT_DIGITS, &text);
        } else {
            berth_print_positional(&number, array->precision, false, &text);
        }
        format->left = larger(format->left, text.whole);
        fraction = larger(fraction, text.fraction);
        exponent = larger(exponent, text.exponent);
    }
    format->right = fraction;
    format->precision = array->precision;
    if (!format->is_scientific) return;
    format->precision = format->min_digits = fraction;
    format->exponent_digits = exponent - 1;
    format->right = fraction + exponent + 1;
}

static float_format choose_float_format(const berth_print_array* array, int64_t count) {
    const float_range range = look_at_floats(array, count);
    float_format format = {.is_scientific = wants_exponents(array->dtype, &range)};
    if (range.finite > 0) measure_floats(array, count, &format);
    // "nan" and "inf" are as wide as a number, the point counted
    const int32_t point = format.right + 1;
    if (range.has_nan || range.has_infinity)
        format.left = larger(format.left, (range.has_negative_infinity ? 4 : 3) - point);
    return format;
}

/// Writes an element into `word`, padded; returns its length.
static int32_t float_word(const float_format* format,
                          const berth_print_number* number,
                          char* word,
                          size_t size) {
    berth_print_text text;
    if (number->is_nan || number->is_infinite) {
        const char* name = number->is_nan ? "nan" : number->is_negative ? "-inf" : "inf";
        return snprintf(word, size, "%*s", (int)(format->left + format->right + 1), name);
    }
    if (format->is_scientific) {
        berth_print_scientific(
            number, format->precision, format->min_digits, format->exponent_digits, &text);
        return snprintf(word, size, "%*s%s", (int)(format->left - text.whole), "", text.text);
    }
    berth_print_positional(number, format->precision, true, &text);
    return snprintf(word,
                    size,
                    "%*s%s%*s",
                    (int)(format->left - text.whole),
                    "",
                    text.text,
                    (int)(format->right - text.fraction),
                    "");
}

// ------------------------------------------------------------------------------------------- words

static int32_t integer_width(const berth_print_array* array, int64_t count) {
    int32_t width = 0;
    for (int64_t i = 0; i < count; ++i)
        width = larger(width, snprintf(NULL, 0, "%" PRId64, integer_at(array, i)));
    return width;
}

static int32_t make_word(writer* w, char* word, size_t size) {
    const berth_print_array* array = w->array;
    const int64_t i = w->next++;
    if (berth_dtype_is_float(array->dtype)) {
        const berth_print_number number = number_at(array, i);
        return float_word(&w->floats, &number, word, size);
    }
    if (array->dtype == BERTH_BOOL)
        return snprintf(word, size, "%s", *element(array, i) != 0 ? " True" : "False");
    return snprintf(word, size, "%*" PRId64, (int)w->int_width, integer_at(array, i));
}

/// An array of rank 0: as a scalar, whatever the precision.
static void write_scalar(const berth_print_array* array, berth_text* out) {
    if (array->dtype == BERTH_BOOL) {
        berth_text_add(out, "%s", *element(array, 0) != 0 ? "True" : "False");
        return;
    }
    if (!berth_dtype_is_float(array->dtype)) {
        berth_text_add(out, "%" PRId64, integer_at(array, 0));
        return;
    }
    const berth_print_number number = number_at(array, 0);
    const double magnitude = fabs(number.value);
    if (number.is_nan || number.is_infinite) {
        berth_text_add(out, "%s", number.is_nan ? "nan" : number.is_negative ? "-inf" : "inf");
        return;
    }
    berth_print_text text;
    if (magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
        berth_print_positional(&number, BERTH_PRINT_MAX_PRECISION, false, &text);
        berth_text_add(out, "%s%s", text.text, text.fraction == 0 ? "0" : "");
        return;
    }
    berth_print_scientific(&number, BERTH_PRINT_MAX_PRECISION, 0, MIN_EXPONENT_DIGITS, &text);
    const int32_t head = text.fraction == 0 ? text.whole : text.length - text.exponent - 1;
    berth_text_add(
        out, "%.*s%s", (int)head, text.text, text.text + text.length - text.exponent - 1);
}

// ------------------------------------------------------------------------------------------- lines

/// Adds `text` [length] to the line; spaces at its end wait for what follows.
static void put(writer* w, const char* text, int32_t length) {
    int32_t end = length;
    while (end > 0 && text[end - 1] == ' ')
        --end;
    w->column += length;
    if (end > 0) {
        berth_text_add(w->text, "%*s%.*s", (int)w->spaces, "", (int)end, text);
        w->spaces = 0;
    }
    w->spaces += length - end;
}

static void begin_line(writer* w, int32_t line_ends, int32_t indent) {
    for (int32_t i = 0; i < line_ends; ++i)
        berth_text_add(w->text, "\n");
    w->column = w->spaces = indent;
}

/// Adds a word to a row whose lines begin with `indent` spaces, on a new line where it does not
/// fit.
static void put_word(
    writer* w, const char* word, int32_t length, int32_t indent, int32_t line_width) {
    if (w->column + length > line_width && w->column > indent) begin_line(w, 1, indent);
    put(w, word, length);
}

static void write_row(writer* w, int32_t indent, int32_t line_width) {
    const berth_print_array* array = w->array;
    const int32_t dim = array->rank - 1;
    for (int64_t i = 0; i < array->shown[dim]; ++i) {
        char word[256];
        if (array->is_cut[dim] && i == array->edge_items) {
            put_word(w, "...", 3, indent, line_width);
            put(w, " ", 1);
        }
        const int32_t length = make_word(w, word, sizeof word);
        put_word(w, word, length, indent, line_width);
        if (i + 1 < array->shown[dim]) put(w, " ", 1);
    }
}

/// Writes what lies under dimension `dim`; the line has come to its opening bracket.
static void write_nested(writer* w, int32_t dim) {
    const berth_print_array* array = w->array;
    const int32_t indent = dim + 1;
    const int32_t line_ends = array->rank - 1 - dim;
    put(w, "[", 1);
    if (line_ends == 0) {
        // each bracket that is still open takes a character of the last line
        write_row(w, indent, array->line_width - indent);
    } else {
        for (int64_t i = 0; i < array->shown[dim]; ++i) {
            if (i > 0) begin_line(w, line_ends, indent);
            if (array->is_cut[dim] && i == array->edge_items) {
                put(w, "...", 3);
                begin_line(w, line_ends, indent);
            }
            write_nested(w, dim + 1);
        }
    }
    put(w, "]", 1);
}

void berth_print_array_write(const berth_print_array* array, berth_text* text) {
    const int64_t count = berth_shape_count(array->rank, array->shown);
    if (array->rank == 0) {
        write_scalar(array, text);
        return;
    }
    if (count == 0) {
        berth_text_add(text, "[]");
        return;
    }
    writer w = {.array = array, .text = text};
    if (berth_dtype_is_float(array->dtype)) {
        w.floats = choose_float_format(array, count);
    } else if (array->dtype != BERTH_BOOL) {
        w.int_width = integer_width(array, count);
    }
    write_nested(&w, 0);
}
