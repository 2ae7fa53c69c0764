// SPDX-License-Identifier: Apache-2.0
// Problems: the buffers of one part at given values of its symbols.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "plan/trace_file.h"
#include "plan/trace_scope.h"

struct berth_problem {
    const berth_trace_file* file;
    const berth_trace_section* section;
    const berth_trace_block* blocks; ///< [section->block_count]
    berth_pack_problem pack;
    berth_interval* intervals;
    uint64_t* alignments;
    uint64_t* offsets;
    bool* exclusive;
    berth_pack_in_place* pairs;
    uint64_t* sizes; ///< rounded up to the section's alignment
    berth_estimate_kind kind;
};

// ---- Sizes.

/// NULL if there is none of this name.
static const berth_trace_symbol* find_symbol(const berth_problem* problem, const char* name) {
    const berth_trace_section* section = problem->section;
    for (uint32_t i = 0; i < section->symbol_count; i++) {
        const berth_trace_symbol* symbol =
            &problem->file->symbols.items[section->first_symbol + i].shown;
        if (strcmp(symbol->name, name) == 0) return symbol;
    }
    return NULL;
}

static berth_status check_setting(const berth_problem* problem,
                                  const berth_trace_setting* setting) {
    const berth_trace_section* section = problem->section;
    if (setting->name == NULL || setting->value < 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a symbol needs a name and a value that is not below 0");
    const berth_trace_symbol* symbol = find_symbol(problem, setting->name);
    if (symbol == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "'%s' has no symbol '%s'%s%s",
                          problem->file->name,
                          setting->name,
                          section->step != NULL ? " in step " : "",
                          section->step != NULL ? section->step : "");
    if (symbol->lowest == symbol->highest && symbol->value == symbol->lowest &&
        setting->value != symbol->value)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%s was %lld whenever '%s' was recorded; nothing is known at %lld",
                          symbol->name,
                          (long long)symbol->value,
                          problem->file->name,
                          (long long)setting->value);
    return BERTH_OK;
}

static int64_t value_of(const berth_trace_symbol* symbol,
                        const berth_trace_setting* settings,
                        size_t count) {
    for (size_t i = count; i-- > 0;)
        if (strcmp(settings[i].name, symbol->name) == 0) return settings[i].value;
    return symbol->value;
}

/// Gives every name of the part its value.
static berth_status fill_scope(const berth_problem* problem,
                               berth_trace_scope* scope,
                               const berth_trace_setting* settings,
                               size_t count) {
    const berth_trace_file* file = problem->file;
    const berth_trace_section* section = problem->section;
    bool is_new;
    for (uint32_t i = 0; i < section->symbol_count; i++) {
        const berth_trace_symbol* symbol = &file->symbols.items[section->first_symbol + i].shown;
        const berth_expression_answer answer = {value_of(symbol, settings, count),
                                                BERTH_ESTIMATE_EXACT};
        BERTH_TRY(berth_trace_scope_put(scope, file->host, symbol->name, answer, &is_new));
    }
    for (uint32_t i = 0; i < section->definition_count; i++) {
        const berth_trace_definition* definition =
            &file->definitions.items[section->first_definition + i];
        berth_expression_answer answer;
        BERTH_TRY(berth_trace_scope_evaluate(scope, definition->text, &answer));
        BERTH_TRY(berth_trace_scope_put(scope, file->host, definition->name, answer, &is_new));
    }
    return BERTH_OK;
}

/// True if some setting asks for another value than the one that the sizes were seen at.
static bool asks_for_others(const berth_problem* problem,
                            const berth_trace_setting* settings,
                            size_t count) {
    const berth_trace_section* section = problem->section;
    for (uint32_t i = 0; i < section->symbol_count; i++) {
        const berth_trace_symbol* symbol =
            &problem->file->symbols.items[section->first_symbol + i].shown;
        if (value_of(symbol, settings, count) != symbol->value) return true;
    }
    return false;
}

static void weaken(berth_problem* problem, berth_estimate_kind kind) {
    if (kind < problem->kind) problem->kind = kind;
}

static berth_status evaluate_sizes(berth_problem* problem,
                                   berth_trace_scope* scope,
                                   bool elsewhere) {
    const uint64_t unit = problem->section->alignment != 0 ? problem->section->alignment : 1;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < problem->section->block_count; i++) {
        const berth_trace_block* block = &problem->blocks[i];
        problem->sizes[i] = block->bytes;
        if (block->model != NULL) {
            berth_expression_answer answer;
            BERTH_TRY(berth_trace_scope_evaluate(scope, block->model, &answer));
            problem->sizes[i] = (uint64_t)answer.value;
            weaken(problem, answer.kind);
        } else if (elsewhere) {
            weaken(problem, BERTH_ESTIMATE_OBSERVED);
        }
        // a size is at most 2^63, the sum before it at most 2^62
        problem->sizes[i] = berth_round_up(problem->sizes[i], unit);
        sum += problem->sizes[i];
        if (sum > BERTH_TRACE_BYTES_MAX)
            return berth_fail(BERTH_ERR_OVERFLOW,
                              "%s:%u: the sizes up to here sum up to more than %llu",
                              problem->file->name,
                              block->line,
                              (unsigned long long)BERTH_TRACE_BYTES_MAX);
    }
    return BERTH_OK;
}

static berth_status find_sizes(berth_problem* problem,
                               const berth_trace_setting* settings,
                               size_t count) {
    for (size_t i = 0; i < count; i++)
        BERTH_TRY(check_setting(problem, &settings[i]));
    berth_trace_scope scope = {0};
    berth_status status = fill_scope(problem, &scope, settings, count);
    if (status == BERTH_OK)
        status = evaluate_sizes(problem, &scope, asks_for_others(problem, settings, count));
    berth_trace_scope_fini(&scope, problem->file->host);
    return status;
}

// ---- Lifetimes.

static int compare_moments(const void* a, const void* b) {
    const uint64_t x = *(const uint64_t*)a;
    const uint64_t y = *(const uint64_t*)b;
    return (x > y) - (x < y);
}

/// The rank of `moment` in the ascending `moments` [count], which has it.
static uint32_t rank_of(const uint64_t* moments, size_t count, uint64_t moment) {
    size_t low = 0;
    size_t high = count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (moments[middle] <= moment)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/// Lifetimes by the order of their ends alone, which is all that packing looks at: the file's
/// moments may need more than 32 bits.
static berth_status rank_lifetimes(berth_problem* problem) {
    const berth_host* host = problem->file->host;
    const size_t blocks = problem->section->block_count;
    uint64_t* moments = berth_host_calloc(host, 2 * blocks + 1, sizeof *moments);
    if (moments == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for lifetimes");
    for (size_t i = 0; i < blocks; i++) {
        moments[2 * i] = problem->blocks[i].lower;
        moments[2 * i + 1] = problem->blocks[i].upper;
    }
    qsort(moments, 2 * blocks, sizeof *moments, compare_moments);
    size_t count = 0;
    for (size_t i = 0; i < 2 * blocks; i++)
        if (count == 0 || moments[count - 1] != moments[i]) moments[count++] = moments[i];
    for (size_t i = 0; i < blocks; i++) {
        problem->intervals[i].start = rank_of(moments, count, problem->blocks[i].lower);
        problem->intervals[i].end = rank_of(moments, count, problem->blocks[i].upper);
    }
    berth_host_free(host, moments);
    return BERTH_OK;
}

static berth_status copy_lifetimes(berth_problem* problem) {
    for (uint32_t i = 0; i < problem->section->block_count; i++) {
        const berth_trace_block* block = &problem->blocks[i];
        if (block->upper > UINT32_MAX) return rank_lifetimes(problem);
        problem->intervals[i].start = (uint32_t)block->lower;
        problem->intervals[i].end = (uint32_t)block->upper;
    }
    return BERTH_OK;
}

// ---- The rest.

static bool make_room(berth_problem* problem) {
    const berth_host* host = problem->file->host;
    const size_t count = (size_t)problem->section->block_count + 1;
    problem->intervals = berth_host_calloc(host, count, sizeof *problem->intervals);
    problem->alignments = berth_host_calloc(host, count, sizeof *problem->alignments);
    problem->offsets = berth_host_calloc(host, count, sizeof *problem->offsets);
    problem->exclusive = berth_host_calloc(host, count, sizeof *problem->exclusive);
    problem->pairs = berth_host_calloc(host, count, sizeof *problem->pairs);
    problem->sizes = berth_host_calloc(host, count, sizeof *problem->sizes);
    return problem->intervals != NULL && problem->alignments != NULL && problem->offsets != NULL &&
           problem->exclusive != NULL && problem->pairs != NULL && problem->sizes != NULL;
}

/// Fills what berth_pack() takes; arrays that ask for nothing are left out.
static void fill_pack(berth_problem* problem) {
    berth_pack_problem* pack = &problem->pack;
    *pack = (berth_pack_problem){.intervals = problem->intervals,
                                 .count = problem->section->block_count,
                                 .alignment = problem->section->alignment};
    for (uint32_t i = 0; i < pack->count; i++) {
        const berth_trace_block* block = &problem->blocks[i];
        problem->intervals[i].size = problem->sizes[i];
        problem->alignments[i] = block->alignment;
        problem->offsets[i] = block->offset;
        problem->exclusive[i] = block->exclusive;
        if (block->alignment != 0) pack->alignments = problem->alignments;
        if (block->offset != BERTH_PACK_ANYWHERE) pack->fixed_offsets = problem->offsets;
        if (block->exclusive) pack->exclusive = problem->exclusive;
        if (block->from != BERTH_TRACE_NONE) {
            pack->in_place = problem->pairs;
            problem->pairs[pack->in_place_count++] = (berth_pack_in_place){block->from, i};
        }
    }
}

static berth_status fill(berth_problem* problem,
                         const berth_trace_setting* settings,
                         size_t count) {
    if (!make_room(problem))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "no memory for a problem of %u buffers",
                          problem->section->block_count);
    BERTH_TRY(find_sizes(problem, settings, count));
    BERTH_TRY(copy_lifetimes(problem));
    fill_pack(problem);
    return BERTH_OK;
}

berth_status berth_problem_create(const berth_trace_file* file,
                                  size_t part,
                                  const berth_trace_setting* settings,
                                  size_t count,
                                  berth_problem** out_problem) {
    if (out_problem != NULL) *out_problem = NULL;
    if (file == NULL || (settings == NULL && count > 0) || out_problem == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a file, its settings and a place for the problem are needed");
    berth_trace_part ignored;
    BERTH_TRY(berth_trace_file_query_part(file, part, &ignored));
    berth_problem* problem = berth_host_calloc(file->host, 1, sizeof *problem);
    if (problem == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a problem");
    problem->file = file;
    problem->section = &file->sections.items[part];
    if (problem->section->block_count > 0)
        problem->blocks = &file->blocks.items[problem->section->first_block];
    problem->kind = BERTH_ESTIMATE_EXACT;
    const berth_status status = fill(problem, settings, count);
    if (status == BERTH_OK)
        *out_problem = problem;
    else
        berth_problem_destroy(problem);
    return status;
}

void berth_problem_destroy(berth_problem* problem) {
    if (problem == NULL) return;
    const berth_host* host = problem->file->host;
    berth_host_free(host, problem->intervals);
    berth_host_free(host, problem->alignments);
    berth_host_free(host, problem->offsets);
    berth_host_free(host, problem->exclusive);
    berth_host_free(host, problem->pairs);
    berth_host_free(host, problem->sizes);
    berth_host_free(host, problem);
}

const berth_trace_block* berth_problem_block(const berth_problem* problem, size_t index) {
    return &problem->blocks[index];
}

const berth_pack_problem* berth_problem_query_pack(const berth_problem* problem) {
    return problem != NULL ? &problem->pack : NULL;
}

berth_estimate_kind berth_problem_query_kind(const berth_problem* problem) {
    return problem != NULL ? problem->kind : BERTH_ESTIMATE_UNKNOWN;
}

berth_status berth_problem_query_row(const berth_problem* problem,
                                     size_t index,
                                     berth_problem_row* out_row) {
    if (out_row == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a place for the row is needed");
    *out_row = (berth_problem_row){0};
    if (problem == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a problem is needed");
    if (index >= problem->section->block_count)
        return berth_fail(BERTH_ERR_NOT_FOUND,
                          "there is no buffer %zu, only %u",
                          index,
                          problem->section->block_count);
    const berth_trace_block* block = &problem->blocks[index];
    *out_row = (berth_problem_row){
        .id = block->id,
        .label = block->label,
        .lower = block->lower,
        .upper = block->upper,
        .size = problem->sizes[index],
        .alignment = block->alignment,
        .offset = block->offset,
        .site = block->site,
        .in_place_from = block->from == BERTH_TRACE_NONE ? BERTH_PROBLEM_NONE : block->from,
        .exclusive = block->exclusive,
        .escapes = block->escapes,
        .line = block->line};
    return BERTH_OK;
}
