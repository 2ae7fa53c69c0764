// SPDX-License-Identifier: Apache-2.0
// Headers of .npy files, versions 1.0, 2.0 and 3.0 in, 1.0 out.
#include "tensor/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "tensor/shape.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are used as they lie");

static const char magic[6] = "\x93NUMPY";
enum { PREFIX_V1 = 10, PREFIX_V2 = 12, HEADER_ALIGNMENT = 64, TYPE_CHARS = 24 };

/// Element types by NumPy's names, without the character of the byte order.
static const struct {
    char name[3];
    berth_dtype dtype;
} types[] = {{"f4", BERTH_F32},
             {"f2", BERTH_F16},
             {"i4", BERTH_I32},
             {"i8", BERTH_I64},
             {"i1", BERTH_I8},
             {"u1", BERTH_U8},
             {"b1", BERTH_BOOL}};
enum { TYPES = sizeof types / sizeof types[0] };

/// The part of the header that has not been read.
typedef struct cursor {
    const char* next;
    const char* end;
} cursor;

static berth_status fail_header(const cursor* c, const char* what) {
    const int64_t left = c->end - c->next;
    return berth_fail(BERTH_ERR_CORRUPT,
                      "the header of the .npy file lacks %s before '%.*s'",
                      what,
                      (int)(left < 20 ? left : 20),
                      c->next);
}

static void skip_spaces(cursor* c) {
    while (c->next < c->end && (*c->next == ' ' || *c->next == '\n' || *c->next == '\t'))
        ++c->next;
}

/// Skips spaces and then `c`, if it follows.
static bool take(cursor* c, char wanted) {
    skip_spaces(c);
    if (c->next == c->end || *c->next != wanted) return false;
    ++c->next;
    return true;
}

static bool take_word(cursor* c, const char* word) {
    const size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->next) < length || memcmp(c->next, word, length) != 0) return false;
    c->next += length;
    return true;
}

/// Reads a quoted text without escapes into `out` [size].
static bool take_text(cursor* c, char* out, size_t size) {
    const char quote = take(c, '\'') ? '\'' : take(c, '"') ? '"' : '\0';
    if (quote == '\0') return false;
    const char* close = memchr(c->next, quote, (size_t)(c->end - c->next));
    if (close == NULL || (size_t)(close - c->next) >= size ||
        memchr(c->next, '\\', (size_t)(close - c->next)) != NULL)
        return false;
    memcpy(out, c->next, (size_t)(close - c->next));
    out[close - c->next] = '\0';
    c->next = close + 1;
    return true;
}

static berth_status take_size(cursor* c, int64_t* out) {
    skip_spaces(c);
    const char* begin = c->next;
    *out = 0;
    for (; c->next < c->end && *c->next >= '0' && *c->next <= '9'; ++c->next)
        if (!berth_mul_i64(*out, 10, out) || !berth_add_i64(*out, *c->next - '0', out))
            return berth_fail(BERTH_ERR_CORRUPT, "a size of the .npy file does not fit 63 bits");
    if (c->next == begin) return fail_header(c, "a size that is not negative");
    if (c->next < c->end && *c->next == 'L') ++c->next; // as Python 2 wrote it
    return BERTH_OK;
}

/// Reads a tuple of sizes: (), (3,) or (3, 4).
static berth_status take_shape(cursor* c, berth_npy* npy) {
    if (!take(c, '(')) return fail_header(c, "the tuple of a shape");
    npy->rank = 0;
    bool has_comma = true;
    while (!take(c, ')')) {
        int64_t size;
        if (!has_comma) return fail_header(c, "',' or ')' of a shape");
        BERTH_TRY(take_size(c, &size));
        if (npy->rank == BERTH_MAX_RANK)
            return berth_fail(
                BERTH_ERR_UNSUPPORTED, "the .npy file has more than %d dimensions", BERTH_MAX_RANK);
        npy->dims[npy->rank++] = size;
        has_comma = take(c, ',');
    }
    // in Python, (3) is a number
    return npy->rank == 1 && !has_comma ? fail_header(c, "',' of a shape") : BERTH_OK;
}

static berth_status refuse_type(const char* name) {
    const char* hint = "Berth has no such element type: save .astype('<f4'), '<f2', '<i4', '<i8', "
                       "'|i1', '|u1' or '|b1'";
    if (name[0] == '>')
        hint = "its elements are big-endian: save .astype() of the same type with '<'";
    if (strchr(name, 'O') != NULL)
        hint = "it holds pickled Python objects, which are not read: save plain numbers";
    return berth_fail(BERTH_ERR_UNSUPPORTED, "the .npy file has the type '%s'; %s", name, hint);
}

static berth_status take_type(cursor* c, berth_npy* npy) {
    char name[TYPE_CHARS];
    skip_spaces(c);
    if (c->next < c->end && *c->next == '[')
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "the .npy file has structured elements: save each of their fields");
    if (!take_text(c, name, sizeof name)) return fail_header(c, "the name of a type");
    for (size_t i = 0; i < TYPES; ++i) {
        const bool is_byte = types[i].name[1] == '1';
        const bool has_order = name[0] == '<' || name[0] == '=' || (is_byte && name[0] == '|');
        if (!has_order || strcmp(name + 1, types[i].name) != 0) continue;
        npy->dtype = types[i].dtype;
        return BERTH_OK;
    }
    return refuse_type(name);
}

static berth_status take_order(cursor* c, berth_npy* npy) {
    npy->is_fortran = take_word(c, "True");
    return npy->is_fortran || take_word(c, "False") ? BERTH_OK : fail_header(c, "True or False");
}

/// Reads one entry of the dictionary; `*seen` has a bit for each key.
static berth_status take_entry(cursor* c, berth_npy* npy, unsigned* seen) {
    static const char* const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    unsigned which = 0;
    if (!take_text(c, key, sizeof key)) return fail_header(c, "a key");
    while (which < 3 && strcmp(key, keys[which]) != 0)
        ++which;
    if (which == 3 || (*seen & (1u << which)) != 0)
        return berth_fail(
            BERTH_ERR_CORRUPT, "the key '%s' of the .npy header is unknown or comes twice", key);
    *seen |= 1u << which;
    if (!take(c, ':')) return fail_header(c, "':'");
    if (which == 0) return take_type(c, npy);
    return which == 1 ? take_order(c, npy) : take_shape(c, npy);
}

static berth_status parse_dictionary(cursor* c, berth_npy* npy) {
    unsigned seen = 0;
    bool has_comma = true;
    if (!take(c, '{')) return fail_header(c, "'{'");
    while (!take(c, '}')) {
        if (!has_comma) return fail_header(c, "',' or '}'");
        BERTH_TRY(take_entry(c, npy, &seen));
        has_comma = take(c, ',');
    }
    skip_spaces(c);
    if (c->next != c->end) return fail_header(c, "its end");
    if (seen != 7)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "the .npy header needs 'descr', 'fortran_order' and 'shape'");
    return BERTH_OK;
}

/// Finds the dictionary's text.
static berth_status find_dictionary(const unsigned char* file, uint64_t size, cursor* out) {
    if (size < PREFIX_V2 || memcmp(file, magic, sizeof magic) != 0)
        return berth_fail(BERTH_ERR_CORRUPT, "this is not a .npy file");
    const unsigned version = file[6];
    if (version < 1 || version > 3 || file[7] != 0)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "version %u.%u of the .npy format is not known",
                          version,
                          (unsigned)file[7]);
    const uint64_t prefix = version == 1 ? PREFIX_V1 : PREFIX_V2;
    uint64_t length = (uint64_t)file[8] | (uint64_t)file[9] << 8;
    if (version > 1) length |= (uint64_t)file[10] << 16 | (uint64_t)file[11] << 24;
    if (length > size - prefix)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "the .npy file ends in its header: %" PRIu64 " of %" PRIu64 " bytes",
                          size - prefix,
                          length);
    out->next = (const char*)file + prefix;
    out->end = out->next + length;
    return BERTH_OK;
}

berth_status berth_npy_parse(const void* file, uint64_t size, berth_npy* out_npy) {
    cursor c = {0};
    *out_npy = (berth_npy){0};
    BERTH_TRY(find_dictionary(file, size, &c));
    BERTH_TRY(parse_dictionary(&c, out_npy));
    BERTH_TRY(berth_shape_measure(
        out_npy->dtype, out_npy->rank, out_npy->dims, NULL, &out_npy->data_bytes));
    out_npy->data_offset = (uint64_t)((const unsigned char*)c.end - (const unsigned char*)file);
    const uint64_t present = size - out_npy->data_offset;
    if (present != out_npy->data_bytes)
        return berth_fail(BERTH_ERR_CORRUPT,
                          "the elements of the .npy file take %" PRIu64 " bytes, it has %" PRIu64,
                          out_npy->data_bytes,
                          present);
    return BERTH_OK;
}

size_t berth_npy_write_header(char buffer[BERTH_NPY_HEADER_BYTES],
                              berth_dtype dtype,
                              int32_t rank,
                              const int64_t* dims) {
    size_t type = 0;
    while (type < TYPES && types[type].dtype != dtype)
        ++type;
    if (type == TYPES) return 0;
    memcpy(buffer, magic, sizeof magic);
    berth_text text = {.buffer = buffer + PREFIX_V1, .size = BERTH_NPY_HEADER_BYTES - PREFIX_V1};
    berth_text_add(&text,
                   "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                   types[type].name[1] == '1' ? '|' : '<',
                   types[type].name);
    for (int32_t i = 0; i < rank; ++i)
        berth_text_add(&text, "%s%" PRId64 "%s", i == 0 ? "" : ", ", dims[i], rank == 1 ? "," : "");
    berth_text_add(&text, "), }");
    const size_t total = (size_t)berth_round_up(PREFIX_V1 + text.length + 1, HEADER_ALIGNMENT);
    memset(buffer + PREFIX_V1 + text.length, ' ', total - PREFIX_V1 - text.length);
    buffer[total - 1] = '\n';
    buffer[6] = 1;
    buffer[7] = 0;
    buffer[8] = (char)((total - PREFIX_V1) & 0xff);
    buffer[9] = (char)((total - PREFIX_V1) >> 8);
    return total;
}
