// SPDX-License-Identifier: Apache-2.0
// The runtime's device gets a launch of ours, which knows ops by kernels of ours. A call's operands
// are copied to the GPU as they lie, with the spaces between their elements.
#include "gpu/gpu_shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "device/cpu/cpu_device.h"
#include "device/device.h"
#include "device/kernel_kit.h"
#include "exec/exec_impl.h"
#include "gpu/gpu_tolerance.h"

#define MOST_BYTES (UINT64_C(2) << 30) // of one call's operands, results and workspace

static const char* const op_names[BERTH_OP_COUNT] = {
#define OP_NAME(id, name) [BERTH_OP_##id] = name,
    BERTH_OP_MAP(OP_NAME)
#undef OP_NAME
};

const char* gpu_shadow_op_name(berth_op_id op) { return op_names[op]; }

// --- Kernels that say which op is called ---------------------------------------------------------

#define MARK(id, name)                                                                             \
    static void mark_##id(const berth_op_call* call) { (void)call; }
BERTH_OP_MAP(MARK)
#undef MARK

static const berth_kernel marks[BERTH_OP_COUNT] = {
#define MARK_ROW(id, name) [BERTH_OP_##id] = mark_##id,
    BERTH_OP_MAP(MARK_ROW)
#undef MARK_ROW
};

/// The op that `kernel` is the mark of; BERTH_OP_COUNT if it is a kernel that computes.
static berth_op_id op_of(berth_kernel kernel) {
    for (int op = 0; op < BERTH_OP_COUNT; ++op)
        if (marks[op] == kernel) return (berth_op_id)op;
    return BERTH_OP_COUNT;
}

// --- The GPU -------------------------------------------------------------------------------------

static struct {
    berth_runtime* runtime;
    berth_device* device;
    berth_stream* stream;
    berth_space* space;
    uint64_t mapped;
    uint64_t used; ///< by the call under way
    unsigned char* staging;
    uint64_t staging_bytes;
    berth_device_ops watched_ops;
    const berth_device_ops* cpu_ops;
    const berth_kernel* cpu_kernels;
    gpu_shadow_record records[BERTH_OP_COUNT];
    char failure[512];
} gpu;

static bool give_up(const char* what) {
    (void)snprintf(gpu.failure, sizeof gpu.failure, "%s: %s", what, berth_last_error());
    return false;
}

bool gpu_shadow_open(const char* device) {
    const berth_option_setting settings[] = {{"device", device}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    memset(&gpu, 0, sizeof gpu);
    if (berth_runtime_create(&options, &gpu.runtime) != BERTH_OK) return false;
    gpu.device = gpu.runtime->device;
    if (berth_stream_create(gpu.device, &gpu.stream) == BERTH_OK &&
        berth_space_reserve(gpu.device, MOST_BYTES, &gpu.space) == BERTH_OK)
        return true;
    gpu_shadow_close();
    return false;
}

void gpu_shadow_close(void) {
    if (gpu.mapped > 0 && berth_space_unmap(gpu.space, 0, gpu.mapped) != BERTH_OK)
        (void)fprintf(stderr, "closing the GPU: %s\n", berth_last_error());
    berth_space_release(gpu.space);
    berth_stream_destroy(gpu.stream);
    berth_runtime_release(gpu.runtime);
    free(gpu.staging);
    gpu.runtime = NULL;
    gpu.space = NULL;
    gpu.stream = NULL;
    gpu.staging = NULL;
    gpu.mapped = 0;
}

const gpu_shadow_record* gpu_shadow_records(void) { return gpu.records; }

const char* gpu_shadow_failure(void) { return gpu.failure; }

/// Memory of the GPU for `bytes` bytes whose address is `phase` beyond a multiple of the alignment;
/// NULL if there is none.
static unsigned char* take(uint64_t bytes, uint64_t phase) {
    const uint64_t begin =
        (gpu.used + BERTH_ALIGNMENT - 1) / BERTH_ALIGNMENT * BERTH_ALIGNMENT + phase;
    const uint64_t end = begin + bytes;
    if (end > gpu.mapped) {
        const uint64_t granule = gpu.device->granule_bytes;
        const uint64_t wanted = (end + granule - 1) / granule * granule;
        if (wanted > gpu.space->size_bytes ||
            berth_space_map(gpu.space, gpu.mapped, wanted - gpu.mapped) != BERTH_OK) {
            (void)give_up("memory of the GPU");
            return NULL;
        }
        gpu.mapped = wanted;
    }
    gpu.used = end;
    return gpu.space->base + begin;
}

static bool copy(void* to, const void* from, uint64_t bytes, berth_copy_kind kind) {
    if (bytes == 0) return true;
    if (berth_stream_copy(gpu.stream, to, from, bytes, kind) == BERTH_OK &&
        berth_stream_synchronize(gpu.stream) == BERTH_OK)
        return true;
    return give_up("a copy");
}

/// `bytes` bytes of the host's for what comes back.
static unsigned char* stage(uint64_t bytes) {
    if (bytes > gpu.staging_bytes || gpu.staging == NULL) {
        free(gpu.staging);
        gpu.staging = malloc(bytes + 1);
        gpu.staging_bytes = bytes;
        if (gpu.staging == NULL) (void)give_up("no memory for a result");
    }
    return gpu.staging;
}

// --- One call ------------------------------------------------------------------------------------

/// Puts the operand's memory on the GPU, and the view over it.
static bool place_input(berth_view* view) {
    int64_t begin, end;
    if (berth_shape_span(view, &begin, &end) != BERTH_OK) return give_up("an operand");
    const unsigned char* first = (const unsigned char*)view->data + begin;
    unsigned char* data = take((uint64_t)(end - begin), (uintptr_t)first % BERTH_ALIGNMENT);
    if (data == NULL) return false;
    view->data = data - begin;
    return copy(data, first, (uint64_t)(end - begin), BERTH_COPY_HOST_TO_DEVICE);
}

/// Gives output `index` its place: an operand's if that is where the CPU has it.
static bool place_output(const berth_op_call* cpu, berth_op_call* call, uint32_t index) {
    berth_view* out = &call->outputs[index];
    uint64_t bytes;
    if (berth_shape_lay_out(out, &bytes) != BERTH_OK) return give_up("a result");
    for (uint32_t i = 0; index == 0 && bytes > 0 && i < cpu->input_count; ++i) {
        if (cpu->inputs[i].data != cpu->outputs[0].data) continue;
        out->data = call->inputs[i].data;
        return true;
    }
    // begins as the CPU's: what a kernel leaves alone, as CAT does with more operands than it
    // takes, is the same then
    out->data = take(bytes, 0);
    return out->data != NULL &&
           copy(out->data, cpu->outputs[index].data, bytes, BERTH_COPY_HOST_TO_DEVICE);
}

/// The sizes that data tell, by the GPU's counting kernel, against the CPU's.
static bool check_count(berth_op_id op, const berth_op_call* call, size_t params_bytes) {
    const berth_kernel counter =
        gpu.device->counters != NULL
            ? gpu.device->counters[op]
            : berth_op_kernel_for(berth_op_table[op].counters, gpu.device->kind);
    if (counter == NULL) return true;
    int64_t count = -1;
    berth_op_call counting = *call;
    if (berth_stream_launch(gpu.stream, counter, &counting, params_bytes) != BERTH_OK)
        return give_up(op_names[op]);
    if (!copy(&count, call->scratch, sizeof count, BERTH_COPY_DEVICE_TO_HOST)) return false;
    if (call->outputs[0].rank > 0 && count == call->outputs[0].dims[0]) return true;
    gpu_shadow_record* record = &gpu.records[op];
    if (record->failures++ == 0)
        (void)snprintf(record->where,
                       sizeof record->where,
                       "counted %lld, the CPU %lld",
                       (long long)count,
                       (long long)call->outputs[0].dims[0]);
    return false;
}

/// Copies a call to the GPU and enqueues it; false if it is not to be compared.
static bool launch_on_gpu(berth_op_id op,
                          const berth_op_call* cpu,
                          berth_op_call* call,
                          size_t params_bytes) {
    *call = *cpu;
    call->team = NULL;
    gpu.used = 0;
    for (uint32_t i = 0; i < call->input_count; ++i)
        if (!place_input(&call->inputs[i])) return false;
    for (uint32_t i = 0; i < call->output_count; ++i)
        if (!place_output(cpu, call, i)) return false;
    const berth_scratch_rule rule = gpu.device->scratch_rules != NULL
                                        ? gpu.device->scratch_rules[op]
                                        : berth_op_table[op].scratch;
    call->scratch_bytes = rule != NULL ? rule(cpu) : 0;
    call->scratch = take(call->scratch_bytes + BERTH_ALIGNMENT, 0);
    if (call->scratch == NULL || !check_count(op, call, params_bytes)) return false;
    const berth_status status =
        berth_stream_launch(gpu.stream, gpu.device->kernels[op], call, params_bytes);
    if (status == BERTH_ERR_UNSUPPORTED) {
        gpu_shadow_record* record = &gpu.records[op];
        if (record->refusals++ == 0 && record->where[0] == '\0')
            (void)snprintf(record->where, sizeof record->where, "refused: %s", berth_last_error());
        return false;
    }
    if (status != BERTH_OK || berth_stream_synchronize(gpu.stream) != BERTH_OK)
        return give_up(op_names[op]);
    return true;
}

static void describe(const berth_op_call* call,
                     int64_t element,
                     double expected,
                     double found,
                     char* out,
                     size_t size) {
    berth_text text = {.buffer = out, .size = size};
    for (uint32_t i = 0; i < call->input_count; ++i) {
        const berth_view* in = &call->inputs[i];
        berth_text_add(&text, "%s", i > 0 ? " " : "");
        berth_shape_write(&text, in->dtype, in->rank, in->dims);
        if (!berth_view_is_contiguous(in)) berth_text_add(&text, "'");
    }
    berth_text_add(
        &text, ", element %lld: %.9g, the CPU's %.9g", (long long)element, found, expected);
}

/// Compares one output of a call that both have run.
static void compare_output(berth_op_id op,
                           const berth_op_call* cpu,
                           uint32_t index,
                           const void* data,
                           gpu_tolerance allowed) {
    gpu_shadow_record* record = &gpu.records[op];
    const berth_view* expected = &cpu->outputs[index];
    berth_view found = *expected;
    memcpy(&found.data, &data, sizeof data); // only read
    const int64_t count = kit_count(expected);
    const size_t size = kit_bytes(expected->dtype);
    bool has_failed = false;
    for (int64_t i = 0; i < count; ++i) {
        const unsigned char* want = (const unsigned char*)expected->data + (size_t)i * size;
        const unsigned char* got = (const unsigned char*)data + (size_t)i * size;
        if (memcmp(want, got, size) == 0) continue;
        const double number = kit_load(expected->dtype, want),
                     other = kit_load(expected->dtype, got);
        const double share = gpu_tolerance_share(allowed, expected->dtype, number, other);
        has_failed |= share > 1;
        if (share <= record->worst) continue;
        record->worst = share;
        describe(cpu, i, number, other, record->where, sizeof record->where);
    }
    record->failures += has_failed;
}

/// Reads the GPU's results and compares them; the CPU has run `cpu` by now.
static void compare(berth_op_id op,
                    const berth_op_call* cpu,
                    const berth_op_call* call,
                    gpu_tolerance allowed) {
    for (uint32_t i = 0; i < cpu->output_count; ++i) {
        const uint64_t bytes =
            (uint64_t)kit_count(&cpu->outputs[i]) * kit_bytes(cpu->outputs[i].dtype);
        unsigned char* data = stage(bytes);
        if (data == NULL || !copy(data, call->outputs[i].data, bytes, BERTH_COPY_DEVICE_TO_HOST))
            return;
        compare_output(op, cpu, i, data, allowed);
    }
    ++gpu.records[op].calls;
}

static berth_status launch(berth_device* self,
                           berth_stream* stream,
                           berth_kernel kernel,
                           const berth_op_call* call,
                           size_t params_bytes) {
    const berth_op_id op = op_of(kernel);
    if (op == BERTH_OP_COUNT) return gpu.cpu_ops->launch(self, stream, kernel, call, params_bytes);
    const bool has_kernel =
        gpu.failure[0] == '\0' && op != BERTH_OP_NOOP && gpu.device->kernels[op] != NULL;
    berth_op_call on_gpu;
    // before the CPU, which may write over an operand
    const gpu_tolerance allowed = has_kernel ? gpu_tolerance_of(op, call) : (gpu_tolerance){0, 0};
    const bool is_compared = has_kernel && launch_on_gpu(op, call, &on_gpu, params_bytes);
    const berth_status status =
        gpu.cpu_ops->launch(self, stream, gpu.cpu_kernels[op], call, params_bytes);
    if (is_compared && status == BERTH_OK) compare(op, call, &on_gpu, allowed);
    return status;
}

void gpu_shadow_watch(berth_runtime* cpu) {
    gpu.cpu_ops = cpu->device->ops;
    gpu.cpu_kernels = cpu->device->kernels;
    gpu.watched_ops = *gpu.cpu_ops;
    gpu.watched_ops.launch = launch;
    cpu->device->ops = &gpu.watched_ops;
    cpu->device->kernels = marks;
}
