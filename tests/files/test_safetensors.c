// SPDX-License-Identifier: Apache-2.0
// safetensors files: what is written comes back, what lies in the file is used there, what is wrong
// is refused.
#include <jansson.h>
#include <pthread.h>
#include <sys/wait.h>

#include "files/file_kit.h"
#include "tensor/safetensors_index.h"

/// A file in memory.
typedef struct safe_file {
    unsigned char bytes[4096];
    size_t size;
} safe_file;

static safe_file make_file(const char* header, const void* data, size_t data_bytes) {
    safe_file file = {.size = 8 + strlen(header) + data_bytes};
    const uint64_t length = strlen(header);
    assert_true(file.size <= sizeof file.bytes);
    memcpy(file.bytes, &length, 8);
    memcpy(file.bytes + 8, header, length);
    if (data_bytes > 0) memcpy(file.bytes + 8 + length, data, data_bytes);
    return file;
}

static const float six[] = {0, 1, 2, 3, 4, 5};

// 8 bytes and this are a multiple of 8: the elements behind it are aligned
static const char two_header[] =
    "{\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[16,24]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
    "\"__metadata__\":{\"format\":\"pt\",\"k\":\"\\u00e9\"}}     ";

static const char* put_two(file_kit* kit) {
    assert_int_equal(strlen(two_header) % 8, 0);
    const safe_file file = make_file(two_header, six, 24);
    return file_kit_put(kit, "two.safetensors", file.bytes, file.size);
}

static berth_safetensors* open_kit_file(file_kit* kit, const char* path) {
    berth_safetensors* file;
    assert_ok(berth_safetensors_open(kit->exec.runtime, path, &file));
    return file;
}

static void a_file_lists_its_tensors_in_the_order_of_their_bytes(void** state) {
    file_kit* kit = *state;
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    berth_safetensors_entry entry;
    size_t index;
    assert_int_equal(berth_safetensors_count(file), 2);
    assert_ok(berth_safetensors_query(file, 0, &entry));
    assert_string_equal(entry.name, "a");
    assert_string_equal(entry.dtype_text, "F32");
    assert_int_equal(entry.dtype, BERTH_F32);
    assert_int_equal(entry.rank, 2);
    assert_int_equal(entry.dims[1], 2);
    assert_int_equal(entry.bytes, 16);
    assert_ok(berth_safetensors_query(file, 1, &entry));
    assert_string_equal(entry.name, "b");
    assert_int_equal(entry.rank, 0);
    assert_fails(berth_safetensors_query(file, 2, &entry), BERTH_ERR_NOT_FOUND, "no tensor 2");
    assert_null(entry.name);
    assert_ok(berth_safetensors_find(file, "b", &index));
    assert_int_equal(index, 1);
    assert_ok(berth_safetensors_find(file, "a", &index));
    assert_int_equal(index, 0);
    assert_fails(berth_safetensors_find(file, "c", &index), BERTH_ERR_NOT_FOUND, "no tensor 'c'");
    berth_safetensors_close(file);
}

static void the_metadata_can_be_asked(void** state) {
    file_kit* kit = *state;
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    berth_safetensors_note note;
    assert_string_equal(berth_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(berth_safetensors_metadata(file, "k"), "\xc3\xa9");
    assert_null(berth_safetensors_metadata(file, "none"));
    assert_ok(berth_safetensors_query_metadata(file, 1, &note));
    assert_string_equal(note.key, "k");
    assert_string_equal(note.value, "\xc3\xa9");
    assert_fails(
        berth_safetensors_query_metadata(file, 2, &note), BERTH_ERR_NOT_FOUND, "no metadata 2");
    berth_safetensors_close(file);
}

static void tensors_lie_in_the_file_and_outlive_it(void** state) {
    file_kit* kit = *state;
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    berth_tensor* a = berth_safetensors_tensor(kit->ctx, file, 0);
    berth_tensor* b = berth_safetensors_tensor(kit->ctx, file, 1);
    assert_context_ok(kit->ctx);
    berth_safetensors_close(file);
    assert_int_equal(remove(kit->path), 0);
    berth_tensor_properties p;
    assert_ok(berth_tensor_info(a, &p));
    assert_int_equal(p.residence, BERTH_RESIDENCE_FOREIGN);
    assert_true(p.is_read_only);
    exec_kit_expect(a, six, 4);
    berth_release(a);
    int64_t value, expected;
    memcpy(&expected, six + 4, 8);
    assert_ok(berth_tensor_read(b, &value, 8));
    assert_int_equal(value, expected);
    berth_release(b);
}

static void elements_that_are_not_aligned_are_copied(void** state) {
    file_kit* kit = *state;
    for (int spaces = 0; spaces < 4; ++spaces) {
        char header[128];
        snprintf(header,
                 sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}%*s",
                 spaces,
                 "");
        const safe_file made = make_file(header, six, sizeof six);
        berth_safetensors* file = open_kit_file(kit, file_kit_put(kit, "u", made.bytes, made.size));
        berth_tensor* x = berth_safetensors_tensor(kit->ctx, file, 0);
        exec_kit_expect(x, six, 6);
        berth_tensor_properties p;
        assert_ok(berth_tensor_info(x, &p));
        assert_int_equal(p.is_read_only, (8 + strlen(header)) % 4 == 0);
        berth_release(x);
        berth_safetensors_close(file);
    }
}

static void types_that_berth_lacks_are_listed_and_refused_by_name(void** state) {
    file_kit* kit = *state;
    static const struct {
        const char* text;
        int64_t count;
    } others[] = {{"F64", 1},
                  {"U16", 4},
                  {"I16", 4},
                  {"U32", 2},
                  {"U64", 1},
                  {"C64", 1},
                  {"F8_E4M3", 8},
                  {"F8_E5M2", 8},
                  {"F8_E8M0", 8},
                  {"F4", 16},
                  {"NEW", 3}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; ++i) {
        char header[128];
        snprintf(header,
                 sizeof header,
                 "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,8]}}",
                 others[i].text,
                 (int)others[i].count);
        const safe_file made = make_file(header, six, 8);
        berth_safetensors* file = open_kit_file(kit, file_kit_put(kit, "o", made.bytes, made.size));
        berth_safetensors_entry entry;
        assert_ok(berth_safetensors_query(file, 0, &entry));
        assert_string_equal(entry.dtype_text, others[i].text);
        assert_int_equal(entry.dtype, BERTH_DTYPE_COUNT);
        assert_null(berth_safetensors_tensor(kit->ctx, file, 0));
        assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, others[i].text);
        berth_safetensors_close(file);
    }
}

#define ENTRY(name, dtype, shape, place)                                                           \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" place "}"

static void headers_that_are_not_right_are_refused(void** state) {
    file_kit* kit = *state;
    static const struct {
        const char* header;
        const char* reason;
    } wrong[] = {
        {" {}", "no '{'"},
        {"[]", "no '{'"},
        {"{", "no JSON"},
        {"{} x", "no JSON"},
        {"{\"a\":1}", "tensor 'a': its entry is no object"},
        {"{\"a\":{}}", "'dtype' is no"},
        {"{\"a\":{\"dtype\":\"F32\"}}", "'shape' is no"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6]}}", "'data_offsets' is no"},
        {"{\"a\":{\"dtype\":5,\"shape\":[6],\"data_offsets\":[0,24]}}", "'dtype' is no"},
        {"{" ENTRY("a", "ATYPEWITHALONGNAME", "[6]", "[0,24]") "}", "'dtype' is no"},
        {"{" ENTRY("a", "F32", "6", "[0,24]") "}", "'shape' is no"},
        {"{" ENTRY("a", "F32", "[-6]", "[0,24]") "}", "from 0 to 2^63 - 1"},
        {"{" ENTRY("a", "F32", "[6.0]", "[0,24]") "}", "from 0 to 2^63 - 1"},
        {"{" ENTRY("a", "F32", "[6]", "[0,24,25]") "}", "'data_offsets' is no"},
        {"{" ENTRY("a", "F32", "[6]", "[-1,23]") "}", "'data_offsets' is no"},
        {"{" ENTRY("a", "F32", "[6]", "[24,0]") "}", "ends before it begins"},
        {"{" ENTRY("a", "F32", "[5]", "[0,24]") "}", "need 160 bits, it has 24 bytes"},
        {"{" ENTRY("a", "F4", "[47]", "[0,24]") "}", "need 188 bits"},
        {"{" ENTRY("a", "F32", "[9223372036854775807]", "[0,24]") "}", "too large"},
        {"{" ENTRY("a", "F32", "[4294967296,4294967296]", "[0,24]") "}", "too large"},
        {"{" ENTRY("a", "F32", "[99999999999999999999]", "[0,24]") "}", "no JSON"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[5]", "[4,24]") "}",
         "no JSON"},
        {"{" ENTRY("a", "F32", "[4]", "[0,16]") "," ENTRY("b", "F32", "[3]", "[12,24]") "}",
         "'b' begins at byte 12 of the data, what is before it ends at 16"},
        {"{" ENTRY("a", "F32", "[4]", "[0,16]") "," ENTRY("b", "F32", "[1]", "[20,24]") "}",
         "'b' begins at byte 20"},
        {"{" ENTRY("a", "F32", "[5]", "[4,24]") "}", "'a' begins at byte 4"},
        {"{" ENTRY("a", "F32", "[5]", "[0,20]") "}", "have 20 bytes, the safetensors file 24"},
        {"{" ENTRY("a", "F32", "[7]", "[0,28]") "}", "have 28 bytes, the safetensors file 24"},
        {"{\"__metadata__\":[]," ENTRY("a", "F32", "[6]", "[0,24]") "}", "the metadata is no"},
        {"{\"__metadata__\":{\"k\":1}," ENTRY("a", "F32", "[6]", "[0,24]") "}",
         "the metadata 'k' is no text"},
        {"{\"__metadata__\":{\"k\":\"\\u0000\"}," ENTRY("a", "F32", "[6]", "[0,24]") "}",
         "no JSON"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        const safe_file made = make_file(wrong[i].header, six, sizeof six);
        berth_safetensors* file = (berth_safetensors*)kit;
        const char* path = file_kit_put(kit, "w.st", made.bytes, made.size);
        assert_fails(berth_safetensors_open(kit->exec.runtime, path, &file),
                     BERTH_ERR_CORRUPT,
                     wrong[i].reason);
        assert_non_null(strstr(berth_last_error(), "w.st: "));
        assert_null(file);
    }
    const safe_file deep =
        make_file("{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,6]", "[0,24]") "}", six, 24);
    berth_safetensors* file;
    const char* path = file_kit_put(kit, "w.st", deep.bytes, deep.size);
    assert_fails(berth_safetensors_open(kit->exec.runtime, path, &file),
                 BERTH_ERR_UNSUPPORTED,
                 "tensor 'a': it has 9 dimensions");
}

static void a_file_cut_anywhere_is_refused(void** state) {
    file_kit* kit = *state;
    const safe_file made = make_file(two_header, six, 24);
    berth_safetensors_index index;
    for (size_t size = 0; size < made.size; ++size) {
        unsigned char* cut = malloc(size + 1); // of its own, so that a read past its end is seen
        assert_non_null(cut);
        memcpy(cut + 1, made.bytes, size);
        assert_int_equal(berth_safetensors_parse(kit->exec.runtime->host, cut + 1, size, &index),
                         BERTH_ERR_CORRUPT);
        free(cut);
    }
    safe_file huge = made;
    memset(huge.bytes, 0xff, 8);
    assert_fails(berth_safetensors_parse(kit->exec.runtime->host, huge.bytes, huge.size, &index),
                 BERTH_ERR_CORRUPT,
                 "a safetensors header of 18446744073709551615 bytes");
    memset(huge.bytes, 0, 8);
    assert_fails(berth_safetensors_parse(kit->exec.runtime->host, huge.bytes, huge.size, &index),
                 BERTH_ERR_CORRUPT,
                 "no '{'");
}

static void tensors_without_elements_take_no_bytes(void** state) {
    file_kit* kit = *state;
    const safe_file made =
        make_file("{" ENTRY("z", "F32", "[0,5]", "[24,24]") "," ENTRY(
                      "y", "I64", "[0]", "[0,0]") "," ENTRY("a", "F32", "[6]", "[0,24]") "}",
                  six,
                  24);
    berth_safetensors* file = open_kit_file(kit, file_kit_put(kit, "z", made.bytes, made.size));
    size_t index;
    assert_ok(berth_safetensors_find(file, "z", &index));
    assert_int_equal(index, 2);
    berth_tensor* x = berth_safetensors_tensor(kit->ctx, file, index);
    assert_context_ok(kit->ctx);
    assert_int_equal(berth_tensor_dim(x, 1), 5);
    assert_int_equal(berth_tensor_count(x), 0);
    berth_release(x);
    berth_safetensors_close(file);
    const safe_file nothing = make_file("{}", NULL, 0);
    file = open_kit_file(kit, file_kit_put(kit, "n", nothing.bytes, nothing.size));
    assert_int_equal(berth_safetensors_count(file), 0);
    assert_fails(berth_safetensors_find(file, "", &index), BERTH_ERR_NOT_FOUND, "''");
    berth_safetensors_close(file);
}

static void what_is_written_comes_back(void** state) {
    file_kit* kit = *state;
    static const berth_dtype dtypes[] = {
        BERTH_U8, BERTH_F32, BERTH_BOOL, BERTH_I64, BERTH_BF16, BERTH_I8, BERTH_F16, BERTH_I32};
    enum { COUNT = sizeof dtypes / sizeof dtypes[0] };
    static const char* const names[COUNT] = {
        "u", "f", "", "l", "\xf0\x9f\x9a\xa2", "\"\\\n", "h", "i"};
    berth_safetensors_source sources[COUNT];
    unsigned char before[COUNT][40], after[40];
    for (size_t i = 0; i < COUNT; ++i) {
        berth_tensor* x =
            berth_cast(kit->ctx, berth_move(exec_kit_ramp(kit->ctx, 0, 5)), dtypes[i]);
        sources[i] = (berth_safetensors_source){names[i], x};
        assert_ok(berth_tensor_read(x, before[i], berth_tensor_bytes(x)));
    }
    const berth_safetensors_note notes[] = {{"who", "\xc3\xa9"}, {"a\"b", ""}};
    const char* path = file_kit_path(kit, "all.safetensors");
    assert_ok(berth_safetensors_write(path, sources, COUNT, notes, 2));
    assert_int_equal(file_kit_count(kit), 1);
    berth_safetensors* file = open_kit_file(kit, path);
    assert_string_equal(berth_safetensors_metadata(file, "who"), "\xc3\xa9");
    assert_string_equal(berth_safetensors_metadata(file, "a\"b"), "");
    uint32_t last_bytes = 8;
    for (size_t i = 0; i < COUNT; ++i) {
        size_t index;
        berth_safetensors_entry entry;
        assert_ok(berth_safetensors_find(file, names[i], &index));
        berth_tensor* x = berth_safetensors_tensor(kit->ctx, file, index);
        assert_context_ok(kit->ctx);
        assert_int_equal(berth_tensor_dtype(x), dtypes[i]);
        assert_ok(berth_tensor_read(x, after, berth_tensor_bytes(x)));
        assert_memory_equal(after, before[i], berth_tensor_bytes(x));
        berth_tensor_properties p;
        assert_ok(berth_tensor_info(x, &p)); // all are aligned
        assert_int_equal(p.residence, BERTH_RESIDENCE_FOREIGN);
        berth_release_all(x, sources[i].tensor);
        assert_ok(berth_safetensors_query(file, i, &entry));
        const uint32_t bytes = berth_dtype_query_info(entry.dtype)->block_bytes;
        assert_true(bytes <= last_bytes);
        last_bytes = bytes;
    }
    berth_safetensors_close(file);
}

static void the_written_bytes_are_those_of_the_format(void** state) {
    file_kit* kit = *state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[24,25]}}";
    unsigned char bytes[512];
    berth_tensor* w = exec_kit_ramp(kit->ctx, 0, 6);
    w = berth_reshape(kit->ctx, berth_move(w), 2, (int64_t[]){2, 3});
    w = berth_transpose(kit->ctx, berth_move(w), 0, 1);
    berth_tensor* b = berth_full(kit->ctx, 7, BERTH_U8, 0, NULL);
    const berth_safetensors_source sources[] = {{"b", b}, {"w", w}};
    const char* path = file_kit_path(kit, "x.safetensors");
    assert_ok(
        berth_safetensors_write(path, sources, 2, (berth_safetensors_note[]){{"format", "pt"}}, 1));
    const size_t padded = (strlen(header) + 7) / 8 * 8;
    assert_int_equal(file_kit_get(path, bytes, sizeof bytes), 8 + padded + 25);
    const uint64_t length = padded;
    assert_memory_equal(bytes, &length, 8);
    assert_memory_equal(bytes + 8, header, strlen(header));
    for (size_t i = strlen(header); i < padded; ++i)
        assert_int_equal(bytes[8 + i], ' ');
    assert_memory_equal(bytes + 8 + padded, ((float[]){0, 3, 1, 4, 2, 5}), 24);
    assert_int_equal(bytes[8 + padded + 24], 7);
    berth_release_all(w, b);
}

static void a_file_of_nothing_can_be_written(void** state) {
    file_kit* kit = *state;
    const char* path = file_kit_path(kit, "none.safetensors");
    assert_ok(berth_safetensors_write(path, NULL, 0, NULL, 0));
    berth_safetensors* file = open_kit_file(kit, path);
    assert_int_equal(berth_safetensors_count(file), 0);
    berth_safetensors_close(file);
}

static void what_cannot_be_written_is_refused(void** state) {
    file_kit* kit = *state;
    const char* path = file_kit_path(kit, "no.safetensors");
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 3);
    unsigned char block[34] = {0};
    berth_tensor* q = berth_tensor_from_memory(
        kit->ctx, block, sizeof block, BERTH_Q8_0, 1, (int64_t[]){32}, true, NULL, NULL);
    const struct {
        berth_safetensors_source sources[2];
        berth_status status;
        const char* reason;
    } wrong[] = {
        {{{"a", x}, {NULL, x}}, BERTH_ERR_INVALID_ARGUMENT, "the name of entry 1 is NULL"},
        {{{"a", x}, {"b", NULL}}, BERTH_ERR_INVALID_ARGUMENT, "the tensor of entry 1 is NULL"},
        {{{"a", x}, {"a", x}}, BERTH_ERR_INVALID_ARGUMENT, "'a' comes twice"},
        {{{"a", x}, {"__metadata__", x}}, BERTH_ERR_INVALID_ARGUMENT, "of entry 1 is reserved"},
        {{{"a", x}, {"\xff", x}}, BERTH_ERR_INVALID_ARGUMENT, "of entry 1 is reserved or not UTF"},
        {{{"a", x}, {"\xc3", x}}, BERTH_ERR_INVALID_ARGUMENT, "not UTF-8"},
        {{{"a", x}, {"\xc0\x80", x}}, BERTH_ERR_INVALID_ARGUMENT, "not UTF-8"},
        {{{"a", x}, {"\xed\xa0\x80", x}}, BERTH_ERR_INVALID_ARGUMENT, "not UTF-8"},
        {{{"a", x}, {"\xf4\x90\x80\x80", x}}, BERTH_ERR_INVALID_ARGUMENT, "not UTF-8"},
        {{{"a", x}, {"q", q}},
         BERTH_ERR_UNSUPPORTED,
         "tensor 'q': safetensors has no element type "
         "q8_0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
        assert_fails(berth_safetensors_write(path, wrong[i].sources, 2, NULL, 0),
                     wrong[i].status,
                     wrong[i].reason);
    const berth_safetensors_note twice[] = {{"k", "1"}, {"k", "2"}};
    assert_fails(berth_safetensors_write(path, NULL, 0, twice, 2),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "'k' comes twice");
    const berth_safetensors_note bad[] = {{"k", "\x80"}};
    assert_fails(berth_safetensors_write(path, NULL, 0, bad, 1),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "text 0 of the metadata is not UTF-8");
    assert_int_equal(file_kit_count(kit), 0);
    berth_release_all(x, q);
}

static void null_is_an_error_everywhere(void** state) {
    file_kit* kit = *state;
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    berth_safetensors* other;
    berth_safetensors_entry entry;
    berth_safetensors_note note;
    size_t index;
    berth_runtime* runtime = kit->exec.runtime;
    const berth_status invalid = BERTH_ERR_INVALID_ARGUMENT;
    assert_fails(berth_safetensors_open(NULL, kit->path, &other), invalid, "runtime");
    assert_fails(berth_safetensors_open(runtime, NULL, &other), invalid, "path");
    assert_fails(berth_safetensors_open(runtime, kit->path, NULL), invalid, "place");
    assert_fails(berth_safetensors_query(NULL, 0, &entry), invalid, "file is NULL");
    assert_fails(berth_safetensors_query(file, 0, NULL), invalid, "place");
    assert_fails(berth_safetensors_find(NULL, "a", &index), invalid, "file");
    assert_fails(berth_safetensors_find(file, NULL, &index), invalid, "name");
    assert_fails(berth_safetensors_find(file, "a", NULL), invalid, "place");
    assert_fails(berth_safetensors_query_metadata(NULL, 0, &note), invalid, "file is NULL");
    assert_fails(berth_safetensors_query_metadata(file, 0, NULL), invalid, "place");
    assert_fails(berth_safetensors_write(NULL, NULL, 0, NULL, 0), invalid, "path is NULL");
    assert_fails(berth_safetensors_write(kit->path, NULL, 1, NULL, 0), invalid, "NULL");
    assert_fails(berth_safetensors_write(kit->path, NULL, 0, NULL, 1), invalid, "NULL");
    assert_int_equal(berth_safetensors_count(NULL), 0);
    assert_null(berth_safetensors_metadata(NULL, "k"));
    assert_null(berth_safetensors_metadata(file, NULL));
    assert_null(berth_safetensors_tensor(NULL, file, 0));
    assert_null(berth_safetensors_tensor(kit->ctx, NULL, 0));
    assert_context_fails(kit->ctx, invalid, "safetensors_tensor: the file is NULL");
    assert_null(berth_safetensors_tensor(kit->ctx, file, 9));
    assert_context_fails(kit->ctx, BERTH_ERR_NOT_FOUND, "no tensor 9");
    berth_safetensors_close(NULL);
    berth_safetensors_close(file);
}

static void a_file_belongs_to_its_runtime(void** state) {
    file_kit* kit = *state;
    exec_kit other;
    assert_ok(exec_kit_open(&other, NULL, NULL, 0));
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    assert_null(berth_safetensors_tensor(other.ctx, file, 0));
    assert_context_fails(other.ctx, BERTH_ERR_INVALID_ARGUMENT, "another runtime");
    berth_safetensors_close(file);
    exec_kit_close(&other);
}

static void a_full_disk_leaves_what_was_there(void** state) {
    file_kit* kit = *state;
    put_two(kit);
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 1000);
    const berth_safetensors_source source = {"x", x};
    const rlim_t limits[] = {0, 20, 100, 4000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; ++i) {
        file_kit_limit_size(limits[i]);
        const berth_status status = berth_safetensors_write(kit->path, &source, 1, NULL, 0);
        file_kit_limit_size(RLIM_INFINITY);
        assert_fails(status, BERTH_ERR_IO, "two.safetensors' cannot be written: File too large");
        assert_int_equal(file_kit_count(kit), 1);
        berth_safetensors* file = open_kit_file(kit, kit->path);
        assert_int_equal(berth_safetensors_count(file), 2);
        berth_safetensors_close(file);
    }
    assert_fails(berth_safetensors_write("/dev/full", &source, 1, NULL, 0),
                 BERTH_ERR_IO,
                 "it is not a regular file");
    assert_fails(berth_safetensors_open(
                     kit->exec.runtime, file_kit_path(kit, "none"), &(berth_safetensors*){NULL}),
                 BERTH_ERR_NOT_FOUND,
                 "none' cannot be opened");
    berth_release(x);
}

/// Opens, reads and writes; true if all of it worked. Whatever fails says so.
static bool work(file_kit* kit) {
    berth_safetensors* file;
    const berth_status status =
        berth_safetensors_open(kit->exec.runtime, file_kit_path(kit, "two.safetensors"), &file);
    assert_true((status == BERTH_OK) == (file != NULL));
    if (status != BERTH_OK) {
        assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        return false;
    }
    berth_tensor* x = berth_safetensors_tensor(kit->exec.ctx, file, 0);
    bool works = x != NULL;
    if (works) {
        const berth_safetensors_source source = {"x", x};
        const berth_safetensors_note note = {"k", "v"};
        const berth_status written =
            berth_safetensors_write(file_kit_path(kit, "copy.safetensors"), &source, 1, &note, 1);
        works = written == BERTH_OK;
        if (!works) assert_int_equal(written, BERTH_ERR_OUT_OF_MEMORY);
    } else {
        assert_context_fails(kit->exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "safetensors_tensor");
    }
    berth_release(x);
    berth_safetensors_close(file);
    return works;
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    file_kit kit = {0};
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "1"}};
    assert_true(file_kit_open_folder(&kit));
    put_two(&kit);
    size_t failures = 0;
    bool is_done = false;
    for (size_t n = 1; !is_done; ++n) {
        // a fresh context each time: its caches of objects are filled at the first tensor
        assert_ok(exec_kit_open(&kit.exec, &host.allocator, settings, 2));
        failing_host_fail(&host, n, false);
        failures += !work(&kit);
        is_done = !failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        exec_kit_close(&kit.exec);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
        assert_int_equal(file_kit_count(&kit), is_done ? 2 : 1);
    }
    assert_true(failures >= 10);
    file_kit_close_folder(&kit);
}

enum { ROUNDS = 300 };

/// What a thread takes from a file with a context of its own.
typedef struct taker {
    berth_context* ctx;
    const berth_safetensors* file;
    int rounds; ///< that were right
} taker;

static void* take_tensors(void* argument) {
    taker* self = argument;
    for (int i = 0; i < ROUNDS; ++i) {
        float values[4] = {0};
        berth_tensor* x = berth_safetensors_tensor(self->ctx, self->file, 0);
        berth_tensor* y = berth_neg(self->ctx, berth_move(x));
        self->rounds += y != NULL && berth_tensor_read(y, values, sizeof values) == BERTH_OK &&
                        values[1] == -1 && values[3] == -3;
        berth_release(y);
    }
    return NULL;
}

static void several_contexts_use_one_file_at_once(void** state) {
    file_kit* kit = *state;
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    taker takers[3] = {{.ctx = kit->ctx, .file = file}};
    pthread_t threads[3];
    for (size_t i = 1; i < 3; ++i) {
        takers[i].file = file;
        assert_ok(berth_context_create(kit->exec.runtime, &takers[i].ctx));
    }
    for (size_t i = 0; i < 3; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, take_tensors, &takers[i]), 0);
    for (size_t i = 0; i < 3; ++i) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(takers[i].rounds, ROUNDS);
        if (i > 0) berth_context_release(takers[i].ctx);
    }
    berth_safetensors_close(file);
}

static void a_child_leaves_the_file_to_its_parent(void** state) {
    file_kit* kit = *state;
    berth_safetensors* file = open_kit_file(kit, put_two(kit));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        berth_safetensors_close(file);
        _exit(berth_safetensors_count(file) == 2 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    berth_safetensors_close(file);
}

static size_t json_calls, json_fail_at;

static void* failing_malloc(size_t bytes) {
    if (++json_calls != json_fail_at) return malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

static void the_memory_of_json_may_fail_at_any_call(void** state) {
    file_kit* kit = *state;
    put_two(kit);
    assert_true(work(kit)); // what is made once is made
    json_set_alloc_funcs(failing_malloc, free);
    size_t failures = 0;
    for (json_fail_at = 1;; ++json_fail_at) {
        json_calls = 0;
        const bool works = work(kit);
        failures += !works;
        if (json_calls < json_fail_at) break;
    }
    json_set_alloc_funcs(malloc, free);
    print_message("%zu of %zu failures stop the work\n", failures, json_fail_at - 1);
    assert_true(failures >= 20);
    assert_int_equal(file_kit_count(kit), 2);
    assert_true(work(kit));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_KIT_ON_BOTH(a_file_lists_its_tensors_in_the_order_of_their_bytes),
        FILE_KIT_ON_BOTH(the_metadata_can_be_asked),
        FILE_KIT_ON_BOTH(tensors_lie_in_the_file_and_outlive_it),
        FILE_KIT_ON_BOTH(elements_that_are_not_aligned_are_copied),
        FILE_KIT_ON_BOTH(types_that_berth_lacks_are_listed_and_refused_by_name),
        FILE_KIT_ON_BOTH(headers_that_are_not_right_are_refused),
        FILE_KIT_ON_BOTH(a_file_cut_anywhere_is_refused),
        FILE_KIT_ON_BOTH(tensors_without_elements_take_no_bytes),
        FILE_KIT_ON_BOTH(what_is_written_comes_back),
        FILE_KIT_ON_BOTH(the_written_bytes_are_those_of_the_format),
        FILE_KIT_ON_BOTH(a_file_of_nothing_can_be_written),
        FILE_KIT_ON_BOTH(what_cannot_be_written_is_refused),
        FILE_KIT_ON_BOTH(null_is_an_error_everywhere),
        FILE_KIT_ON_BOTH(a_file_belongs_to_its_runtime),
        FILE_KIT_ON_BOTH(a_full_disk_leaves_what_was_there),
        FILE_KIT_ON_BOTH(several_contexts_use_one_file_at_once),
        FILE_KIT_ON_BOTH(a_child_leaves_the_file_to_its_parent),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
        cmocka_unit_test_setup_teardown(
            the_memory_of_json_may_fail_at_any_call, file_kit_set_up_cpu, file_kit_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
