// SPDX-License-Identifier: Apache-2.0
// .npy files: what NumPy writes is read, what is written NumPy reads, what is wrong is refused.
#include "files/file_kit.h"
#include "tensor/npy.h"

/// A file in memory.
typedef struct npy_file {
    unsigned char bytes[4096];
    size_t size;
} npy_file;

/// A file of `version` whose header is `dictionary`, filled up with spaces to `alignment`.
static npy_file make_file(
    int version, const char* dictionary, size_t alignment, const void* data, size_t data_bytes) {
    npy_file file = {.size = 0};
    const size_t prefix = version == 1 ? 10 : 12;
    const size_t total = (prefix + strlen(dictionary) + 1 + alignment - 1) / alignment * alignment;
    memset(file.bytes, ' ', total);
    memcpy(file.bytes, "\x93NUMPY", 6);
    file.bytes[6] = (unsigned char)version;
    memset(file.bytes + 7, 0, prefix - 7);
    file.bytes[8] = (unsigned char)((total - prefix) & 0xff);
    file.bytes[9] = (unsigned char)((total - prefix) >> 8);
    memcpy(file.bytes + prefix, dictionary, strlen(dictionary));
    file.bytes[total - 1] = '\n';
    memcpy(file.bytes + total, data, data_bytes);
    file.size = total + data_bytes;
    return file;
}

static const float six[] = {0, 1, 2, 3, 4, 5};
static const char six_header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

static const char* put_six(file_kit* kit, const char* name) {
    const npy_file file = make_file(1, six_header, 64, six, sizeof six);
    return file_kit_put(kit, name, file.bytes, file.size);
}

static void an_array_is_read_where_it_lies(void** state) {
    file_kit* kit = *state;
    berth_tensor* x = berth_npy_read(kit->ctx, put_six(kit, "six.npy"));
    assert_context_ok(kit->ctx);
    exec_kit_expect(x, six, 6);
    assert_int_equal(berth_tensor_rank(x), 2);
    assert_int_equal(berth_tensor_dim(x, 1), 3);
    berth_tensor_properties p;
    assert_ok(berth_tensor_info(x, &p));
    assert_int_equal(p.residence, BERTH_RESIDENCE_FOREIGN);
    assert_true(p.is_read_only);
    assert_fails(berth_tensor_write(x, six, sizeof six), BERTH_ERR_UNSUPPORTED, "read-only");
    // the mapping outlives the file's name; ops read it and write elsewhere
    assert_int_equal(remove(file_kit_path(kit, "six.npy")), 0);
    berth_tensor* y = berth_neg(kit->ctx, berth_move(x));
    exec_kit_expect(y, (float[]){-0.0f, -1, -2, -3, -4, -5}, 6);
    berth_release(y);
}

static void every_version_is_read(void** state) {
    file_kit* kit = *state;
    for (int version = 1; version <= 3; ++version) {
        const npy_file file = make_file(version, six_header, 64, six, sizeof six);
        berth_tensor* x = berth_npy_read(kit->ctx, file_kit_put(kit, "v", file.bytes, file.size));
        exec_kit_expect(x, six, 6);
        berth_release(x);
    }
}

static void fortran_order_becomes_a_transposed_view(void** state) {
    file_kit* kit = *state;
    const npy_file file = make_file(
        1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", 64, six, sizeof six);
    berth_tensor* x = berth_npy_read(kit->ctx, file_kit_put(kit, "f", file.bytes, file.size));
    assert_context_ok(kit->ctx);
    assert_int_equal(berth_tensor_dim(x, 0), 3);
    assert_int_equal(berth_tensor_strides(x)[0], 1);
    assert_int_equal(berth_tensor_strides(x)[1], 3);
    exec_kit_expect(x, (float[]){0, 3, 1, 4, 2, 5}, 6);
    berth_release(x);
}

static void elements_that_are_not_aligned_are_copied(void** state) {
    file_kit* kit = *state;
    for (size_t alignment = 62; alignment < 66; ++alignment) {
        const npy_file file = make_file(1, six_header, alignment, six, sizeof six);
        berth_tensor* x = berth_npy_read(kit->ctx, file_kit_put(kit, "u", file.bytes, file.size));
        exec_kit_expect(x, six, 6);
        berth_tensor_properties p;
        assert_ok(berth_tensor_info(x, &p));
        const bool is_copy = (file.size - sizeof six) % 4 != 0;
        assert_int_equal(p.residence == BERTH_RESIDENCE_FOREIGN, !is_copy);
        assert_int_equal(p.is_read_only, !is_copy);
        berth_release(x);
    }
}

/// Reads a file of one element of 1 .. 8 bytes; returns what came of it.
static berth_tensor* read_one(file_kit* kit, const char* type, const char* shape, size_t bytes) {
    char header[256];
    const unsigned char zeros[64] = {0};
    snprintf(
        header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s}", type, shape);
    const npy_file file = make_file(1, header, 64, zeros, bytes);
    return berth_npy_read(kit->ctx, file_kit_put(kit, "one.npy", file.bytes, file.size));
}

static void types_of_both_libraries_are_read(void** state) {
    file_kit* kit = *state;
    static const struct {
        const char* name;
        berth_dtype dtype;
        size_t bytes;
    } known[] = {{"<f4", BERTH_F32, 4},
                 {"=f4", BERTH_F32, 4},
                 {"<f2", BERTH_F16, 2},
                 {"<i4", BERTH_I32, 4},
                 {"<i8", BERTH_I64, 8},
                 {"|i1", BERTH_I8, 1},
                 {"<i1", BERTH_I8, 1},
                 {"|u1", BERTH_U8, 1},
                 {"|b1", BERTH_BOOL, 1}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        berth_tensor* x = read_one(kit, known[i].name, "()", known[i].bytes);
        assert_context_ok(kit->ctx);
        assert_int_equal(berth_tensor_dtype(x), known[i].dtype);
        assert_int_equal(berth_tensor_rank(x), 0);
        berth_release(x);
    }
}

static void other_types_are_refused_by_name(void** state) {
    file_kit* kit = *state;
    static const char* const refused[][2] = {
        {"<f8", "'<f8'; Berth has no such element type: save .astype('<f4')"},
        {"<u2", "'<u2'; Berth has no"},
        {"<c8", "'<c8'; Berth has no"},
        {"<U3", "'<U3'; Berth has no"},
        {"<M8[ns]", "'<M8[ns]'; Berth has no"},
        {">f4", "'>f4'; its elements are big-endian"},
        {"|O", "'|O'; it holds pickled"},
        {"|f4", "'|f4'; Berth has no"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; ++i) {
        assert_null(read_one(kit, refused[i][0], "(1,)", 8));
        assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, refused[i][1]);
    }
    const npy_file fields = make_file(
        1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 64, six, 4);
    assert_null(berth_npy_read(kit->ctx, file_kit_put(kit, "one.npy", fields.bytes, fields.size)));
    assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, "one.npy: the .npy file has structured");
}

static void shapes_are_read_as_python_writes_them(void** state) {
    file_kit* kit = *state;
    static const char* const right[] = {
        "(1,)", "(1, 1)", "( 1 ,1, )", "(1L, 1L)", "()", "(1, 1, 1, 1, 1, 1, 1, 1)"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; ++i) {
        berth_tensor* x = read_one(kit, "|u1", right[i], 1);
        assert_context_ok(kit->ctx);
        assert_int_equal(berth_tensor_count(x), 1);
        berth_release(x);
    }
    berth_tensor* x = read_one(kit, "<f4", "(3, 0, 2)", 0);
    assert_context_ok(kit->ctx);
    assert_int_equal(berth_tensor_count(x), 0);
    berth_release(x);
    static const char* const wrong[] = {
        "(1)", "1", "(1 1)", "(-1,)", "(1.0,)", "(,)", "(1,", "[1]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        assert_null(read_one(kit, "|u1", wrong[i], 1));
        assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "one.npy");
    }
    assert_null(read_one(kit, "|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", 1));
    assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, "more than 8 dimensions");
}

static void absurd_sizes_are_refused(void** state) {
    file_kit* kit = *state;
    assert_null(read_one(kit, "|u1", "(99999999999999999999,)", 1));
    assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "63 bits");
    assert_null(read_one(kit, "<i8", "(4611686018427387904, 4)", 8));
    assert_context_fails(kit->ctx, BERTH_ERR_OVERFLOW, "63 bits");
    assert_null(read_one(kit, "<i8", "(0, 4611686018427387904, 4)", 0));
    assert_context_fails(kit->ctx, BERTH_ERR_OVERFLOW, "63 bits");
    assert_null(read_one(kit, "<i8", "(2000000000,)", 8));
    assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "16000000000 bytes, it has 8");
}

static void headers_that_are_not_right_are_refused(void** state) {
    file_kit* kit = *state;
    static const char* const wrong[] = {
        "",
        "{}",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (2, 3)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} 1",
        "{'fortran_order': False, 'shape': (2, 3), 'descr': '<f4}",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': <f4, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "['descr', '<f4']",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        const npy_file file = make_file(1, wrong[i], 64, six, sizeof six);
        assert_null(berth_npy_read(kit->ctx, file_kit_put(kit, "w.npy", file.bytes, file.size)));
        assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "w.npy");
    }
    const npy_file other = make_file(
        1, "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}", 64, six, sizeof six);
    berth_tensor* x = berth_npy_read(kit->ctx, file_kit_put(kit, "w", other.bytes, other.size));
    exec_kit_expect(x, six, 6);
    berth_release(x);
}

static void a_file_cut_anywhere_is_refused(void** state) {
    file_kit* kit = *state;
    const npy_file file = make_file(1, six_header, 64, six, sizeof six);
    for (size_t size = 0; size < file.size; ++size) {
        berth_npy npy;
        unsigned char* cut = malloc(size + 1); // of its own, so that a read past its end is seen
        memcpy(cut + 1, file.bytes, size);
        assert_int_equal(berth_npy_parse(cut + 1, size, &npy), BERTH_ERR_CORRUPT);
        free(cut);
    }
    for (size_t size = 0; size < file.size; size += 31) {
        assert_null(berth_npy_read(kit->ctx, file_kit_put(kit, "cut", file.bytes, size)));
        assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "cut");
    }
    assert_null(berth_npy_read(kit->ctx, file_kit_put(kit, "long", file.bytes, file.size + 1)));
    assert_context_fails(kit->ctx, BERTH_ERR_CORRUPT, "take 24 bytes, it has 25");
    npy_file later = file;
    later.bytes[6] = 4;
    assert_null(berth_npy_read(kit->ctx, file_kit_put(kit, "4", later.bytes, later.size)));
    assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, "version 4.0");
}

static void paths_that_lead_to_no_file_are_refused(void** state) {
    file_kit* kit = *state;
    assert_null(berth_npy_read(kit->ctx, file_kit_path(kit, "nothing.npy")));
    assert_context_fails(kit->ctx, BERTH_ERR_NOT_FOUND, "nothing.npy' cannot be opened: No such");
    assert_null(berth_npy_read(kit->ctx, kit->folder));
    assert_context_fails(kit->ctx, BERTH_ERR_IO, "is not a regular file");
    assert_null(berth_npy_read(kit->ctx, NULL));
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "the path is NULL");
    assert_null(berth_npy_read(NULL, kit->folder));
    assert_int_equal(mkfifo(file_kit_path(kit, "pipe"), 0600), 0);
    assert_null(berth_npy_read(kit->ctx, kit->path)); // does not wait for a writer
    assert_context_fails(kit->ctx, BERTH_ERR_IO, "is not a regular file");
}

static void a_context_with_an_error_reads_nothing(void** state) {
    file_kit* kit = *state;
    const char* path = put_six(kit, "six.npy");
    assert_null(berth_neg(kit->ctx, NULL));
    assert_null(berth_npy_read(kit->ctx, path));
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "neg");
}

static void the_written_file_is_numpys_to_the_byte(void** state) {
    file_kit* kit = *state;
    const char* path = file_kit_path(kit, "out.npy");
    unsigned char bytes[4096];
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 6);
    x = berth_reshape(kit->ctx, berth_move(x), 2, (int64_t[]){2, 3});
    assert_ok(berth_npy_write(x, path));
    const npy_file expected = make_file(1, six_header, 64, six, sizeof six);
    assert_int_equal(file_kit_get(path, bytes, sizeof bytes), expected.size);
    assert_memory_equal(bytes, expected.bytes, expected.size);
    assert_int_equal(file_kit_count(kit), 1);
    berth_release(x);
}

static void every_plain_type_comes_back(void** state) {
    file_kit* kit = *state;
    static const berth_dtype dtypes[] = {
        BERTH_F32, BERTH_F16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
    const char* path = file_kit_path(kit, "type.npy");
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; ++i) {
        unsigned char before[48], after[48];
        berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 6);
        x = berth_cast(kit->ctx, berth_move(x), dtypes[i]);
        const uint64_t bytes = berth_tensor_bytes(x);
        assert_ok(berth_tensor_read(x, before, bytes));
        assert_ok(berth_npy_write(x, path));
        berth_tensor* y = berth_npy_read(kit->ctx, path);
        assert_context_ok(kit->ctx);
        assert_int_equal(berth_tensor_dtype(y), dtypes[i]);
        assert_ok(berth_tensor_read(y, after, bytes));
        assert_memory_equal(before, after, bytes);
        berth_release_all(x, y);
    }
}

static void every_rank_and_no_element_come_back(void** state) {
    file_kit* kit = *state;
    const char* path = file_kit_path(kit, "rank.npy");
    int64_t dims[BERTH_MAX_RANK] = {2, 1, 3, 1, 1, 2, 1, 1};
    for (int32_t rank = 0; rank <= BERTH_MAX_RANK; ++rank) {
        for (int empty = 0; empty < (rank == 0 ? 1 : 2); ++empty) {
            int64_t d[BERTH_MAX_RANK];
            memcpy(d, dims, sizeof d);
            if (empty) d[rank - 1] = 0;
            berth_tensor* x = berth_ones(kit->ctx, BERTH_F32, rank, d);
            assert_ok(berth_npy_write(x, path));
            berth_tensor* y = berth_npy_read(kit->ctx, path);
            assert_context_ok(kit->ctx);
            assert_int_equal(berth_tensor_rank(y), rank);
            for (int32_t i = 0; i < rank; ++i)
                assert_int_equal(berth_tensor_dim(y, i), d[i]);
            berth_release_all(x, y);
        }
    }
}

static void strided_and_large_tensors_are_written_row_major(void** state) {
    file_kit* kit = *state;
    const char* path = file_kit_path(kit, "large.npy");
    const int64_t rows = 300, columns = 401; // more than one chunk, and rows across chunks
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, rows * columns);
    x = berth_reshape(kit->ctx, berth_move(x), 2, (int64_t[]){columns, rows});
    x = berth_transpose(kit->ctx, berth_move(x), 0, 1);
    assert_ok(berth_npy_write(x, path));
    berth_tensor* y = berth_npy_read(kit->ctx, path);
    assert_context_ok(kit->ctx);
    assert_true(berth_tensor_is_contiguous(y));
    void* data;
    assert_ok(berth_tensor_map(y, &data));
    const float* values = data;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
            assert_true(values[i * columns + j] == (float)(j * rows + i));
    berth_tensor_unmap(y);
    berth_release_all(x, y);
}

static void a_file_may_be_replaced_while_it_is_read(void** state) {
    file_kit* kit = *state;
    put_six(kit, "six.npy");
    berth_tensor* x = berth_npy_read(kit->ctx, kit->path);
    berth_tensor* y = berth_neg(kit->ctx, x);
    assert_ok(berth_npy_write(y, kit->path));
    exec_kit_expect(x, six, 6);
    berth_release_all(x, y);
    x = berth_npy_read(kit->ctx, kit->path);
    exec_kit_expect(x, (float[]){-0.0f, -1, -2, -3, -4, -5}, 6);
    // onto itself, too
    assert_ok(berth_npy_write(x, kit->path));
    exec_kit_expect(x, (float[]){-0.0f, -1, -2, -3, -4, -5}, 6);
    berth_release(x);
}

static void types_that_numpy_lacks_are_not_written(void** state) {
    file_kit* kit = *state;
    const char* path = file_kit_path(kit, "bf16.npy");
    berth_tensor* x = berth_ones(kit->ctx, BERTH_BF16, 1, (int64_t[]){3});
    assert_fails(berth_npy_write(x, path), BERTH_ERR_UNSUPPORTED, "bf16: write berth_cast()");
    berth_release(x);
    assert_fails(berth_npy_write(NULL, path), BERTH_ERR_INVALID_ARGUMENT, "the tensor is NULL");
    x = exec_kit_ramp(kit->ctx, 0, 3);
    assert_fails(berth_npy_write(x, NULL), BERTH_ERR_INVALID_ARGUMENT, "the path is NULL");
    berth_release(x);
    assert_int_equal(file_kit_count(kit), 0);
}

static void places_that_take_no_file_are_refused(void** state) {
    file_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 3);
    assert_fails(berth_npy_write(x, file_kit_path(kit, "no/where.npy")),
                 BERTH_ERR_NOT_FOUND,
                 "no/where.npy' cannot be written: No such");
    assert_fails(berth_npy_write(x, kit->folder), BERTH_ERR_IO, "it is not a regular file");
    assert_fails(berth_npy_write(x, "/dev/full"), BERTH_ERR_IO, "it is not a regular file");
    assert_int_equal(file_kit_count(kit), 0);
    berth_release(x);
}

static void a_full_disk_leaves_what_was_there(void** state) {
    file_kit* kit = *state;
    unsigned char before[4096], after[4096];
    put_six(kit, "six.npy");
    const size_t size = file_kit_get(kit->path, before, sizeof before);
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 70000); // two chunks
    const rlim_t limits[] = {0, 64, 128, 200000, 280127};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; ++i) {
        file_kit_limit_size(limits[i]);
        const berth_status status = berth_npy_write(x, kit->path);
        file_kit_limit_size(RLIM_INFINITY);
        assert_fails(status, BERTH_ERR_IO, "six.npy' cannot be written: File too large");
        assert_int_equal(file_kit_get(kit->path, after, sizeof after), size);
        assert_memory_equal(before, after, size);
        assert_int_equal(file_kit_count(kit), 1);
    }
    assert_ok(berth_npy_write(x, kit->path));
    berth_release(x);
}

static void a_device_that_does_not_copy_leaves_no_file(void** state) {
    file_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 3);
    assert_ok(berth_context_synchronize(kit->ctx));
    berth_sim_fail(berth_context_runtime(kit->ctx)->device, BERTH_SIM_COPY, 1);
    assert_int_equal(berth_npy_write(x, file_kit_path(kit, "x.npy")), BERTH_ERR_DEVICE);
    assert_int_equal(file_kit_count(kit), 0);
    const npy_file file = make_file(1, six_header, 65, six, sizeof six);
    file_kit_put(kit, "u.npy", file.bytes, file.size);
    berth_sim_fail(berth_context_runtime(kit->ctx)->device, BERTH_SIM_COPY, 1);
    assert_null(berth_npy_read(kit->ctx, kit->path));
    assert_context_fails(kit->ctx, BERTH_ERR_DEVICE, "npy_read");
    berth_release(x);
}

static void memory_that_the_host_cannot_see_is_copied_to_and_from(void** state) {
    file_kit* kit = *state;
    berth_device* device = berth_context_runtime(kit->ctx)->device;
    const berth_device_ops* ops = device->ops;
    berth_device_ops remote = *ops;
    remote.caps &= ~(uint32_t)BERTH_DEVICE_CAP_HOST_ACCESS;
    device->ops = &remote;
    berth_tensor* x = berth_npy_read(kit->ctx, put_six(kit, "six.npy"));
    exec_kit_expect(x, six, 6);
    berth_tensor_properties p;
    assert_ok(berth_tensor_info(x, &p));
    assert_int_equal(p.residence, BERTH_RESIDENCE_POOL);
    char text[64];
    assert_ok(berth_tensor_format(x, NULL, text, sizeof text, NULL));
    assert_string_equal(text, "[[0. 1. 2.]\n [3. 4. 5.]]");
    assert_ok(berth_npy_write(x, file_kit_path(kit, "copy.npy")));
    berth_tensor* turned = berth_transpose(kit->ctx, x, 0, 1);
    assert_ok(berth_npy_write(turned, file_kit_path(kit, "turned.npy")));
    assert_ok(berth_tensor_format(turned, NULL, text, sizeof text, NULL));
    assert_string_equal(text, "[[0. 3.]\n [1. 4.]\n [2. 5.]]");
    device->ops = ops;
    assert_int_equal(file_kit_count(kit), 3);
    berth_release_all(x, turned);
}

static void no_free_descriptor_is_an_error(void** state) {
    file_kit* kit = *state;
    put_six(kit, "six.npy");
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 3);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    berth_tensor* y = berth_npy_read(kit->ctx, kit->path);
    const berth_status status = berth_npy_write(x, kit->path);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_fails(status, BERTH_ERR_IO, "Too many open files");
    assert_null(y);
    assert_context_fails(kit->ctx, BERTH_ERR_IO, "cannot be opened: Too many open files");
    berth_release(x);
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    file_kit kit = {0};
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "1"}};
    assert_true(file_kit_open_folder(&kit));
    size_t failures = 0;
    bool is_done = false;
    for (size_t n = 1; !is_done; ++n) {
        // a fresh context each time: its caches of objects are filled at the first tensor
        assert_ok(exec_kit_open(&kit.exec, &host.allocator, settings, 2));
        put_six(&kit, "six.npy");
        failing_host_fail(&host, n, false);
        berth_tensor* x = berth_npy_read(kit.exec.ctx, kit.path);
        assert_true((x == NULL) == (berth_context_error(kit.exec.ctx) != BERTH_OK));
        berth_status status = BERTH_OK;
        if (x != NULL) status = berth_npy_write(x, file_kit_path(&kit, "copy.npy"));
        is_done = !failing_host_has_failed(&host);
        if (x == NULL) assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "npy_read");
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        failures += x == NULL || status != BERTH_OK;
        assert_int_equal(file_kit_count(&kit), is_done ? 2 : 1);
        failing_host_fail(&host, 0, false);
        berth_release(x);
        exec_kit_close(&kit.exec);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
    }
    assert_true(failures >= 4);
    file_kit_close_folder(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FILE_KIT_ON_BOTH(an_array_is_read_where_it_lies),
        FILE_KIT_ON_BOTH(every_version_is_read),
        FILE_KIT_ON_BOTH(fortran_order_becomes_a_transposed_view),
        FILE_KIT_ON_BOTH(elements_that_are_not_aligned_are_copied),
        FILE_KIT_ON_BOTH(types_of_both_libraries_are_read),
        FILE_KIT_ON_BOTH(other_types_are_refused_by_name),
        FILE_KIT_ON_BOTH(shapes_are_read_as_python_writes_them),
        FILE_KIT_ON_BOTH(absurd_sizes_are_refused),
        FILE_KIT_ON_BOTH(headers_that_are_not_right_are_refused),
        FILE_KIT_ON_BOTH(a_file_cut_anywhere_is_refused),
        FILE_KIT_ON_BOTH(paths_that_lead_to_no_file_are_refused),
        FILE_KIT_ON_BOTH(a_context_with_an_error_reads_nothing),
        FILE_KIT_ON_BOTH(the_written_file_is_numpys_to_the_byte),
        FILE_KIT_ON_BOTH(every_plain_type_comes_back),
        FILE_KIT_ON_BOTH(every_rank_and_no_element_come_back),
        FILE_KIT_ON_BOTH(strided_and_large_tensors_are_written_row_major),
        FILE_KIT_ON_BOTH(a_file_may_be_replaced_while_it_is_read),
        FILE_KIT_ON_BOTH(types_that_numpy_lacks_are_not_written),
        FILE_KIT_ON_BOTH(places_that_take_no_file_are_refused),
        FILE_KIT_ON_BOTH(a_full_disk_leaves_what_was_there),
        cmocka_unit_test_setup_teardown(
            a_device_that_does_not_copy_leaves_no_file, file_kit_set_up_sim, file_kit_tear_down),
        FILE_KIT_ON_BOTH(memory_that_the_host_cannot_see_is_copied_to_and_from),
        FILE_KIT_ON_BOTH(no_free_descriptor_is_an_error),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
