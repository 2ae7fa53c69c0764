// SPDX-License-Identifier: Apache-2.0
// Random tensor programs: steps, what lives on across them, and the books at the end.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "exec/decay.h"
#include "exec/exec_impl.h"
#include "program_internal.h"

enum {
    KINDS = 3,      ///< kinds of step; a kind may nest lower ones
    MAX_OPS = 24,   ///< ops a step, nested ones not counted
    LONGEST = 24,   ///< largest symbol value
    LARGEST = 2000, ///< elements of a tensor that is kept in play
    ROUTES = 3,     ///< branches where a step is routed
};

void program_fail(program* p, const char* format, ...) {
    if (p->result.failure[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->result.failure, sizeof p->result.failure, format, arguments);
    va_end(arguments);
}

static bool (*calm)(void);

void program_set_tolerance(bool (*new_calm)(void)) { calm = new_calm; }

void program_refuse(program* p, const char* what) {
    if (calm == NULL) {
        program_fail(p, "%s: %s", what, berth_last_error());
        return;
    }
    ++p->result.refusals;
    berth_context_clear_error(p->ctx);
    berth_context_clear_error(p->other);
    berth_context_clear_error(p->hoarder);
}

/// Reads a tensor into the digest.
void program_digest(program* p, berth_tensor* x) {
    if (x == NULL) return;
    const uint64_t bytes = berth_tensor_bytes(x);
    unsigned char* buffer = malloc(bytes + 1);
    if (buffer == NULL) {
        program_fail(p, "no memory for the check itself");
        return;
    }
    if (berth_tensor_read(x, buffer, bytes) != BERTH_OK) {
        program_refuse(p, "read");
    } else {
        p->result.digest = berth_hash64(buffer, bytes, p->result.digest);
    }
    free(buffer);
}

static bool overlap(const berth_tensor* a, const berth_tensor* b) {
    const berth_storage *s = a->storage, *t = b->storage;
    return s != t && s->size_bytes > 0 && t->size_bytes > 0 && s->data < t->data + t->size_bytes &&
           t->data < s->data + s->size_bytes;
}

/// Storages that are alive never overlap.
void program_check_overlap(program* p, const berth_tensor* x) {
    if (x == NULL) return;
    for (size_t i = 0; i < PROGRAM_SLOTS; ++i)
        if (p->slots[i] != NULL && overlap(x, p->slots[i]))
            program_fail(p, "a new tensor lies over slot %zu", i);
    for (size_t i = 0; i < PROGRAM_KEPT; ++i)
        if (p->kept[i] != NULL && overlap(x, p->kept[i]))
            program_fail(p, "a new tensor lies over kept tensor %zu", i);
}

/// Puts an op's result into a slot; what was there is released.
void program_put(program* p, uint32_t slot, berth_tensor* x) {
    ++p->result.ops;
    program_check_overlap(p, x);
    berth_release(p->slots[slot]);
    p->slots[slot] = x;
}

/// Keeps a tensor beyond its step, maps it now and then; or gives up one that was kept. Not part of
/// the step's structure.
static void juggle_kept(program* p, uint32_t slot) {
    const uint32_t at = (uint32_t)test_random_below(&p->choices, PROGRAM_KEPT);
    if (p->kept[at] != NULL) {
        if (test_random_one_in(&p->choices, 2)) program_digest(p, p->kept[at]);
        if (p->is_mapped[at]) berth_tensor_unmap(p->kept[at]);
        berth_release(p->kept[at]);
        p->kept[at] = NULL;
        p->is_mapped[at] = false;
    } else if (p->slots[slot] != NULL && test_random_one_in(&p->choices, 3)) {
        p->kept[at] = berth_retain(p->slots[slot]);
        void* data;
        p->is_mapped[at] =
            test_random_one_in(&p->choices, 4) && berth_tensor_map(p->kept[at], &data) == BERTH_OK;
    }
}

/// An error that sticks is cleared at once, or after some more ops that do nothing.
static void bear_error(program* p) {
    if (calm == NULL || berth_context_error(p->ctx) == BERTH_OK) return;
    if (test_random_one_in(&p->mischief, 3)) program_refuse(p, "op");
}

static void run_op(program* p) {
    program_run_op(p);
    bear_error(p);
    const uint32_t slot = (uint32_t)test_random_below(&p->choices, PROGRAM_SLOTS);
    if (test_random_one_in(&p->choices, 6)) juggle_kept(p, slot);
}

/// Tensors grow by cat and products; the programs are to stay small.
static void drop_large(program* p) {
    for (size_t i = 0; i < PROGRAM_SLOTS; ++i) {
        if (p->slots[i] == NULL || berth_tensor_count(p->slots[i]) < LARGEST) continue;
        berth_release(p->slots[i]);
        p->slots[i] = NULL;
    }
}

static void run_step(program* p, uint32_t kind, uint32_t depth);

/// A few ops of one of ROUTES branches, as routing by data takes them.
static void run_route(program* p) {
    const uint64_t salt = test_random_below(&p->structure, UINT32_MAX);
    const test_random saved = p->structure;
    p->structure = test_random_make(salt * ROUTES + test_random_below(&p->choices, ROUTES));
    const uint32_t ops = 1 + program_pick(p, 4);
    for (uint32_t i = 0; i < ops; ++i)
        run_op(p);
    p->structure = saved;
}

/// A tensor kept from earlier, perhaps another context's, becomes an operand.
static void adopt_kept(program* p) {
    berth_tensor* x = p->kept[test_random_below(&p->choices, PROGRAM_KEPT)];
    const uint32_t slot = program_pick(p, PROGRAM_SLOTS);
    if (x == NULL || berth_tensor_count(x) >= LARGEST) return;
    berth_release(p->slots[slot]);
    p->slots[slot] = berth_retain(x);
}

static void run_body(program* p, uint32_t kind, uint32_t depth) {
    const uint32_t ops = 4 + program_pick(p, MAX_OPS - 4);
    const uint32_t nest_at = program_pick(p, 2 * MAX_OPS);
    const uint32_t branch_at = program_pick(p, 3 * MAX_OPS);
    const uint32_t route_at = program_pick(p, 2 * MAX_OPS);
    const uint32_t adopt_at = program_pick(p, 4 * MAX_OPS);
    const uint32_t exit_at = program_pick(p, 3 * MAX_OPS);
    for (uint32_t i = 0; i < ops; ++i) {
        program_tamper(p);
        program_hoard(p);
        if (i == exit_at && test_random_one_in(&p->choices, 2)) break;
        if (i == route_at) run_route(p);
        if (i == adopt_at) adopt_kept(p);
        if (i == nest_at && kind > 0 && depth < 2) run_step(p, program_pick(p, kind), depth + 1);
        if (i == branch_at && test_random_one_in(&p->choices, 3)) {
            const test_random saved = p->structure;
            run_op(p);
            p->structure = saved;
        }
        run_op(p);
        drop_large(p);
    }
}

/// One run of a step. Its slots are its own: nested steps do not see their parent's.
static void run_step(program* p, uint32_t kind, uint32_t depth) {
    static const char* const names[KINDS] = {"zero", "one", "two"};
    const test_random saved = p->structure;
    berth_tensor* outer[PROGRAM_SLOTS];
    memcpy(outer, p->slots, sizeof outer);
    memset(p->slots, 0, sizeof p->slots);
    p->structure = test_random_make(p->seed * KINDS + kind + 1);
    const berth_step_input inputs[1] = {{.name = "x", .rank = 1, .dims = &p->n}};
    const berth_step_integer integers[1] = {{.name = "m", .value = p->m}};
    const berth_step_desc desc = {.name = names[kind],
                                  .inputs = inputs,
                                  .input_count = 1,
                                  .integers = integers,
                                  .integer_count = 1};
    if (berth_step_begin(p->ctx, &desc) != BERTH_OK) {
        program_refuse(p, "begin");
    } else {
        run_body(p, kind, depth);
        for (size_t i = 0; i < PROGRAM_SLOTS; ++i)
            if (p->slots[i] != NULL && (i % 3 == 0 || depth > 0)) program_digest(p, p->slots[i]);
        const bool ends_before_release = test_random_one_in(&p->choices, 2);
        if (ends_before_release && berth_step_end(p->ctx) != BERTH_OK) program_refuse(p, "end");
        for (size_t i = 0; i < PROGRAM_SLOTS; ++i) {
            if (ends_before_release) program_digest(p, p->slots[i]);
            berth_release(p->slots[i]);
        }
        if (!ends_before_release && berth_step_end(p->ctx) != BERTH_OK) program_refuse(p, "end");
    }
    memcpy(p->slots, outer, sizeof outer);
    p->structure = saved;
}

static void release_kept(program* p) {
    for (size_t i = 0; i < PROGRAM_KEPT; ++i) {
        if (p->kept[i] == NULL) continue;
        program_digest(p, p->kept[i]);
        if (p->is_mapped[i]) berth_tensor_unmap(p->kept[i]);
        berth_release(p->kept[i]);
        p->kept[i] = NULL;
    }
}

static void check_home(program* p, const berth_home* home) {
    if (home->live_objects != 0)
        program_fail(p, "%" PRIu64 " objects are left", home->live_objects);
    if (home->overdue.count != 0)
        program_fail(p, "%zu stretches are kept clear", home->overdue.count);
    if (!berth_pool_is_valid(home->pool)) program_fail(p, "the pool is not valid");
}

/// Nothing is out, promised or mapped once everything has been given up. Ends the thread that ages
/// memory before: a trim leaves what that is just at. A device that is not well gives nothing back.
static void check_books(program* p, bool is_well) {
    berth_decay_stop(p->runtime);
    check_home(p, &p->ctx->home);
    check_home(p, &p->other->home);
    if (!is_well) return;
    if (berth_context_synchronize(p->ctx) != BERTH_OK ||
        berth_context_synchronize(p->other) != BERTH_OK ||
        berth_trim(p->runtime, 0, NULL) != BERTH_OK)
        program_fail(p, "closing: %s", berth_last_error());
    berth_memory_stats stats;
    if (berth_runtime_query_memory(p->runtime, &stats) != BERTH_OK)
        program_fail(p, "statistics: %s", berth_last_error());
    // a guarded block that the device refused to take back goes with the next one
    const bool may_rest = calm != NULL && p->runtime->guards;
    if ((stats.mapped_bytes != 0 && !may_rest) || stats.reserved_bytes != 0 ||
        stats.requested_bytes != 0)
        program_fail(p,
                     "%" PRIu64 " bytes mapped, %" PRIu64 " promised, %" PRIu64 " out",
                     stats.mapped_bytes,
                     stats.reserved_bytes,
                     stats.requested_bytes);
}

static void count_steps(program* p) {
    const size_t kinds = berth_runtime_query_step_count(p->runtime);
    for (size_t i = 0; i < kinds; ++i) {
        const char* name;
        berth_step_counters counters;
        if (berth_runtime_query_step(p->runtime, i, &name, &counters) != BERTH_OK) continue;
        p->result.hits += counters.hits;
        p->result.exits += counters.side_exits;
        p->result.switches += counters.switches;
    }
}

/// The two contexts change roles: the same kinds of step run in both.
static void swap_contexts(program* p) {
    berth_context* ctx = p->ctx;
    p->ctx = p->other;
    p->other = ctx;
}

static void (*watcher)(berth_runtime* runtime);

void program_set_watcher(void (*new_watcher)(berth_runtime* runtime)) { watcher = new_watcher; }

program_result program_run(uint64_t seed, uint32_t runs, const program_way* way) {
    program p = {.seed = seed,
                 .choices = test_random_make(~seed),
                 .mischief = test_random_make(seed * 3 + 1),
                 .tampers = way->tampers};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = way->settings, .setting_count = way->count};
    if (berth_runtime_create(&options, &p.runtime) != BERTH_OK ||
        berth_context_create(p.runtime, &p.ctx) != BERTH_OK ||
        berth_context_create(p.runtime, &p.other) != BERTH_OK ||
        program_register_own(&p) != BERTH_OK ||
        (way->hoards && program_start_hoard(&p) != BERTH_OK)) {
        program_refuse(&p, "creation");
    } else {
        if (watcher != NULL) watcher(p.runtime);
        for (uint32_t run = 0; run < runs && p.result.failure[0] == '\0'; ++run) {
            p.n = 1 + (int64_t)test_random_below(&p.choices, LONGEST);
            p.m = test_random_one_in(&p.choices, 8) ? 5 : 3;
            if (test_random_one_in(&p.choices, 5)) swap_contexts(&p);
            run_step(&p, (uint32_t)test_random_below(&p.choices, KINDS), 0);
            if (berth_context_error(p.ctx) != BERTH_OK && calm != NULL)
                program_refuse(&p, "op");
            else if (berth_context_error(p.ctx) != BERTH_OK)
                program_fail(&p, "op: %s", berth_context_error_text(p.ctx));
        }
        const bool is_well = calm == NULL || calm();
        release_kept(&p);
        program_end_hoard(&p);
        check_books(&p, is_well);
        count_steps(&p);
    }
    berth_context_release(p.other);
    berth_context_release(p.ctx);
    berth_runtime_release(p.runtime);
    return p.result;
}
