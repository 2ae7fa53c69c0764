// SPDX-License-Identifier: Apache-2.0
// Reads traces: lines of the columns op, id, bytes, t_us and site.
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "plan/trace_file.h"
#include "plan/trace_scope.h"

enum { OP, ID, BYTES, TIME, SITE, COLUMNS };

/// What is known while lines are read.
typedef struct reader {
    berth_trace_file* file;
    berth_csv* csv;
    berth_csv_columns columns;
    berth_trace_section section; ///< the part being read
    berth_name_table ids;        ///< indices of its buffers by id
    berth_trace_scope scope;
    uint64_t moment;   ///< allocations and releases of the part so far
    const char* label; ///< op announced last
    int64_t site;      ///< of the current line
    const char* step;  ///< open step, or NULL
    uint32_t step_line;
    uint32_t step_symbols; ///< symbols told before the first path
    bool in_path;
} reader;

static const char* text_of(const reader* self, uint32_t column) {
    return berth_csv_text(self->csv, &self->columns, column);
}

static berth_trace_block* block_at(const reader* self, uint32_t index) {
    return &self->file->blocks.items[self->section.first_block + index];
}

static berth_trace_line_symbol* symbol_at(const reader* self, uint32_t index) {
    return &self->file->symbols.items[self->section.first_symbol + index];
}

// ---- Parts.

static void begin_part(reader* self, const char* step, const char* path, uint64_t alignment) {
    self->section =
        (berth_trace_section){.step = step,
                              .path = path,
                              .alignment = alignment,
                              .first_block = (uint32_t)self->file->blocks.count,
                              .first_symbol = (uint32_t)self->file->symbols.count,
                              .first_definition = (uint32_t)self->file->definitions.count};
    self->moment = 0;
    self->label = "";
    berth_name_table_clear(&self->ids);
    berth_trace_scope_clear(&self->scope);
}

/// Ends the part: what was not released stays to the end.
static berth_status end_part(reader* self) {
    berth_trace_section* section = &self->section;
    section->block_count = (uint32_t)self->file->blocks.count - section->first_block;
    section->symbol_count = (uint32_t)self->file->symbols.count - section->first_symbol;
    section->definition_count = (uint32_t)self->file->definitions.count - section->first_definition;
    for (uint32_t i = 0; i < section->block_count; i++) {
        berth_trace_block* block = block_at(self, i);
        if (block->escapes) block->upper = self->moment > 0 ? self->moment : 1;
    }
    return berth_trace_section_vec_push(&self->file->sections, self->file->host, *section);
}

static bool part_is_empty(const reader* self) {
    return self->file->blocks.count == self->section.first_block;
}

static berth_status read_step_begin(reader* self) {
    const char* name = text_of(self, ID);
    if (self->step != NULL)
        return berth_csv_fail(self->csv,
                              "a step begins inside the step of line %u; what a nested step takes "
                              "is one allocation of its parent",
                              self->step_line);
    if (name[0] == '\0') return berth_csv_fail(self->csv, "a step needs a name");
    uint64_t alignment = 0;
    if (text_of(self, BYTES)[0] != '\0')
        BERTH_TRY(berth_csv_number(
            self->csv, text_of(self, BYTES), "the alignment", UINT64_C(1) << 40, &alignment));
    if (alignment != 0 && !berth_is_power_of_two(alignment))
        return berth_csv_fail(
            self->csv, "the alignment %llu is no power of two", (unsigned long long)alignment);
    if (!part_is_empty(self)) BERTH_TRY(end_part(self));
    begin_part(self, name, NULL, alignment);
    self->step = name;
    self->step_line = self->csv->line;
    self->in_path = false;
    return BERTH_OK;
}

static berth_status read_step_end(reader* self) {
    const char* name = text_of(self, ID);
    char shown[BERTH_CSV_SHOWN_BYTES];
    if (self->step == NULL) return berth_csv_fail(self->csv, "no step is open here");
    if (name[0] != '\0' && strcmp(name, self->step) != 0)
        return berth_csv_fail(
            self->csv, "the step that is open is '%s'", berth_csv_shown(self->step, shown));
    BERTH_TRY(end_part(self));
    begin_part(self, NULL, NULL, 0);
    self->step = NULL;
    return BERTH_OK;
}

static berth_status enter_symbol(reader* self, const berth_trace_line_symbol* symbol) {
    const berth_expression_answer answer = {symbol->shown.value, BERTH_ESTIMATE_EXACT};
    bool is_new;
    BERTH_TRY(berth_trace_symbol_vec_push(&self->file->symbols, self->file->host, *symbol));
    return berth_trace_scope_put(
        &self->scope, self->file->host, symbol->shown.name, answer, &is_new);
}

/// A path begins with the symbols that its step told before the first path.
static berth_status read_path(reader* self) {
    if (self->step == NULL) return berth_csv_fail(self->csv, "a path is outside of any step");
    if (text_of(self, ID)[0] == '\0') return berth_csv_fail(self->csv, "a path needs a number");
    if (!self->in_path) {
        if (!part_is_empty(self))
            return berth_csv_fail(self->csv, "the step allocates before its first path");
        self->section.path = text_of(self, ID);
        self->step_symbols = (uint32_t)self->file->symbols.count - self->section.first_symbol;
        self->in_path = true;
        return BERTH_OK;
    }
    const uint32_t inherited = self->section.first_symbol;
    BERTH_TRY(end_part(self));
    begin_part(self, self->step, text_of(self, ID), self->section.alignment);
    for (uint32_t i = 0; i < self->step_symbols; i++) {
        const berth_trace_line_symbol symbol = self->file->symbols.items[inherited + i];
        BERTH_TRY(enter_symbol(self, &symbol));
    }
    return BERTH_OK;
}

// ---- Allocations.

/// Reads the columns t_us, whose value is not needed but must be sound, and site.
static berth_status read_rest(reader* self) {
    uint64_t number;
    const char* time = text_of(self, TIME);
    const char* site = text_of(self, SITE);
    if (time[0] != '\0') BERTH_TRY(berth_csv_number(self->csv, time, "t_us", UINT64_MAX, &number));
    self->site = -1;
    if (site[0] == '\0' || strcmp(site, "-1") == 0) return BERTH_OK;
    BERTH_TRY(berth_csv_number(self->csv, site, "site", INT64_MAX, &number));
    self->site = (int64_t)number;
    return BERTH_OK;
}

static berth_status read_bytes(reader* self, uint64_t* out_bytes) {
    return berth_csv_number(
        self->csv, text_of(self, BYTES), "bytes", BERTH_TRACE_BYTES_MAX, out_bytes);
}

static berth_status read_allocation(reader* self, bool was_live) {
    const char* id = text_of(self, ID);
    char shown[BERTH_CSV_SHOWN_BYTES];
    const uint32_t index = (uint32_t)(self->file->blocks.count - self->section.first_block);
    uint64_t bytes;
    uint32_t* found;
    if (id[0] == '\0') return berth_csv_fail(self->csv, "an allocation needs an id");
    BERTH_TRY(read_bytes(self, &bytes));
    if (was_live && self->moment > 0)
        return berth_csv_fail(self->csv,
                              "'%s' was live before the first allocation but comes after it",
                              berth_csv_shown(id, shown));
    BERTH_TRY(berth_name_table_put(&self->ids, self->file->host, id, index, &found));
    if (found != NULL)
        return berth_csv_fail(self->csv,
                              "'%s' is allocated in line %u already",
                              berth_csv_shown(id, shown),
                              block_at(self, *found)->line);
    const berth_trace_block block = {.id = id,
                                     .label = self->label,
                                     .bytes = bytes,
                                     .lower = self->moment,
                                     .offset = BERTH_PACK_ANYWHERE,
                                     .site = self->site,
                                     .from = BERTH_TRACE_NONE,
                                     .line = self->csv->line,
                                     .escapes = true};
    if (!was_live) self->moment++;
    return berth_trace_block_vec_push(&self->file->blocks, self->file->host, block);
}

/// The buffer that the current line names, or an error.
static berth_status find_block(reader* self, const char* does, berth_trace_block** out_block) {
    const char* id = text_of(self, ID);
    char shown[BERTH_CSV_SHOWN_BYTES];
    uint32_t index;
    if (!berth_name_table_find(&self->ids, id, strlen(id), &index))
        return berth_csv_fail(
            self->csv, "'%s' is %s but not allocated", berth_csv_shown(id, shown), does);
    *out_block = block_at(self, index);
    return BERTH_OK;
}

static berth_status read_release(reader* self) {
    berth_trace_block* block = NULL;
    char shown[BERTH_CSV_SHOWN_BYTES];
    BERTH_TRY(find_block(self, "released", &block));
    if (!block->escapes)
        return berth_csv_fail(
            self->csv, "'%s' is released twice", berth_csv_shown(block->id, shown));
    uint64_t bytes = block->bytes;
    if (text_of(self, BYTES)[0] != '\0') BERTH_TRY(read_bytes(self, &bytes));
    if (bytes != block->bytes)
        return berth_csv_fail(self->csv,
                              "'%s' is released with %llu bytes, allocated in line %u with %llu",
                              berth_csv_shown(block->id, shown),
                              (unsigned long long)bytes,
                              block->line,
                              (unsigned long long)block->bytes);
    block->escapes = false;
    block->upper = self->moment++;
    return BERTH_OK;
}

/// A segment taken from the driver or given back: read, but of no concern.
static berth_status read_segment(reader* self) {
    uint64_t bytes;
    return read_bytes(self, &bytes);
}

// ---- Symbols and sizes.

static berth_status name_is_taken(const reader* self, const char* name) {
    char shown[BERTH_CSV_SHOWN_BYTES];
    return berth_csv_fail(
        self->csv, "the name '%s' is taken already", berth_csv_shown(name, shown));
}

/// Reads "value" or "lowest..highest"; the text is split.
static berth_status read_values(reader* self, berth_trace_line_symbol* symbol) {
    char* text = self->csv->fields[self->columns.of[BYTES]];
    char* dots = strstr(text, "..");
    uint64_t low, high;
    if (dots != NULL) *dots = '\0';
    BERTH_TRY(berth_csv_number(self->csv, text, "the symbol's value", BERTH_TRACE_BYTES_MAX, &low));
    high = low;
    if (dots != NULL)
        BERTH_TRY(berth_csv_number(
            self->csv, dots + 2, "the symbol's value", BERTH_TRACE_BYTES_MAX, &high));
    if (low > high) return berth_csv_fail(self->csv, "the symbol's range ends before it begins");
    if (dots != NULL ? symbol->has_range : symbol->has_value)
        return name_is_taken(self, symbol->shown.name);
    if (dots != NULL) {
        symbol->has_range = true;
        symbol->shown.lowest = (int64_t)low;
        symbol->shown.highest = (int64_t)high;
        if (!symbol->has_value) symbol->shown.value = (int64_t)high;
        return BERTH_OK;
    }
    symbol->has_value = true;
    symbol->shown.value = (int64_t)low;
    if (!symbol->has_range) symbol->shown.lowest = symbol->shown.highest = (int64_t)low;
    return BERTH_OK;
}

static berth_status read_symbol(reader* self) {
    const char* name = text_of(self, ID);
    if (name[0] == '\0' || strpbrk(name, "{}") != NULL)
        return berth_csv_fail(self->csv, "a symbol needs a name without braces");
    if (self->columns.of[BYTES] >= self->csv->count)
        return berth_csv_fail(self->csv, "the symbol's value is missing");
    uint32_t at;
    if (!berth_name_table_find(&self->scope.names, name, strlen(name), &at)) {
        berth_trace_line_symbol symbol = {.shown = {.name = name}};
        BERTH_TRY(read_values(self, &symbol));
        if (self->section.first_definition != self->file->definitions.count)
            return berth_csv_fail(self->csv, "symbols are told before dimensions");
        return enter_symbol(self, &symbol);
    }
    if (at >= self->file->symbols.count - self->section.first_symbol)
        return name_is_taken(self, name);
    BERTH_TRY(read_values(self, symbol_at(self, at)));
    self->scope.values.items[at].value = symbol_at(self, at)->shown.value;
    return BERTH_OK;
}

/// Reads the expression of the current line, to find what is wrong with it.
static berth_status check_expression(reader* self, berth_expression_answer* out_answer) {
    const berth_status status =
        berth_trace_scope_evaluate(&self->scope, text_of(self, BYTES), out_answer);
    if (status != BERTH_ERR_CORRUPT) return status;
    return berth_fail_prefix(status, "%s:%u", self->csv->name, self->csv->line);
}

static berth_status read_definition(reader* self) {
    const char* name = text_of(self, ID);
    berth_expression_answer answer;
    bool is_new;
    if (name[0] == '\0' || strpbrk(name, "{}") != NULL)
        return berth_csv_fail(self->csv, "a dimension needs a name without braces");
    BERTH_TRY(check_expression(self, &answer));
    BERTH_TRY(berth_trace_scope_put(&self->scope, self->file->host, name, answer, &is_new));
    if (!is_new) return name_is_taken(self, name);
    const berth_trace_definition definition = {name, text_of(self, BYTES), self->csv->line};
    return berth_trace_definition_vec_push(&self->file->definitions, self->file->host, definition);
}

static berth_status read_model(reader* self) {
    berth_trace_block* block = NULL;
    berth_expression_answer answer;
    char shown[BERTH_CSV_SHOWN_BYTES];
    BERTH_TRY(find_block(self, "given a size", &block));
    if (block->model != NULL)
        return berth_csv_fail(
            self->csv, "'%s' is given a size twice", berth_csv_shown(block->id, shown));
    BERTH_TRY(check_expression(self, &answer));
    block->model = text_of(self, BYTES);
    return BERTH_OK;
}

static berth_status read_op(reader* self) {
    self->label = text_of(self, ID);
    return BERTH_OK;
}

// ---- Lines.

static berth_status read_letter(reader* self, char letter) {
    switch (letter) {
    case 'L':
        return read_allocation(self, true);
    case 'A':
        return read_allocation(self, false);
    case 'F':
        return read_release(self);
    case 'S':
    case 'D':
        return read_segment(self);
    case 'B':
        return read_step_begin(self);
    case 'E':
        return read_step_end(self);
    case 'P':
        return read_path(self);
    case 'Y':
        return read_symbol(self);
    case 'N':
        return read_definition(self);
    case 'M':
        return read_model(self);
    case 'O':
        return read_op(self);
    default:
        return berth_csv_fail(
            self->csv, "there is no op '%c', only A B D E F L M N O P S Y", letter);
    }
}

static berth_status read_line(reader* self) {
    const char* op = text_of(self, OP);
    char shown[BERTH_CSV_SHOWN_BYTES];
    if (op[0] <= ' ' || op[0] > '~' || op[1] != '\0')
        return berth_csv_fail(self->csv, "op is '%s', not one letter", berth_csv_shown(op, shown));
    BERTH_TRY(read_rest(self));
    return read_letter(self, op[0]);
}

static berth_status read_lines(reader* self) {
    begin_part(self, NULL, NULL, 0);
    for (bool more;;) {
        BERTH_TRY(berth_csv_next_row(self->csv, &self->columns, &more));
        if (!more) break;
        BERTH_TRY(read_line(self));
    }
    if (self->step != NULL)
        return berth_csv_fail(
            self->csv, "the file ends inside the step of line %u", self->step_line);
    return part_is_empty(self) && self->file->sections.count > 0 ? BERTH_OK : end_part(self);
}

berth_status berth_trace_lines_read(berth_trace_file* file, berth_csv* csv) {
    static const char* const names[COLUMNS] = {"op", "id", "bytes", "t_us", "site"};
    reader self = {.file = file, .csv = csv};
    berth_status status = berth_csv_read_header(csv, names, COLUMNS, COLUMNS, &self.columns);
    if (status == BERTH_OK) status = read_lines(&self);
    berth_name_table_fini(&self.ids, file->host);
    berth_trace_scope_fini(&self.scope, file->host);
    return status;
}
