// SPDX-License-Identifier: Apache-2.0
// Ops of the user's: checked once, copied, numbered after the built-in ones.
#include "berth/op_register.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "exec/exec_impl.h"

enum { LONGEST_NAME = 63, MOST_OPS = 65536 };

static berth_status check_numbers(const berth_op_desc* desc) {
    if (desc->struct_size != sizeof *desc)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "struct_size is %zu, not %zu",
                          desc->struct_size,
                          sizeof *desc);
    const size_t length = desc->name != NULL ? strnlen(desc->name, LONGEST_NAME + 1) : 0;
    if (length == 0 || length > LONGEST_NAME)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT, "an op needs a name of 1 to %d bytes", LONGEST_NAME);
    if (desc->min_inputs > desc->max_inputs || desc->max_inputs > BERTH_OP_MAX_INPUTS)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%s: %" PRIu32 " to %" PRIu32 " operands are not possible, at most %d",
                          desc->name,
                          desc->min_inputs,
                          desc->max_inputs,
                          BERTH_OP_MAX_INPUTS);
    if (desc->output_count < 1 || desc->output_count > BERTH_OP_MAX_OUTPUTS)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%s: %" PRIu32 " results are not possible, 1 to %d",
                          desc->name,
                          desc->output_count,
                          BERTH_OP_MAX_OUTPUTS);
    return BERTH_OK;
}

static berth_status check_flags(const berth_op_desc* desc) {
    uint32_t known = BERTH_OP_UPDATES_0;
    for (uint32_t i = 0; i < desc->max_inputs; ++i)
        known |= BERTH_OP_IN_PLACE(i);
    if ((desc->flags & ~known) != 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%s: flags 0x%" PRIx32 " mean nothing for %" PRIu32 " operands",
                          desc->name,
                          desc->flags & ~known,
                          desc->max_inputs);
    if ((desc->flags & BERTH_OP_UPDATES_0) != 0 &&
        ((desc->flags & BERTH_OP_IN_PLACE(0)) == 0 || desc->min_inputs < 1))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%s: BERTH_OP_UPDATES_0 needs an operand and BERTH_OP_IN_PLACE(0)",
                          desc->name);
    return BERTH_OK;
}

static berth_status check_functions(const berth_op_desc* desc, berth_device_kind kind) {
    if (desc->infer == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%s has no shape rule", desc->name);
    if (berth_op_kernel_for(desc->kernels, kind) == NULL)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "%s has no kernel for the runtime's device: kernels[BERTH_DEVICE_%s]",
                          desc->name,
                          kind == BERTH_DEVICE_CUDA ? "CUDA" : "CPU");
    if (berth_op_kernel_for(desc->counters, kind) != NULL && desc->scratch == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%s counts, which needs a workspace of 8 bytes at least",
                          desc->name);
    return BERTH_OK;
}

/// Under the runtime's lock.
static bool is_taken(const berth_runtime* runtime, const char* name) {
    for (size_t i = 0; i < BERTH_OP_COUNT; ++i)
        if (strcmp(berth_op_table[i].name, name) == 0) return true;
    for (const berth_op* op = runtime->first_op; op != NULL; op = op->next)
        if (strcmp(op->desc.name, name) == 0) return true;
    return false;
}

static void destroy(const berth_host* host, berth_op* op) {
    if (op == NULL) return;
    // the name is a copy that is ours alone
    berth_host_free(host, (void*)(uintptr_t)op->desc.name);
    berth_host_free(host, op);
}

/// Takes a copy of the description into the runtime's list.
static berth_status append(berth_runtime* runtime,
                           const berth_op_desc* desc,
                           const berth_op** out_op) {
    berth_op* op = berth_host_calloc(runtime->host, 1, sizeof *op);
    char* name = berth_host_strdup(runtime->host, desc->name);
    berth_status status = BERTH_OK;
    if (op == NULL || name == NULL) {
        status = berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for op %s", desc->name);
        berth_host_free(runtime->host, name);
        berth_host_free(runtime->host, op);
        return status;
    }
    op->desc = *desc;
    op->desc.name = name;
    op->runtime = runtime;
    berth_mutex_lock(&runtime->lock);
    if (is_taken(runtime, name)) {
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT, "there is an op %s already", name);
    } else if (runtime->op_count == MOST_OPS) {
        status = berth_fail(
            BERTH_ERR_UNSUPPORTED, "%d ops are registered already, which is the most", MOST_OPS);
    } else {
        op->id = BERTH_EVENT_REGISTERED + runtime->op_count++;
        op->next = runtime->first_op;
        runtime->first_op = op;
        *out_op = op;
    }
    berth_mutex_unlock(&runtime->lock);
    if (status != BERTH_OK) destroy(runtime->host, op);
    return status;
}

berth_status berth_op_register(berth_runtime* runtime,
                               const berth_op_desc* desc,
                               const berth_op** out_op) {
    if (runtime == NULL || desc == NULL || out_op == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a runtime, a description and a place are needed");
    *out_op = NULL;
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    BERTH_TRY(check_numbers(desc));
    BERTH_TRY(check_flags(desc));
    BERTH_TRY(check_functions(desc, runtime->device->kind));
    return append(runtime, desc, out_op);
}

void berth_runtime_destroy_ops(berth_runtime* runtime) {
    for (berth_op* op = runtime->first_op; op != NULL;) {
        berth_op* next = op->next;
        destroy(runtime->host, op);
        op = next;
    }
}
