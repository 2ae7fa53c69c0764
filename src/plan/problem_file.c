// SPDX-License-Identifier: Apache-2.0
// Reads packing problems: one buffer a line.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "plan/name_table.h"
#include "plan/trace_file.h"

enum {
    ID,
    LOWER,
    UPPER,
    SIZE,
    REQUIRED,
    ALIGNMENT = REQUIRED,
    OFFSET,
    EXCLUSIVE,
    IN_PLACE,
    COLUMNS
};

/// What is known while lines are read.
typedef struct reader {
    berth_trace_file* file;
    berth_csv* csv;
    berth_csv_columns columns;
    berth_name_table ids; ///< indices by id
    uint64_t sum;         ///< of the sizes
} reader;

static const char* text_of(const reader* self, uint32_t column) {
    return berth_csv_text(self->csv, &self->columns, column);
}

/// Reads a number of a column that may be empty or missing.
static berth_status read_optional(
    reader* self, uint32_t column, const char* what, uint64_t most, uint64_t* number) {
    const char* text = text_of(self, column);
    return text[0] == '\0' ? BERTH_OK : berth_csv_number(self->csv, text, what, most, number);
}

static berth_status read_optional_columns(reader* self, berth_trace_block* block) {
    uint64_t exclusive = 0;
    BERTH_TRY(read_optional(self, ALIGNMENT, "alignment", UINT64_C(1) << 40, &block->alignment));
    if (block->alignment != 0 && !berth_is_power_of_two(block->alignment))
        return berth_csv_fail(self->csv,
                              "the alignment %llu is no power of two",
                              (unsigned long long)block->alignment);
    BERTH_TRY(read_optional(self, OFFSET, "offset", BERTH_TRACE_BYTES_MAX, &block->offset));
    BERTH_TRY(read_optional(self, EXCLUSIVE, "exclusive", 1, &exclusive));
    block->exclusive = exclusive != 0;
    return BERTH_OK;
}

static berth_status read_block(reader* self, berth_trace_block* block) {
    const uint64_t most = BERTH_TRACE_BYTES_MAX;
    char shown[BERTH_CSV_SHOWN_BYTES];
    BERTH_TRY(berth_csv_number(self->csv, text_of(self, LOWER), "lower", most, &block->lower));
    BERTH_TRY(berth_csv_number(self->csv, text_of(self, UPPER), "upper", most, &block->upper));
    BERTH_TRY(berth_csv_number(self->csv, text_of(self, SIZE), "size", most, &block->bytes));
    if (block->lower > block->upper)
        return berth_csv_fail(self->csv,
                              "'%s' ends at %llu, before it begins at %llu",
                              berth_csv_shown(block->id, shown),
                              (unsigned long long)block->upper,
                              (unsigned long long)block->lower);
    self->sum += block->bytes; // both are at most 2^62
    if (self->sum > most)
        return berth_csv_fail(
            self->csv, "the sizes up to here sum up to more than %llu", (unsigned long long)most);
    return read_optional_columns(self, block);
}

static berth_status read_line(reader* self) {
    berth_trace_block block = {.id = text_of(self, ID),
                               .label = "",
                               .offset = BERTH_PACK_ANYWHERE,
                               .site = -1,
                               .from = BERTH_TRACE_NONE,
                               .line = self->csv->line};
    char shown[BERTH_CSV_SHOWN_BYTES];
    uint32_t* found;
    if (block.id[0] == '\0') return berth_csv_fail(self->csv, "a buffer needs an id");
    BERTH_TRY(read_block(self, &block));
    // until all ids are known, the text of the column in_place
    if (text_of(self, IN_PLACE)[0] != '\0') block.model = text_of(self, IN_PLACE);
    BERTH_TRY(berth_name_table_put(
        &self->ids, self->file->host, block.id, (uint32_t)self->file->blocks.count, &found));
    if (found != NULL)
        return berth_csv_fail(self->csv,
                              "the id '%s' is that of line %u already",
                              berth_csv_shown(block.id, shown),
                              self->file->blocks.items[*found].line);
    return berth_trace_block_vec_push(&self->file->blocks, self->file->host, block);
}

/// Finds the buffer whose place `block` may take, which ends where it begins and has no other heir
/// (`taken`, by index).
static berth_status resolve_pair(reader* self, berth_trace_block* block, bool* taken) {
    char shown[BERTH_CSV_SHOWN_BYTES];
    uint32_t from;
    self->csv->line = block->line;
    if (!berth_name_table_find(&self->ids, block->model, strlen(block->model), &from))
        return berth_csv_fail(
            self->csv, "in_place names '%s', which is no id", berth_csv_shown(block->model, shown));
    const berth_trace_block* before = &self->file->blocks.items[from];
    if (before == block)
        return berth_csv_fail(self->csv,
                              "in_place names '%s', the buffer itself",
                              berth_csv_shown(block->model, shown));
    if (block->lower + 1 != before->upper || before->lower >= before->upper ||
        block->lower >= block->upper)
        return berth_csv_fail(self->csv,
                              "in_place names '%s', whose last moment is not the first one here",
                              berth_csv_shown(block->model, shown));
    if (taken[from])
        return berth_csv_fail(self->csv,
                              "in_place names '%s', whose place another buffer takes",
                              berth_csv_shown(block->model, shown));
    taken[from] = true;
    block->from = from;
    block->model = NULL;
    return BERTH_OK;
}

static berth_status resolve_pairs(reader* self) {
    if (self->columns.of[IN_PLACE] == BERTH_CSV_FIELDS) return BERTH_OK;
    berth_trace_block_vec* blocks = &self->file->blocks;
    bool* taken = berth_host_calloc(self->file->host, blocks->count + 1, sizeof *taken);
    if (taken == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for pairs in place");
    berth_status status = BERTH_OK;
    for (size_t i = 0; i < blocks->count && status == BERTH_OK; i++)
        if (blocks->items[i].model != NULL) status = resolve_pair(self, &blocks->items[i], taken);
    berth_host_free(self->file->host, taken);
    return status;
}

static berth_status read_lines(reader* self) {
    for (bool more;;) {
        BERTH_TRY(berth_csv_next_row(self->csv, &self->columns, &more));
        if (!more) break;
        BERTH_TRY(read_line(self));
    }
    BERTH_TRY(resolve_pairs(self));
    const berth_trace_section section = {.block_count = (uint32_t)self->file->blocks.count};
    return berth_trace_section_vec_push(&self->file->sections, self->file->host, section);
}

berth_status berth_problem_lines_read(berth_trace_file* file, berth_csv* csv) {
    static const char* const names[COLUMNS] = {
        "id", "lower", "upper", "size", "alignment", "offset", "exclusive", "in_place"};
    reader self = {.file = file, .csv = csv};
    berth_status status = berth_csv_read_header(csv, names, COLUMNS, REQUIRED, &self.columns);
    if (status == BERTH_OK) status = read_lines(&self);
    berth_name_table_fini(&self.ids, file->host);
    return status;
}
