// SPDX-License-Identifier: Apache-2.0
// What every back end promises (device.h), run once for each: D1 populated from map to unmap, D2
// all or nothing, D3 work in order. One without BERTH_DEVICE_CAP_DATA is held to its books alone:
// which ranges are mapped, which tickets are done, what the errors are.
//
// With the argument "cuda" it runs for the GPU that BERTH_CUDA_MODULE and BERTH_CUDA_DRIVER name,
// or that is found without them; it ends with 77 where there is none.
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/cuda_kit.h"
#include "device/cpu/cpu_device.h"
#include "device/dry/dry_device.h"
#include "device/sim/sim_device.h"
#include "failing_host.h"
#include "random.h"

typedef struct back_end {
    const char* name;
    berth_status (*create)(const berth_host* host, berth_device** out_device);
    bool is_standin; ///< the stand-in for CUDA's driver, with `seed`
    uint64_t seed;
    /// Nobody says what happens where memory that is not mapped is touched.
    bool is_careless;
} back_end;

typedef struct fixture {
    const back_end* of;
    failing_host allocator;
    berth_host* host;
    berth_device* device;
    uint64_t granule;
    berth_stream* window; ///< to see memory that the host cannot; else NULL
} fixture;

static berth_status create_cpu(const berth_host* host, berth_device** out_device) {
    return berth_cpu_device_create(
        host, &(berth_cpu_options){.threads = 2, .huge = BERTH_HUGE_MADVISE}, out_device);
}

static berth_status create_cpu_small_pages(const berth_host* host, berth_device** out_device) {
    return berth_cpu_device_create(
        host, &(berth_cpu_options){.threads = 1, .huge = BERTH_HUGE_OFF}, out_device);
}

static berth_status create_sim(const berth_host* host, berth_device** out_device) {
    return berth_sim_device_create(host, &(berth_sim_options){.seed = 0}, out_device);
}

static berth_status create_sim_restless(const berth_host* host, berth_device** out_device) {
    return berth_sim_device_create(host, &(berth_sim_options){.seed = 7}, out_device);
}

static berth_status create_sim_without_remap(const berth_host* host, berth_device** out_device) {
    return berth_sim_device_create(
        host, &(berth_sim_options){.granule_bytes = 4096, .no_remap = true}, out_device);
}

static berth_status create_dry(const berth_host* host, berth_device** out_device) {
    return berth_dry_device_create(
        host, &(berth_dry_options){.capacity_bytes = 64ull << 30, .threads = 2}, out_device);
}

static berth_status create_gpu(const berth_host* host, berth_device** out_device) {
    const char* driver = getenv("BERTH_CUDA_DRIVER");
    const berth_cuda_options options = {.driver = driver != NULL ? driver : "libcuda.so.1"};
    return berth_cuda_open(host, getenv("BERTH_CUDA_MODULE"), &options, out_device);
}

static const back_end back_ends[] = {
    {.name = "cpu", .create = create_cpu},
    {.name = "cpu with small pages", .create = create_cpu_small_pages},
    {.name = "sim", .create = create_sim},
    {.name = "sim that runs on by itself", .create = create_sim_restless},
    {.name = "sim without remap", .create = create_sim_without_remap},
    {.name = "dry", .create = create_dry},
    {.name = "cuda on the stand-in", .create = cuda_kit_create, .is_standin = true},
    {.name = "cuda on the stand-in that runs on by itself",
     .create = cuda_kit_create,
     .is_standin = true,
     .seed = 7},
};

static const back_end gpu = {.name = "cuda", .create = create_gpu, .is_careless = true};

static const back_end* current;

static int set_up(void** state) {
    fixture* f = calloc(1, sizeof *f);
    if (f == NULL) return 1;
    f->of = current;
    if (current->is_standin) cuda_kit_reset(current->seed);
    failing_host_init(&f->allocator);
    if (berth_host_create(&f->allocator.allocator, &f->host) != BERTH_OK) return 1;
    if (current->create(f->host, &f->device) != BERTH_OK) return 1;
    f->granule = f->device->granule_bytes;
    if (berth_device_has_data(f->device) && !berth_device_has_host_access(f->device) &&
        berth_stream_create(f->device, &f->window) != BERTH_OK)
        return 1;
    *state = f;
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    berth_stream_destroy(f->window);
    berth_device_destroy(f->device);
    berth_host_destroy(f->host);
    if (f->of->is_standin) cuda_kit_assert_clean();
    const bool clean = f->allocator.live_blocks == 0 && !f->allocator.mismatch;
    free(f);
    return clean ? 0 : 1;
}

static bool can_remap(const fixture* f) {
    return (f->device->ops->caps & BERTH_DEVICE_CAP_REMAP) != 0;
}

static bool has_data(const fixture* f) { return berth_device_has_data(f->device); }

/// Asks the kernel, which does not crash, whether a byte can be read.
static bool is_readable(const unsigned char* address) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const ssize_t written = write(ends[1], address, 1);
    const int error = errno;
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_true(written == 1 || error == EFAULT);
    return written == 1;
}

/// Reads mapped memory of a device with data.
static void fetch(const fixture* f, void* target, const unsigned char* at, uint64_t size) {
    if (f->window == NULL) {
        memcpy(target, at, size);
        return;
    }
    assert_ok(berth_stream_copy(f->window, target, at, size, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(f->window));
}

/// Writes to mapped memory, where there is some.
static void fill(const fixture* f, unsigned char* at, int byte, uint64_t size) {
    if (!has_data(f)) return;
    if (f->window == NULL) {
        memset(at, byte, size);
        return;
    }
    unsigned char* bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, byte, size);
    assert_ok(berth_stream_copy(f->window, at, bytes, size, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_synchronize(f->window));
    free(bytes);
}

static void assert_holds(const fixture* f, const unsigned char* at, int byte) {
    if (!has_data(f)) return;
    unsigned char found;
    fetch(f, &found, at, 1);
    assert_int_equal(found, byte);
}

/// Whether the device lets a byte be read, by the host or by a copy.
static bool gives(const fixture* f, const unsigned char* at) {
    unsigned char byte;
    if (f->window == NULL) return is_readable(at);
    assert_false(is_readable(at)); // not by the host
    return berth_stream_copy(f->window, &byte, at, 1, BERTH_COPY_DEVICE_TO_HOST) == BERTH_OK &&
           berth_stream_synchronize(f->window) == BERTH_OK;
}

static void assert_mapped(const fixture* f, const unsigned char* at) {
    assert_int_equal(gives(f, at), has_data(f));
}

static void assert_unmapped(const fixture* f, const unsigned char* at) {
    if (!f->of->is_careless) assert_false(gives(f, at));
}

// --- Memory -------------------------------------------------------------------------------------

static void the_back_end_has_every_required_entry(void** state) {
    fixture* f = *state;
    assert_true(berth_device_ops_are_valid(f->device->ops));
    berth_device_ops holed = *f->device->ops;
    holed.map = NULL;
    assert_false(berth_device_ops_are_valid(&holed));
    holed = *f->device->ops;
    holed.abi_version++;
    assert_false(berth_device_ops_are_valid(&holed));
}

static void a_kernel_exists_for_every_op(void** state) {
    fixture* f = *state;
    for (int op = 0; op < BERTH_OP_COUNT; op++)
        assert_non_null(f->device->kernels[op]);
}

static void a_space_begins_at_a_granule_and_holds_whole_ones(void** state) {
    fixture* f = *state;
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, 3 * f->granule - 5, &space));
    assert_int_equal((uintptr_t)space->base % f->granule, 0);
    assert_int_equal(space->size_bytes, 3 * f->granule);
    assert_ptr_equal(space->device, f->device);
    assert_unmapped(f, space->base);
    berth_space_release(space);
}

static void an_impossible_reservation_is_refused(void** state) {
    fixture* f = *state;
    berth_space* space;
    assert_fails(berth_space_reserve(f->device, 0, &space), BERTH_ERR_INVALID_ARGUMENT, "0 bytes");
    assert_fails(berth_space_reserve(f->device, UINT64_MAX, &space),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "not possible");
    // Addresses for this do not exist, nor does the memory for its books.
    failing_host_fail(&f->allocator, 1, false);
    assert_int_equal(berth_space_reserve(f->device, f->granule, &space), BERTH_ERR_OUT_OF_MEMORY);
    assert_null(space);
    failing_host_fail(&f->allocator, 0, false);
    assert_ok(berth_space_reserve(f->device, f->granule, &space));
    berth_space_release(space);
}

static void memory_is_there_from_map_to_unmap(void** state) {
    fixture* f = *state;
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, 4 * f->granule, &space));
    assert_ok(berth_space_map(space, f->granule, 2 * f->granule));
    unsigned char* first = space->base + f->granule;
    fill(f, first, 0x5C, 2 * f->granule);
    assert_unmapped(f, space->base);
    assert_mapped(f, first);
    assert_mapped(f, first + 2 * f->granule - 1);
    assert_unmapped(f, first + 2 * f->granule);
    assert_ok(berth_space_unmap(space, f->granule, f->granule));
    assert_unmapped(f, first);
    assert_holds(f, first + f->granule, 0x5C);
    assert_ok(berth_space_unmap(space, 2 * f->granule, f->granule));
    assert_unmapped(f, first + f->granule);
    berth_space_release(space);
}

static void empty_ranges_are_nothing_to_do(void** state) {
    fixture* f = *state;
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, f->granule, &space));
    assert_ok(berth_space_map(space, 0, 0));
    assert_ok(berth_space_map(space, f->granule, 0));
    assert_ok(berth_space_unmap(space, 0, 0));
    assert_unmapped(f, space->base);
    berth_space_release(space);
    berth_space_release(NULL);
}

static void a_map_that_fails_leaves_the_range_as_it_was(void** state) {
    fixture* f = *state;
    uint64_t total, available;
    assert_ok(berth_device_query_memory(f->device, &total, &available));
    berth_space* space;
    // A device may keep a little for itself, and yet give it.
    assert_ok(berth_space_reserve(f->device, total + total / 32 + 2 * f->granule, &space));
    if (!f->of->is_careless) { // a real device takes its time to map everything that it has
        assert_int_equal(berth_space_map(space, 0, space->size_bytes), BERTH_ERR_OUT_OF_MEMORY);
        assert_unmapped(f, space->base);
        assert_unmapped(f, space->base + space->size_bytes - 1);
    }

    assert_ok(berth_space_map(space, 0, f->granule));
    fill(f, space->base, 0x11, 1);
    assert_int_equal(berth_space_map(space, f->granule, space->size_bytes - f->granule),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_holds(f, space->base, 0x11);
    assert_unmapped(f, space->base + f->granule);
    assert_ok(berth_space_map(space, f->granule, f->granule));
    assert_ok(berth_space_unmap(space, 0, 2 * f->granule));
    berth_space_release(space);
}

static void mapped_memory_is_less_left(void** state) {
    fixture* f = *state;
    uint64_t total, before, after;
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, f->granule, &space));
    assert_ok(berth_device_query_memory(f->device, &total, &before));
    assert_ok(berth_space_map(space, 0, f->granule));
    assert_ok(berth_device_query_memory(f->device, &total, &after));
    // of the CPU device's others use some, or give it back
    if (f->device->kind != BERTH_DEVICE_CPU) assert_int_equal(before - after, f->granule);
    assert_ok(berth_space_unmap(space, 0, f->granule));
    berth_space_release(space);
}

static void the_memory_left_is_at_most_all_of_it(void** state) {
    fixture* f = *state;
    uint64_t total, available;
    assert_ok(berth_device_query_memory(f->device, &total, &available));
    assert_true(total > 0);
    assert_in_range(available, 1, total);
}

static void a_remap_moves_content_and_closes_the_source(void** state) {
    fixture* f = *state;
    berth_space *a, *b;
    assert_ok(berth_space_reserve(f->device, 4 * f->granule, &a));
    assert_ok(berth_space_reserve(f->device, 4 * f->granule, &b));
    assert_ok(berth_space_map(a, 0, 3 * f->granule));
    for (unsigned i = 0; i < 3; i++)
        fill(f, a->base + i * f->granule, (int)i + 1, f->granule);
    if (!can_remap(f)) {
        assert_fails(berth_space_remap(a, f->granule, b, 0, 2 * f->granule),
                     BERTH_ERR_UNSUPPORTED,
                     "cannot remap");
        assert_ok(berth_space_unmap(a, 0, 3 * f->granule));
    } else {
        assert_ok(berth_space_remap(a, f->granule, b, 0, 2 * f->granule));
        assert_holds(f, a->base + f->granule - 1, 1);
        assert_unmapped(f, a->base + f->granule);
        assert_unmapped(f, a->base + 2 * f->granule);
        assert_holds(f, b->base, 2);
        assert_holds(f, b->base + 2 * f->granule - 1, 3);
        assert_unmapped(f, b->base + 2 * f->granule);

        // The source is free for other memory, the target for moving on within one space.
        assert_ok(berth_space_map(a, f->granule, f->granule));
        fill(f, a->base + f->granule, 9, 1);
        assert_ok(berth_space_remap(b, f->granule, b, 3 * f->granule, f->granule));
        assert_holds(f, b->base + 3 * f->granule, 3);
        assert_ok(berth_space_unmap(a, 0, 2 * f->granule));
        assert_ok(berth_space_unmap(b, 0, f->granule));
        assert_ok(berth_space_unmap(b, 3 * f->granule, f->granule));
    }
    berth_space_release(a);
    berth_space_release(b);
}

#define CHURN_GRANULES 12

/// Maps, unmaps or moves one random granule; `model` holds the byte that each one is filled with.
static void churn_once(fixture* f, test_random* random, berth_space** spaces, uint8_t* model) {
    const uint64_t at = test_random_below(random, 2 * CHURN_GRANULES);
    const uint64_t to = test_random_below(random, 2 * CHURN_GRANULES);
    berth_space* space = spaces[at / CHURN_GRANULES];
    const uint64_t offset = at % CHURN_GRANULES * f->granule;
    if (model[at] == 0) {
        assert_ok(berth_space_map(space, offset, f->granule));
        model[at] = (uint8_t)(1 + test_random_below(random, 255));
        fill(f, space->base + offset, model[at], f->granule);
    } else if (model[to] == 0 && can_remap(f)) {
        assert_ok(berth_space_remap(space,
                                    offset,
                                    spaces[to / CHURN_GRANULES],
                                    to % CHURN_GRANULES * f->granule,
                                    f->granule));
        model[to] = model[at];
        model[at] = 0;
    } else {
        assert_ok(berth_space_unmap(space, offset, f->granule));
        model[at] = 0;
    }
}

static void content_stays_while_other_granules_come_go_and_move(void** state) {
    fixture* f = *state;
    test_random random = test_random_make(11);
    berth_space* spaces[2];
    uint8_t model[2 * CHURN_GRANULES] = {0};
    for (int i = 0; i < 2; i++)
        assert_ok(berth_space_reserve(f->device, CHURN_GRANULES * f->granule, &spaces[i]));
    for (int round = 0; round < 300; round++) {
        churn_once(f, &random, spaces, model);
        for (uint64_t i = 0; i < 2 * CHURN_GRANULES; i++) {
            const unsigned char* base =
                spaces[i / CHURN_GRANULES]->base + i % CHURN_GRANULES * f->granule;
            if (model[i] == 0) continue;
            assert_holds(f, base, model[i]);
            assert_holds(f, base + f->granule - 1, model[i]);
        }
    }
    for (uint64_t i = 0; i < 2 * CHURN_GRANULES; i++) {
        berth_space* space = spaces[i / CHURN_GRANULES];
        const uint64_t offset = i % CHURN_GRANULES * f->granule;
        if (model[i] != 0) assert_ok(berth_space_unmap(space, offset, f->granule));
        assert_unmapped(f, space->base + offset);
    }
    for (int i = 0; i < 2; i++)
        berth_space_release(spaces[i]);
}

// --- Streams ------------------------------------------------------------------------------------

// A log is up to 63 bytes behind a byte that counts them.
enum { LOG_BYTES = 64, NUMBERS_AT = 8192 };

/// Appends params[0] to outputs[0].
static void append_kernel(const berth_op_call* call) {
    unsigned char* log = call->outputs[0].data;
    const unsigned char* value = call->params;
    log[++log[0]] = *value;
}

/// The same on a device that the host cannot write kernels for: the log moves up by one, and the
/// number, which lies NUMBERS_AT behind the log's beginning, is copied in front of it. So the
/// newest comes first.
static berth_status put_in_front(berth_stream* stream, unsigned char* log, unsigned char value) {
    const berth_copy_kind kind = BERTH_COPY_DEVICE_TO_DEVICE;
    BERTH_TRY(berth_stream_copy(stream, log + 2, log + 1, LOG_BYTES - 2, kind));
    BERTH_TRY(berth_stream_copy(stream, log + 1, log + NUMBERS_AT + value, 1, kind));
    berth_op_call call = {.input_count = 2, .output_count = 1};
    call.inputs[0] = call.outputs[0] = (berth_view){.data = log, .dtype = BERTH_U8};
    call.inputs[1] = (berth_view){.data = log + NUMBERS_AT + 1, .dtype = BERTH_U8};
    const berth_status status =
        berth_stream_launch(stream, stream->device->kernels[BERTH_OP_ADD], &call, 0);
    memset(&call, 0xFF, sizeof call);
    return status;
}

static berth_status try_append(berth_stream* stream, unsigned char* log, unsigned char value) {
    const berth_device* device = stream->device;
    if (berth_device_has_data(device) && !berth_device_has_host_access(device))
        return put_in_front(stream, log, value);
    berth_op_call call = {.output_count = 1};
    call.outputs[0] = (berth_view){.data = log, .dtype = BERTH_U8};
    unsigned char params[4] = {value, 0, 0, 0};
    call.params = params;
    const berth_status status = berth_stream_launch(stream, append_kernel, &call, sizeof params);
    // Both were copied, or used already.
    memset(params, 0xFF, sizeof params);
    memset(&call, 0xFF, sizeof call);
    return status;
}

static void launch_append(berth_stream* stream, unsigned char* log, unsigned char value) {
    assert_ok(try_append(stream, log, value));
}

/// Writes the log at `at`, the oldest first, to `out`; zeros where memory has no data.
static void read_log(const fixture* f, const unsigned char* at, unsigned char out[LOG_BYTES]) {
    unsigned char found[LOG_BYTES] = {0};
    if (has_data(f)) fetch(f, found, at, LOG_BYTES);
    memcpy(out, found, LOG_BYTES);
    if (f->window == NULL) return;
    assert_true(found[0] < LOG_BYTES);
    for (unsigned i = 1; i <= found[0]; i++)
        out[i] = found[found[0] + 1 - i];
}

static berth_space* map_one_granule(fixture* f) {
    berth_space* space;
    assert_ok(berth_space_reserve(f->device, f->granule, &space));
    assert_ok(berth_space_map(space, 0, f->granule));
    fill(f, space->base, 0, f->granule);
    if (f->window == NULL) return space;
    unsigned char numbers[256];
    for (int i = 0; i < 256; i++)
        numbers[i] = (unsigned char)i;
    assert_ok(berth_stream_copy(
        f->window, space->base + NUMBERS_AT, numbers, sizeof numbers, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_synchronize(f->window));
    return space;
}

static void release_one_granule(berth_space* space) {
    assert_ok(berth_space_unmap(space, 0, space->size_bytes));
    berth_space_release(space);
}

static void work_of_a_stream_happens_in_order(void** state) {
    fixture* f = *state;
    berth_space* space = map_one_granule(f);
    berth_stream* stream;
    assert_ok(berth_stream_create(f->device, &stream));
    unsigned char* log = space->base;
    unsigned char* copy = space->base + 1024;
    for (unsigned char i = 1; i <= 40; i++) {
        launch_append(stream, log, i);
        if (i == 20)
            assert_ok(berth_stream_copy(stream, copy, log, 64, BERTH_COPY_DEVICE_TO_DEVICE));
    }
    assert_ok(berth_stream_synchronize(stream));
    unsigned char whole[LOG_BYTES], half[LOG_BYTES];
    read_log(f, log, whole);
    read_log(f, copy, half);
    for (unsigned char i = 1; i <= 40 && has_data(f); i++) {
        assert_int_equal(whole[0], 40);
        assert_int_equal(half[0], 20);
        assert_int_equal(whole[i], i);
        assert_int_equal(half[i], i <= 20 ? i : 0);
    }
    berth_stream_destroy(stream);
    release_one_granule(space);
}

static void copies_go_to_the_device_and_back(void** state) {
    fixture* f = *state;
    berth_space* space = map_one_granule(f);
    berth_stream* stream;
    assert_ok(berth_stream_create(f->device, &stream));
    const unsigned char zeros[300] = {0};
    unsigned char sent[300], got[300];
    memset(got, 0xEE, sizeof got);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i * 7);
    unsigned char* second = space->base + 2048;
    assert_ok(berth_stream_copy(stream, space->base, sent, 300, BERTH_COPY_HOST_TO_DEVICE));
    assert_ok(berth_stream_copy(stream, second, space->base, 300, BERTH_COPY_DEVICE_TO_DEVICE));
    assert_ok(berth_stream_copy(stream, got, second, 300, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_copy(stream, NULL, NULL, 0, BERTH_COPY_DEVICE_TO_HOST));
    assert_ok(berth_stream_synchronize(stream));
    assert_memory_equal(got, has_data(f) ? sent : zeros, sizeof sent);
    berth_stream_destroy(stream);
    release_one_granule(space);
}

static void tickets_count_up_from_one_and_are_done_in_order(void** state) {
    fixture* f = *state;
    berth_space* space = map_one_granule(f);
    berth_stream* stream;
    assert_ok(berth_stream_create(f->device, &stream));
    uint64_t tickets[5];
    for (unsigned char i = 0; i < 5; i++) {
        launch_append(stream, space->base, i);
        assert_ok(berth_stream_record(stream, &tickets[i]));
        assert_int_equal(tickets[i], i + 1);
    }
    assert_ok(berth_stream_wait(stream, tickets[2]));
    unsigned char log[LOG_BYTES];
    read_log(f, space->base, log);
    if (has_data(f)) assert_true(log[0] >= 3);
    for (int i = 0; i <= 2; i++)
        assert_true(berth_stream_query(stream, tickets[i]));
    assert_ok(berth_stream_wait(stream, tickets[4]));
    assert_holds(f, space->base, 5);
    assert_ok(berth_stream_wait(stream, tickets[0])); // long done
    berth_stream_destroy(stream);
    release_one_granule(space);
}

static void a_stream_can_wait_for_another(void** state) {
    fixture* f = *state;
    berth_space* space = map_one_granule(f);
    berth_stream *a, *b;
    assert_ok(berth_stream_create(f->device, &a));
    assert_ok(berth_stream_create(f->device, &b));
    uint64_t ticket;
    for (unsigned char round = 0; round < 10; round++) { // a and b write in turns
        launch_append(a, space->base, 'a');
        assert_ok(berth_stream_record(a, &ticket));
        assert_ok(berth_stream_wait_stream(b, a, ticket));
        launch_append(b, space->base, 'b');
        assert_ok(berth_stream_record(b, &ticket));
        assert_ok(berth_stream_wait_stream(a, b, ticket));
    }
    assert_ok(berth_stream_synchronize(b));
    unsigned char log[LOG_BYTES];
    read_log(f, space->base, log);
    for (int i = 0; i < 20 && has_data(f); i++) {
        assert_int_equal(log[0], 20);
        assert_int_equal(log[1 + i], i % 2 == 0 ? 'a' : 'b');
    }
    berth_stream_destroy(a);
    berth_stream_destroy(b);
    release_one_granule(space);
}

static void destroying_a_stream_finishes_its_work(void** state) {
    fixture* f = *state;
    berth_space* space = map_one_granule(f);
    berth_stream *a, *b;
    assert_ok(berth_stream_create(f->device, &a));
    assert_ok(berth_stream_create(f->device, &b));
    launch_append(a, space->base, 1);
    uint64_t ticket;
    assert_ok(berth_stream_record(a, &ticket));
    assert_ok(berth_stream_wait_stream(b, a, ticket));
    launch_append(b, space->base, 2);
    berth_stream_destroy(a); // b still has its wait
    unsigned char log[LOG_BYTES];
    read_log(f, space->base, log);
    if (has_data(f)) assert_true(log[0] >= 1);
    if (f->window == NULL) assert_holds(f, space->base + 1, 1); // else b may be moving it
    berth_stream_destroy(b);
    read_log(f, space->base, log);
    for (int i = 0; i <= 2 && has_data(f); i++)
        assert_int_equal(log[i], i == 0 ? 2 : i);
    berth_stream_destroy(NULL);
    release_one_granule(space);
}

// --- Failures -----------------------------------------------------------------------------------

/// A small life of a device; stops at the first failure, leaving nothing behind.
static berth_status live_once(const back_end* of, const berth_host* host) {
    berth_device* device;
    berth_status status = of->create(host, &device);
    if (status != BERTH_OK) return status;
    berth_space* space = NULL;
    berth_stream* stream = NULL;
    bool mapped = false;
    uint64_t ticket;
    status = berth_space_reserve(device, 2 * device->granule_bytes, &space);
    if (status == BERTH_OK) status = berth_stream_create(device, &stream);
    if (status == BERTH_OK) status = berth_space_map(space, 0, device->granule_bytes);
    if (status == BERTH_OK) {
        mapped = true;
        static const unsigned char zeros[NUMBERS_AT + 2];
        const uint64_t granule = device->granule_bytes;
        status = berth_stream_copy(stream,
                                   space->base,
                                   zeros,
                                   granule < sizeof zeros ? granule : sizeof zeros,
                                   BERTH_COPY_HOST_TO_DEVICE);
        for (int i = 0; i < 20 && status == BERTH_OK; i++)
            status = try_append(stream, space->base, 1);
        if (status == BERTH_OK) status = berth_stream_record(stream, &ticket);
    }
    berth_stream_destroy(stream);
    if (mapped) {
        const berth_status unmapped = berth_space_unmap(space, 0, device->granule_bytes);
        if (status == BERTH_OK) status = unmapped;
    }
    berth_space_release(space);
    berth_device_destroy(device);
    return status;
}

static void a_host_allocation_that_fails_anywhere_loses_nothing(void** state) {
    fixture* f = *state;
    const size_t before = f->allocator.live_blocks;
    size_t failures = 0;
    for (size_t nth = 1;; nth++) {
        failing_host_fail(&f->allocator, nth, false);
        const berth_status status = live_once(f->of, f->host);
        assert_int_equal(f->allocator.live_blocks, before);
        if (!failing_host_has_failed(&f->allocator)) {
            assert_int_equal(status, BERTH_OK);
            break;
        }
        // a ticket may be issued without memory, by waiting
        if (status == BERTH_OK) continue;
        assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        failures++;
    }
    assert_true(failures >= 3);
    failing_host_fail(&f->allocator, 0, false);
}

static void pinned_memory_can_be_used_and_given_back(void** state) {
    fixture* f = *state;
    assert_true((f->device->ops->caps & BERTH_DEVICE_CAP_PIN) != 0);
    const uint64_t size = 3 * (uint64_t)sysconf(_SC_PAGESIZE);
    void *first, *second;
    assert_ok(berth_device_pin(f->device, size, &first));
    assert_ok(berth_device_pin(f->device, size, &second));
    memset(first, 1, size);
    memset(second, 2, size);
    assert_int_equal(((unsigned char*)first)[size - 1], 1);
    berth_device_unpin(f->device, first, size);
    if (!f->of->is_careless) assert_false(is_readable(first));
    assert_int_equal(((unsigned char*)second)[0], 2);
    berth_device_unpin(f->device, second, size);
    assert_int_equal(berth_device_pin(f->device, UINT64_C(1) << 62, &first),
                     BERTH_ERR_OUT_OF_MEMORY);
    assert_null(first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static bool has_gpu(void) {
    berth_host* host;
    berth_device* device = NULL;
    if (berth_host_create(NULL, &host) != BERTH_OK) return false;
    const bool found = create_gpu(host, &device) == BERTH_OK;
    if (!found) print_message("skipped: %s\n", berth_last_error());
    berth_device_destroy(device);
    berth_host_destroy(host);
    return found;
}

int main(int count, char** arguments) {
    const struct CMUnitTest tests[] = {
        TEST(the_back_end_has_every_required_entry),
        TEST(a_kernel_exists_for_every_op),
        TEST(a_space_begins_at_a_granule_and_holds_whole_ones),
        TEST(an_impossible_reservation_is_refused),
        TEST(memory_is_there_from_map_to_unmap),
        TEST(empty_ranges_are_nothing_to_do),
        TEST(a_map_that_fails_leaves_the_range_as_it_was),
        TEST(mapped_memory_is_less_left),
        TEST(the_memory_left_is_at_most_all_of_it),
        TEST(a_remap_moves_content_and_closes_the_source),
        TEST(content_stays_while_other_granules_come_go_and_move),
        TEST(work_of_a_stream_happens_in_order),
        TEST(copies_go_to_the_device_and_back),
        TEST(tickets_count_up_from_one_and_are_done_in_order),
        TEST(a_stream_can_wait_for_another),
        TEST(destroying_a_stream_finishes_its_work),
        TEST(pinned_memory_can_be_used_and_given_back),
        TEST(a_host_allocation_that_fails_anywhere_loses_nothing),
    };
    int failed = 0;
    if (count > 1 && strcmp(arguments[1], "cuda") == 0) {
        if (!has_gpu()) return 77;
        current = &gpu;
        return cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 1;
    }
    for (size_t i = 0; i < sizeof back_ends / sizeof back_ends[0]; i++) {
        current = &back_ends[i];
        print_message("back end: %s\n", current->name);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed == 0 ? 0 : 1;
}
