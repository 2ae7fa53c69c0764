// SPDX-License-Identifier: Apache-2.0
// Tests of the GGUF reader and writer: what is written reads back, and no file, however wrong,
// gives more than an error that names what is wrong.
#include "llm/llm_kit.h"

#include "llm_random.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

/// A file with a value of every kind and three tensors, in about 900 bytes.
static void put_small(llm_gguf_writer* w) {
    static const uint64_t big = 1ull << 40;
    static const int64_t minus = -5;
    static const double pi = 3.141592653589793;
    static const int16_t shorts[3] = {-2, 0, 7};
    static const float floats[2] = {0.5f, -1.5f};
    static const uint8_t flags[2] = {0, 1};
    const llm_str words[3] = {llm_str_of("one"), llm_str_of(""), llm_str_of("drei")};
    llm_gguf_writer_init(w, 32);
    llm_gguf_put_string(w, "general.architecture", llm_str_of("llama"));
    llm_gguf_put_raw(w, "a.u8", LLM_GGUF_U8, "\xff", 1);
    llm_gguf_put_raw(w, "a.i8", LLM_GGUF_I8, "\x7f", 1);
    llm_gguf_put_raw(w, "a.u16", LLM_GGUF_U16, "\x00\x80", 2);
    llm_gguf_put_raw(w, "a.i16", LLM_GGUF_I16, "\x01\x02", 2);
    llm_gguf_put_u32(w, "a.u32", UINT32_MAX);
    llm_gguf_put_raw(w, "a.i32", LLM_GGUF_I32, "\xff\xff\xff\x7f", 4);
    llm_gguf_put_raw(w, "a.u64", LLM_GGUF_U64, &big, 8);
    llm_gguf_put_raw(w, "a.i64", LLM_GGUF_I64, &minus, 8);
    llm_gguf_put_f32(w, "a.f32", 0.25f);
    llm_gguf_put_raw(w, "a.f64", LLM_GGUF_F64, &pi, 8);
    llm_gguf_put_bool(w, "a.yes", true);
    llm_gguf_put_bool(w, "a.no", false);
    llm_gguf_put_strings(w, "a.words", words, 3);
    llm_gguf_put_numbers(w, "a.shorts", LLM_GGUF_I16, shorts, 3);
    llm_gguf_put_numbers(w, "a.floats", LLM_GGUF_F32, floats, 2);
    llm_gguf_put_numbers(w, "a.flags", LLM_GGUF_BOOL, flags, 2);
}

static void fill_count_up(void* user, void* out, uint64_t size_bytes) {
    (void)user;
    for (uint64_t i = 0; i < size_bytes; i++)
        ((uint8_t*)out)[i] = (uint8_t)i;
}

static void* make_small(size_t* out_size) {
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_add_tensor(&w, "first", LLM_TENSOR_F32, 2, (uint64_t[]){3, 2}, fill_count_up, NULL);
    llm_gguf_add_tensor(&w, "second", LLM_TENSOR_Q8_0, 1, (uint64_t[]){32}, fill_count_up, NULL);
    llm_gguf_add_tensor(&w, "third", LLM_TENSOR_F16, 1, (uint64_t[]){5}, fill_count_up, NULL);
    return finish_file(&w, out_size);
}

/// Reads everything that an open file offers, so that a false view would be noticed.
static uint64_t walk(const llm_gguf* gguf) {
    uint64_t sum = 0;
    for (size_t i = 0; i < llm_gguf_pair_count(gguf); i++) {
        const llm_gguf_pair* pair = llm_gguf_pair_at(gguf, i);
        for (size_t j = 0; j < pair->value.bytes.size; j++)
            sum += (unsigned char)pair->value.bytes.data[j];
        if (pair->value.type != LLM_GGUF_ARRAY || pair->value.element_type != LLM_GGUF_STRING)
            continue;
        llm_gguf_strings_iterator strings = llm_gguf_strings(&pair->value);
        for (llm_str text; llm_gguf_strings_next(&strings, &text);)
            if (text.size > 0) sum += (unsigned char)text.data[text.size - 1];
    }
    for (size_t i = 0; i < llm_gguf_tensor_count(gguf); i++) {
        const llm_gguf_tensor* tensor = llm_gguf_tensor_at(gguf, i);
        const unsigned char* data = tensor->data;
        if (tensor->size_bytes > 0) sum += data[0] + data[tensor->size_bytes - 1];
    }
    return sum;
}

/// Opens a file that must be refused, from a block of exactly its size.
static berth_status refuse(const void* data, size_t size, llm_error* error) {
    char* copy = copy_exactly(data, size);
    llm_gguf* gguf;
    error->text[0] = '\0';
    berth_status status = llm_gguf_open_memory(copy, size, &gguf, error);
    assert_int_not_equal(status, BERTH_OK);
    assert_null(gguf);
    assert_string_not_equal(error->text, "");
    free(copy);
    return status;
}

/// Finishes a wrong file and asserts what opening it says.
static void assert_refused(llm_gguf_writer* w, berth_status expected, const char* mention) {
    size_t size;
    void* data = finish_file(w, &size);
    llm_error error;
    assert_int_equal(refuse(data, size, &error), expected);
    assert_mentions(&error, mention);
    llm_gguf_writer_release(data);
}

/// Overwrites bytes of the small file and asserts what opening it says.
static void assert_patch_refused(size_t at, const void* bytes, size_t count, const char* mention) {
    size_t size;
    char* data = make_small(&size);
    memcpy(data + at, bytes, count);
    llm_error error;
    refuse(data, size, &error);
    assert_mentions(&error, mention);
    llm_gguf_writer_release(data);
}

/// Offset just behind the name `name` in the small file.
static size_t offset_behind(const char* name) {
    size_t size;
    char* data = make_small(&size);
    char* found = memmem(data, size, name, strlen(name));
    assert_non_null(found);
    size_t offset = (size_t)(found - data) + strlen(name);
    llm_gguf_writer_release(data);
    return offset;
}

static llm_gguf* open_small(void** out_data) {
    size_t size;
    llm_gguf* gguf;
    llm_error error;
    *out_data = make_small(&size);
    assert_int_equal(llm_gguf_open_memory(*out_data, size, &gguf, &error), BERTH_OK);
    return gguf;
}

static void a_written_file_reads_back_with_every_value(void** state) {
    (void)state;
    void* data;
    llm_gguf* gguf = open_small(&data);
    assert_int_equal(llm_gguf_version(gguf), 3);
    assert_int_equal(llm_gguf_pair_count(gguf), 17);
    llm_str text;
    double number;
    bool flag;
    assert_int_equal(llm_gguf_get_string(gguf, "general.architecture", &text, NULL), BERTH_OK);
    assert_true(llm_str_equal(text, llm_str_of("llama")));
    assert_int_equal(llm_gguf_get_f64(gguf, "a.f32", &number, NULL), BERTH_OK);
    assert_true(number == 0.25);
    assert_int_equal(llm_gguf_get_f64(gguf, "a.f64", &number, NULL), BERTH_OK);
    assert_true(number == 3.141592653589793);
    assert_int_equal(llm_gguf_get_bool(gguf, "a.yes", &flag, NULL), BERTH_OK);
    assert_true(flag);
    assert_int_equal(llm_gguf_get_bool(gguf, "a.no", &flag, NULL), BERTH_OK);
    assert_false(flag);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void arrays_are_walked_without_copies(void** state) {
    (void)state;
    void* data;
    llm_gguf* gguf = open_small(&data);
    const llm_gguf_value* array;
    assert_int_equal(llm_gguf_get_array(gguf, "a.words", LLM_GGUF_STRING, &array, NULL), BERTH_OK);
    llm_gguf_strings_iterator strings = llm_gguf_strings(array);
    const char* const expected[] = {"one", "", "drei"};
    llm_str text;
    for (size_t i = 0; i < 3; i++) {
        assert_true(llm_gguf_strings_next(&strings, &text));
        assert_true(llm_str_equal(text, llm_str_of(expected[i])));
        assert_true(text.data > (char*)data);
    }
    assert_false(llm_gguf_strings_next(&strings, &text));
    assert_int_equal(llm_gguf_get_array(gguf, "a.shorts", LLM_GGUF_I64, &array, NULL), BERTH_OK);
    assert_int_equal(llm_gguf_int_at(array, 0), -2);
    assert_int_equal(llm_gguf_int_at(array, 2), 7);
    assert_int_equal(llm_gguf_get_array(gguf, "a.floats", LLM_GGUF_F32, &array, NULL), BERTH_OK);
    assert_true(llm_gguf_float_at(array, 1) == -1.5);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void integers_of_every_type_are_accepted(void** state) {
    (void)state;
    void* data;
    llm_gguf* gguf = open_small(&data);
    const struct {
        const char* key;
        uint64_t value;
    } cases[] = {{"a.u8", 255},
                 {"a.i8", 127},
                 {"a.u16", 0x8000},
                 {"a.i16", 0x0201},
                 {"a.u32", UINT32_MAX},
                 {"a.i32", INT32_MAX},
                 {"a.u64", 1ull << 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value;
        assert_int_equal(llm_gguf_get_u64(gguf, cases[i].key, &value, NULL), BERTH_OK);
        assert_int_equal(value, cases[i].value);
    }
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void getters_name_the_key_that_is_missing_or_wrong(void** state) {
    (void)state;
    void* data;
    llm_gguf* gguf = open_small(&data);
    llm_error error;
    uint64_t value;
    double number;
    bool flag;
    llm_str text;
    const llm_gguf_value* array;
    assert_int_equal(llm_gguf_get_u64(gguf, "no.key", &value, &error), BERTH_ERR_NOT_FOUND);
    assert_mentions(&error, "no.key");
    assert_int_equal(llm_gguf_get_u64(gguf, "a.i64", &value, &error), BERTH_ERR_CORRUPT);
    assert_mentions(&error, "a.i64 is negative: -5");
    assert_int_equal(llm_gguf_get_u64(gguf, "a.f32", &value, &error), BERTH_ERR_CORRUPT);
    assert_mentions(&error, "a.f32 holds f32");
    assert_int_equal(llm_gguf_get_f64(gguf, "a.u8", &number, &error), BERTH_ERR_CORRUPT);
    assert_int_equal(llm_gguf_get_bool(gguf, "a.u8", &flag, &error), BERTH_ERR_CORRUPT);
    assert_int_equal(llm_gguf_get_string(gguf, "a.words", &text, &error), BERTH_ERR_CORRUPT);
    assert_mentions(&error, "an array of string");
    assert_int_equal(llm_gguf_get_array(gguf, "a.floats", LLM_GGUF_I64, &array, &error),
                     BERTH_ERR_CORRUPT);
    assert_mentions(&error, "an array of f32");
    assert_null(array);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void missing_keys_take_their_default_and_wrong_ones_do_not(void** state) {
    (void)state;
    void* data;
    llm_gguf* gguf = open_small(&data);
    uint64_t value;
    double number;
    bool flag;
    assert_int_equal(llm_gguf_get_u64_or(gguf, "no.key", 9, &value, NULL), BERTH_OK);
    assert_int_equal(value, 9);
    assert_int_equal(llm_gguf_get_u64_or(gguf, "a.u8", 9, &value, NULL), BERTH_OK);
    assert_int_equal(value, 255);
    assert_int_equal(llm_gguf_get_u64_or(gguf, "a.f32", 9, &value, NULL), BERTH_ERR_CORRUPT);
    assert_int_equal(llm_gguf_get_f64_or(gguf, "no.key", 2.5, &number, NULL), BERTH_OK);
    assert_true(number == 2.5);
    assert_int_equal(llm_gguf_get_bool_or(gguf, "no.key", true, &flag, NULL), BERTH_OK);
    assert_true(flag);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void tensors_point_at_their_bytes(void** state) {
    (void)state;
    void* data;
    llm_gguf* gguf = open_small(&data);
    assert_int_equal(llm_gguf_tensor_count(gguf), 3);
    const llm_gguf_tensor* first = llm_gguf_find_tensor(gguf, "first");
    assert_non_null(first);
    assert_int_equal(first->size_bytes, 24);
    assert_int_equal(first->rank, 2);
    assert_int_equal(first->dims[0], 3);
    assert_int_equal(first->dims[1], 2);
    assert_int_equal(first->dims[2], 1);
    const llm_gguf_tensor* second = llm_gguf_find_tensor(gguf, "second");
    assert_int_equal(second->size_bytes, 34);
    assert_int_equal(second->type, LLM_TENSOR_Q8_0);
    for (size_t i = 0; i < 34; i++)
        assert_int_equal(((const uint8_t*)second->data)[i], i);
    assert_int_equal((uintptr_t)second->data % 32, 0);
    assert_null(llm_gguf_find_tensor(gguf, "fourth"));
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void version_two_reads_like_version_three(void** state) {
    (void)state;
    size_t size;
    char* data = make_small(&size);
    data[4] = 2;
    llm_gguf* gguf;
    assert_int_equal(llm_gguf_open_memory(data, size, &gguf, NULL), BERTH_OK);
    assert_int_equal(llm_gguf_version(gguf), 2);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void a_file_cut_at_any_byte_is_refused(void** state) {
    (void)state;
    size_t size;
    void* data = make_small(&size);
    llm_error error;
    for (size_t cut = 0; cut < size; cut++)
        refuse(data, cut, &error);
    llm_gguf_writer_release(data);
}

static void a_model_cut_at_any_page_is_refused_from_disk_too(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(3);
    spec.layers = 6;
    void* data;
    size_t size;
    assert_int_equal(llm_random_model(&spec, &data, &size, NULL), BERTH_OK);
    assert_true(size > 16 * 4096);
    char path[] = "/tmp/berth_gguf_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, data, size), (ssize_t)size);
    llm_gguf* gguf;
    llm_error error;
    for (int mapped = 0; mapped < 2; mapped++) {
        assert_int_equal(llm_gguf_open(path, mapped != 0, &gguf, &error), BERTH_OK);
        assert_memory_equal(llm_gguf_bytes(gguf).data, data, size);
        llm_gguf_close(gguf);
    }
    for (size_t cut = (size - 1) / 4096 * 4096;; cut -= 4096) {
        assert_int_equal(ftruncate(file, (off_t)cut), 0);
        assert_int_equal(llm_gguf_open(path, true, &gguf, &error), BERTH_ERR_CORRUPT);
        assert_int_equal(llm_gguf_open(path, false, &gguf, &error), BERTH_ERR_CORRUPT);
        assert_null(gguf);
        if (cut == 0) break;
    }
    close(file);
    unlink(path);
    llm_gguf_writer_release(data);
}

static void files_that_cannot_be_read_are_named(void** state) {
    (void)state;
    llm_gguf* gguf;
    llm_error error;
    assert_int_equal(llm_gguf_open("/nonexistent.gguf", true, &gguf, &error), BERTH_ERR_IO);
    assert_mentions(&error, "/nonexistent.gguf");
    assert_int_equal(llm_gguf_open("/tmp", true, &gguf, &error), BERTH_ERR_IO);
    assert_mentions(&error, "not a regular file");
    assert_null(gguf);
}

static void other_formats_and_versions_are_refused_by_name(void** state) {
    (void)state;
    assert_patch_refused(0, "PK\x03\x04", 4, "not a GGUF file");
    assert_patch_refused(4, "\x01\x00\x00\x00", 4, "version 1");
    assert_patch_refused(4, "\x04\x00\x00\x00", 4, "version 4");
    assert_patch_refused(4, "\x00\x00\x00\x03", 4, "byte order");
}

static void absurd_counts_are_refused_without_large_allocations(void** state) {
    (void)state;
    static const uint64_t counts[] = {
        UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1, 1ull << 60, 1ull << 40, 100000};
    size_t array_at = offset_behind("a.words") + 4 + 4;
    size_t numbers_at = offset_behind("a.shorts") + 4 + 4;
    size_t string_at = offset_behind("general.architecture") + 4;
    size_t key_at = offset_behind("general.architecture") - 28;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        alloc_watch watch;
        watch_begin(&watch, 0);
        assert_patch_refused(8, &counts[i], 8, "tensors");
        assert_patch_refused(16, &counts[i], 8, "metadata pairs");
        assert_patch_refused(array_at, &counts[i], 8, "a.words");
        assert_patch_refused(numbers_at, &counts[i], 8, "a.shorts");
        assert_patch_refused(string_at, &counts[i], 8, "general.architecture");
        assert_patch_refused(key_at, &counts[i], 8, "the key");
        watch_end();
        assert_in_range(watch.largest_bytes, 1, 8192);
    }
}

static void duplicate_keys_and_tensor_names_are_refused(void** state) {
    (void)state;
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_put_u32(&w, "a.f32", 1);
    assert_refused(&w, BERTH_ERR_CORRUPT, "two keys called 'a.f32'");
    put_small(&w);
    llm_gguf_add_tensor(&w, "twin", LLM_TENSOR_F32, 1, (uint64_t[]){1}, NULL, NULL);
    llm_gguf_add_tensor(&w, "other", LLM_TENSOR_F32, 1, (uint64_t[]){1}, NULL, NULL);
    llm_gguf_add_tensor(&w, "twin", LLM_TENSOR_F16, 1, (uint64_t[]){1}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_CORRUPT, "two tensors called 'twin'");
}

static void fifty_thousand_keys_are_found_and_a_late_duplicate_is_seen(void** state) {
    (void)state;
    for (uint32_t last = 0; last < 2; last++) {
        llm_gguf_writer w;
        llm_gguf_writer_init(&w, 32);
        char key[32];
        for (uint32_t i = 0; i < 50000; i++) {
            snprintf(key, sizeof key, "key.%u", i * last == 49999 ? 7 : i);
            llm_gguf_put_u32(&w, key, i);
        }
        if (last == 1) {
            assert_refused(&w, BERTH_ERR_CORRUPT, "two keys called 'key.7'");
            continue;
        }
        size_t size;
        void* data = finish_file(&w, &size);
        llm_gguf* gguf;
        uint64_t value;
        assert_int_equal(llm_gguf_open_memory(data, size, &gguf, NULL), BERTH_OK);
        assert_int_equal(llm_gguf_get_u64(gguf, "key.31415", &value, NULL), BERTH_OK);
        assert_int_equal(value, 31415);
        llm_gguf_close(gguf);
        llm_gguf_writer_release(data);
    }
}

static void alignment_must_be_a_power_of_two(void** state) {
    (void)state;
    static const uint32_t wrong[] = {0, 1, 4, 24, 33, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        llm_gguf_writer w;
        put_small(&w);
        llm_gguf_put_u32(&w, "general.alignment", wrong[i]);
        assert_refused(&w, BERTH_ERR_CORRUPT, "general.alignment");
    }
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_put_string(&w, "general.alignment", llm_str_of("32"));
    assert_refused(&w, BERTH_ERR_CORRUPT, "general.alignment holds string");
}

static void a_larger_alignment_is_honoured(void** state) {
    (void)state;
    llm_gguf_writer w;
    llm_gguf_writer_init(&w, 64);
    llm_gguf_add_tensor(&w, "x", LLM_TENSOR_F32, 1, (uint64_t[]){1}, fill_count_up, NULL);
    llm_gguf_add_tensor(&w, "y", LLM_TENSOR_F32, 1, (uint64_t[]){1}, fill_count_up, NULL);
    size_t size;
    void* data = finish_file(&w, &size);
    llm_gguf* gguf;
    assert_int_equal(llm_gguf_open_memory(data, size, &gguf, NULL), BERTH_OK);
    const llm_gguf_tensor* y = llm_gguf_find_tensor(gguf, "y");
    assert_int_equal(y->offset_bytes % 64, 0);
    assert_memory_equal(y->data, "\x00\x01\x02\x03", 4);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void add_wrong_tensor(llm_gguf_writer* w,
                             uint32_t type,
                             uint32_t rank,
                             const uint64_t* dims) {
    // bytes of a harmless tensor, then the info is made wrong
    llm_gguf_add_tensor(w, "odd", type, 0, dims, NULL, NULL);
    w->infos.size -= 4 + 4 + 8;
    uint64_t offset = 0;
    assert_int_equal(llm_bytes_append(&w->infos, &rank, 4, NULL), BERTH_OK);
    assert_int_equal(llm_bytes_append(&w->infos, dims, 8ull * rank, NULL), BERTH_OK);
    assert_int_equal(llm_bytes_append(&w->infos, &type, 4, NULL), BERTH_OK);
    assert_int_equal(llm_bytes_append(&w->infos, &offset, 8, NULL), BERTH_OK);
}

static void dims_whose_product_overflows_are_refused(void** state) {
    (void)state;
    static const uint64_t wrong[][4] = {
        {1ull << 32, 1ull << 32, 1, 1},
        {32, 1ull << 31, 1ull << 31, 2},
        {UINT64_MAX, 1, 1, 1},
        {1ull << 62, 2, 1, 1},
        {0, UINT64_MAX, UINT64_MAX, 1}, // empty, yet a user may multiply the last two
        {3, 1ull << 63, 2, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        llm_gguf_writer w;
        put_small(&w);
        add_wrong_tensor(&w, LLM_TENSOR_F32, 4, wrong[i]);
        assert_refused(&w, BERTH_ERR_CORRUPT, "dims of tensor 'odd'");
    }
}

static void shapes_that_do_not_fit_their_type_or_the_file_are_refused(void** state) {
    (void)state;
    llm_gguf_writer w;
    put_small(&w);
    add_wrong_tensor(&w, LLM_TENSOR_Q4_K, 2, (uint64_t[]){576, 2});
    assert_refused(&w, BERTH_ERR_CORRUPT, "Q4_K needs a multiple of 256");
    put_small(&w);
    add_wrong_tensor(&w, LLM_TENSOR_F32, 5, (uint64_t[]){1, 1, 1, 1, 1});
    assert_refused(&w, BERTH_ERR_CORRUPT, "5 dims");
    put_small(&w);
    add_wrong_tensor(&w, LLM_TENSOR_F32, 1, (uint64_t[]){1000});
    assert_refused(&w, BERTH_ERR_CORRUPT, "tensor 'odd' lies outside the file");
    const uint64_t offset = 17;
    size_t at = offset_behind("second") + 4 + 8 + 4;
    assert_patch_refused(at, &offset, 8, "no multiple of the alignment");
    const uint64_t far = UINT64_MAX - 31;
    assert_patch_refused(at, &far, 8, "tensor 'second' lies outside the file");
}

static void an_empty_tensor_is_valid(void** state) {
    (void)state;
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_add_tensor(&w, "void", LLM_TENSOR_F32, 2, (uint64_t[]){0, 7}, NULL, NULL);
    size_t size;
    void* data = finish_file(&w, &size);
    llm_gguf* gguf;
    assert_int_equal(llm_gguf_open_memory(data, size, &gguf, NULL), BERTH_OK);
    assert_int_equal(llm_gguf_find_tensor(gguf, "void")->size_bytes, 0);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

static void types_that_cannot_be_read_are_named(void** state) {
    (void)state;
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_add_tensor(&w, "small", 10, 1, (uint64_t[]){256}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_UNSUPPORTED, "tensor 'small' has type 10 (Q2_K)");
    put_small(&w);
    llm_gguf_add_tensor(&w, "small", 4, 1, (uint64_t[]){256}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_UNSUPPORTED, "type 4 (unknown)");
    put_small(&w);
    llm_gguf_add_tensor(&w, "small", 4000000000u, 1, (uint64_t[]){256}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_UNSUPPORTED, "type 4000000000 (unknown)");
    put_small(&w);
    llm_gguf_put_raw(&w, "strange", 13, "12345678", 8);
    assert_refused(&w, BERTH_ERR_CORRUPT, "'strange' has the unknown value type 13");
    put_small(&w);
    llm_gguf_put_raw(&w, "strange", LLM_GGUF_ARRAY, "\x63\0\0\0\x01\0\0\0\0\0\0\0z", 13);
    assert_refused(&w, BERTH_ERR_CORRUPT, "unknown value type 99");
}

static void bools_other_than_zero_and_one_are_refused(void** state) {
    (void)state;
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_put_raw(&w, "maybe", LLM_GGUF_BOOL, "\x02", 1);
    assert_refused(&w, BERTH_ERR_CORRUPT, "'maybe' holds a bool of 2");
    put_small(&w);
    llm_gguf_put_numbers(&w, "maybe", LLM_GGUF_BOOL, "\x01\x01\xff", 3);
    assert_refused(&w, BERTH_ERR_CORRUPT, "'maybe' holds a bool of 255");
}

/// Bytes of `depth` arrays in each other, the innermost of two u8.
static size_t nest_arrays(unsigned depth, char* out) {
    char* at = out;
    for (unsigned i = 1; i <= depth; i++) {
        uint32_t type = i == depth ? LLM_GGUF_U8 : LLM_GGUF_ARRAY;
        uint64_t count = i == depth ? 2 : 1;
        at = mempcpy(at, &type, sizeof type);
        at = mempcpy(at, &count, sizeof count);
    }
    at = mempcpy(at, "ab", 2);
    return (size_t)(at - out);
}

static void nested_arrays_are_skipped_down_to_a_limit(void** state) {
    (void)state;
    char bytes[1024];
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_put_raw(&w, "deep", LLM_GGUF_ARRAY, bytes, nest_arrays(8, bytes));
    llm_gguf_put_u32(&w, "behind", 5);
    size_t size;
    void* data = finish_file(&w, &size);
    llm_gguf* gguf;
    uint64_t value;
    assert_int_equal(llm_gguf_open_memory(data, size, &gguf, NULL), BERTH_OK);
    assert_int_equal(llm_gguf_get_u64(gguf, "behind", &value, NULL), BERTH_OK);
    assert_int_equal(value, 5);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
    put_small(&w);
    llm_gguf_put_raw(&w, "deep", LLM_GGUF_ARRAY, bytes, nest_arrays(60, bytes));
    assert_refused(&w, BERTH_ERR_UNSUPPORTED, "'deep' nests arrays");
}

static void names_of_wrong_length_are_refused(void** state) {
    (void)state;
    char name[65] = {0};
    memset(name, 'n', 64);
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_add_tensor(&w, name, LLM_TENSOR_F32, 1, (uint64_t[]){1}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_CORRUPT, "a name of 64 bytes");
    put_small(&w);
    llm_gguf_add_tensor(&w, "", LLM_TENSOR_F32, 1, (uint64_t[]){1}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_CORRUPT, "a name of 0 bytes");
    put_small(&w);
    llm_gguf_put_u32(&w, "", 1);
    assert_refused(&w, BERTH_ERR_CORRUPT, "a key of 0 bytes");
}

static void errors_show_hostile_names_safely(void** state) {
    (void)state;
    llm_gguf_writer w;
    put_small(&w);
    llm_gguf_add_tensor(&w, "\x1b[2Jevil\n", 10, 1, (uint64_t[]){256}, NULL, NULL);
    assert_refused(&w, BERTH_ERR_UNSUPPORTED, "'?[2Jevil?'");
}

static void every_failing_allocation_is_reported_and_leaves_nothing(void** state) {
    (void)state;
    uint64_t n = 1;
    for (bool done = false; !done; n++) {
        size_t size;
        void* data = make_small(&size);
        alloc_watch watch;
        llm_gguf* gguf;
        watch_begin(&watch, n);
        berth_status status = llm_gguf_open_memory(data, size, &gguf, NULL);
        watch_end();
        done = watch.calls < n;
        assert_int_equal(status, done ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY);
        if (!done) assert_null(gguf);
        llm_gguf_close(gguf);
        llm_gguf_writer_release(data);
    }
    assert_in_range(n, 5, 50);
}

static void a_writer_without_memory_says_so_at_the_end(void** state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        alloc_watch watch;
        llm_random_spec spec = llm_random_spec_tiny(1);
        void* data;
        size_t size;
        watch_begin(&watch, n);
        berth_status status = llm_random_model(&spec, &data, &size, NULL);
        watch_end();
        bool done = watch.calls < n;
        assert_int_equal(status, done ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY);
        llm_gguf_writer_release(data);
        if (done) break;
        assert_null(data);
    }
}

static void damaged_files_are_refused_or_walk_safely(void** state) {
    (void)state;
    size_t size;
    char* data = make_small(&size);
    uint64_t random = 42;
    unsigned opened = 0;
    for (int round = 0; round < 20000; round++) {
        char* copy = copy_exactly(data, size);
        for (uint64_t hits = 1 + llm_random_next(&random) % 3; hits > 0; hits--)
            copy[llm_random_next(&random) % size] = (char)llm_random_next(&random);
        llm_gguf* gguf;
        if (llm_gguf_open_memory(copy, size, &gguf, NULL) == BERTH_OK) {
            opened++;
            walk(gguf);
        }
        llm_gguf_close(gguf);
        free(copy);
    }
    assert_in_range(opened, 100, 19900);
    llm_gguf_writer_release(data);
}

static void random_models_depend_on_their_seed_alone(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(7);
    void* files[3];
    size_t sizes[3];
    for (int i = 0; i < 3; i++) {
        spec.seed = i == 2 ? 8 : 7;
        assert_int_equal(llm_random_model(&spec, &files[i], &sizes[i], NULL), BERTH_OK);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(files[0], files[1], sizes[0]);
    assert_memory_not_equal(files[0], files[2], sizes[0]);
    for (int i = 0; i < 3; i++)
        llm_gguf_writer_release(files[i]);
    spec.heads = 7;
    assert_int_equal(llm_random_model(&spec, &files[0], &sizes[0], NULL),
                     BERTH_ERR_INVALID_ARGUMENT);
}

static void random_f32_weights_have_the_intended_spread(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(5);
    spec.matrix_type = LLM_TENSOR_F32;
    void* data;
    size_t size;
    llm_gguf* gguf;
    assert_int_equal(llm_random_model(&spec, &data, &size, NULL), BERTH_OK);
    assert_int_equal(llm_gguf_open_memory(data, size, &gguf, NULL), BERTH_OK);
    const llm_gguf_tensor* q = llm_gguf_find_tensor(gguf, "blk.1.attn_q.weight");
    assert_int_equal(q->size_bytes, 64 * 64 * 4);
    const float* values = q->data;
    double squares = 0;
    for (size_t i = 0; i < 64 * 64; i++)
        squares += (double)values[i] * (double)values[i];
    assert_true(fabs(sqrt(squares / (64 * 64)) * 8 - 1) < 0.05);
    llm_gguf_close(gguf);
    llm_gguf_writer_release(data);
}

/// Opens a shared file whole and cut at every 4 KiB of what its tensors and metadata need.
static void check_shared_file(const char* folder, const char* name, size_t tensors) {
    char path[512];
    snprintf(path, sizeof path, "%s/data/gguf/%s", folder, name);
    llm_gguf* gguf;
    llm_error error;
    if (llm_gguf_open(path, true, &gguf, &error) != BERTH_OK) fail_msg("%s", error.text);
    assert_int_equal(llm_gguf_tensor_count(gguf), tensors);
    walk(gguf);
    llm_str bytes = llm_gguf_bytes(gguf);
    for (size_t cut = 0; cut < bytes.size; cut += 4096)
        refuse(bytes.data, cut, &error);
    llm_gguf_close(gguf);
}

static void real_files_open_whole_and_are_refused_cut(void** state) {
    (void)state;
    const char* folder = shared_data_folder("GGUF files");
    check_shared_file(folder, "vocab-llama-spm.gguf", 0);
    check_shared_file(folder, "vocab-starcoder.gguf", 0);
    check_shared_file(folder, "probe-f32.gguf", 20);
    check_shared_file(folder, "probe-mixed.gguf", 11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_file_reads_back_with_every_value),
        cmocka_unit_test(arrays_are_walked_without_copies),
        cmocka_unit_test(integers_of_every_type_are_accepted),
        cmocka_unit_test(getters_name_the_key_that_is_missing_or_wrong),
        cmocka_unit_test(missing_keys_take_their_default_and_wrong_ones_do_not),
        cmocka_unit_test(tensors_point_at_their_bytes),
        cmocka_unit_test(version_two_reads_like_version_three),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(a_model_cut_at_any_page_is_refused_from_disk_too),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(other_formats_and_versions_are_refused_by_name),
        cmocka_unit_test(absurd_counts_are_refused_without_large_allocations),
        cmocka_unit_test(duplicate_keys_and_tensor_names_are_refused),
        cmocka_unit_test(fifty_thousand_keys_are_found_and_a_late_duplicate_is_seen),
        cmocka_unit_test(alignment_must_be_a_power_of_two),
        cmocka_unit_test(a_larger_alignment_is_honoured),
        cmocka_unit_test(dims_whose_product_overflows_are_refused),
        cmocka_unit_test(shapes_that_do_not_fit_their_type_or_the_file_are_refused),
        cmocka_unit_test(an_empty_tensor_is_valid),
        cmocka_unit_test(types_that_cannot_be_read_are_named),
        cmocka_unit_test(bools_other_than_zero_and_one_are_refused),
        cmocka_unit_test(nested_arrays_are_skipped_down_to_a_limit),
        cmocka_unit_test(names_of_wrong_length_are_refused),
        cmocka_unit_test(errors_show_hostile_names_safely),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaves_nothing),
        cmocka_unit_test(a_writer_without_memory_says_so_at_the_end),
        cmocka_unit_test(damaged_files_are_refused_or_walk_safely),
        cmocka_unit_test(random_models_depend_on_their_seed_alone),
        cmocka_unit_test(random_f32_weights_have_the_intended_spread),
        cmocka_unit_test(real_files_open_whole_and_are_refused_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
