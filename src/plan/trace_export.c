// SPDX-License-Identifier: Apache-2.0
// Writes what is known of a step as a section of a trace file (docs/trace-format.md).
#include "plan/trace_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "plan/form_text.h"
#include "plan/step_model_impl.h"
#include "plan/trace_file.h"

typedef struct exporter {
    berth_step_model* model;
    const berth_event_names* names;
    berth_byte_writer* out;
    berth_byte_writer expression; ///< the one being written
    char** symbols;               ///< [binding_count] names fit for expressions
    char prefix[16];              ///< of names of dimensions
} exporter;

// ---- Fields.

/// Writes `text` [bytes] as a field, in quotes where it needs them.
static void write_field(berth_byte_writer* out, const char* text, size_t bytes) {
    bool plain = true;
    for (size_t i = 0; i < bytes; i++)
        plain = plain && text[i] != ',' && text[i] != '"' && text[i] != ' ' && text[i] != '\t';
    if (plain) {
        berth_write_bytes(out, text, bytes);
        return;
    }
    berth_write_bytes(out, "\"", 1);
    for (size_t i = 0; i < bytes; i++)
        berth_write_bytes(out, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1);
    berth_write_bytes(out, "\"", 1);
}

static void write_text_field(berth_byte_writer* out, const char* text) {
    write_field(out, text, strlen(text));
}

/// Writes the expression made last as a field.
static void write_expression(exporter* self) {
    write_field(self->out, (const char*)self->expression.data, self->expression.count);
    self->out->failed = self->out->failed || self->expression.failed;
    self->expression.count = 0;
}

/// A copy of `name` without what neither a line nor an expression may have.
static char* clean_name(const berth_host* host, const char* name) {
    char* copy = berth_host_strdup(host, name[0] != '\0' ? name : "_");
    for (char* at = copy; at != NULL && *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7F || *at == '{' || *at == '}') *at = '_';
    return copy;
}

/// Finds a prefix that no symbol begins with.
static void choose_prefix(exporter* self) {
    (void)snprintf(self->prefix, sizeof self->prefix, "d");
    for (size_t length = 1; length + 1 < sizeof self->prefix; length++) {
        bool taken = false;
        for (uint32_t i = 0; i < self->model->binding_count; i++)
            taken = taken || strncmp(self->symbols[i], self->prefix, length) == 0;
        if (!taken) return;
        memcpy(self->prefix + length, "_", 2);
    }
}

// ---- Symbols.

static const int64_t* run_at(const berth_size_model* sizes, uint32_t run) {
    return sizes->runs + (size_t)run * sizes->binding_count;
}

static uint32_t newest_run(const berth_size_model* sizes) {
    uint32_t newest = 0;
    for (uint32_t run = 1; run < sizes->run_count; run++)
        if (sizes->run_age[run] > sizes->run_age[newest]) newest = run;
    return newest;
}

static void write_symbols(exporter* self, const berth_size_model* sizes, const int64_t* values) {
    for (uint32_t i = 0; i < sizes->binding_count; i++) {
        berth_write_format(self->out, "Y,");
        write_text_field(self->out, self->symbols[i]);
        berth_write_format(self->out, ",%" PRId64 ",,\n", values[i]);
        if (!berth_size_model_varies(sizes, i)) continue;
        int64_t low = values[i], high = values[i];
        for (uint32_t run = 0; run < sizes->run_count; run++) {
            const int64_t seen = run_at(sizes, run)[i];
            if (seen < low) low = seen;
            if (seen > high) high = seen;
        }
        if (low == high) high++; // it has varied; a range of one value says that it is fixed
        berth_write_format(self->out, "Y,");
        write_text_field(self->out, self->symbols[i]);
        berth_write_format(self->out, ",%" PRId64 "..%" PRId64 ",,\n", low, high);
    }
}

// ---- Sizes.

static bool follows_forms(const berth_size_class* class) {
    return !class->frame && !class->data && class->forms.count > 0;
}

static bool is_number(const berth_size_class* class) {
    const berth_form* form = &class->forms.items[0];
    return follows_forms(class) && class->forms.confirmed && class->forms.count == 1 &&
           form->factor_count == 0 && form->limit_kind == BERTH_FORM_UNLIMITED;
}

static void write_class(exporter* self, const berth_size_class* class, int64_t observed) {
    berth_byte_writer* out = &self->expression;
    if (!follows_forms(class)) {
        berth_write_format(out, "observed(%" PRId64 ")", observed);
        return;
    }
    if (!class->forms.confirmed) berth_write_format(out, "observed(");
    if (class->forms.count > 1) berth_write_format(out, "max(");
    for (uint8_t i = 0; i < class->forms.count; i++) {
        if (i > 0) berth_write_format(out, "|");
        berth_form_write(out, &class->forms.items[i], (const char* const*)self->symbols);
    }
    if (class->forms.count > 1) berth_write_format(out, ")");
    if (!class->forms.confirmed) berth_write_format(out, ")");
}

/// A line for each dimension that is more than a number.
static void write_dimensions(exporter* self, const berth_size_model* sizes) {
    for (size_t c = 0; c < sizes->classes.count; c++) {
        const berth_size_class* class = &sizes->classes.items[c];
        if (is_number(class)) continue;
        berth_write_format(self->out, "N,%s%zu,", self->prefix, c);
        write_class(self, class, sizes->class_value[c]);
        write_expression(self);
        berth_write_format(self->out, ",,\n");
    }
}

static void write_dimension(exporter* self, const berth_size_model* sizes, uint32_t c) {
    if (is_number(&sizes->classes.items[c]))
        berth_write_format(&self->expression, "%" PRId64, sizes->class_value[c]);
    else
        berth_write_format(&self->expression, "%s%u", self->prefix, c);
}

/// Bytes of a value: blocks times their bytes.
static void write_kind(exporter* self, const berth_size_model* sizes, const berth_size_kind* kind) {
    const berth_dtype_info* info = berth_dtype_query_info((berth_dtype)kind->dtype);
    berth_write_format(&self->expression, "%u", (unsigned)info->block_bytes);
    for (uint32_t d = 0; d < kind->rank; d++) {
        const bool blocked = d + 1 == kind->rank && info->block_values > 1;
        berth_write_format(&self->expression, blocked ? "*ceil(" : "*");
        write_dimension(self, sizes, kind->classes[d]);
        if (blocked) berth_write_format(&self->expression, "/%u)", (unsigned)info->block_values);
    }
    write_expression(self);
}

// ---- Events.

static void write_event(exporter* self, const berth_known_path* path, uint32_t e) {
    const berth_path* shown = &path->version->shown;
    const berth_trace_event* event = &shown->events[e];
    char name[BERTH_EVENT_NAME_BYTES];
    if (!self->names->name_of(self->names->self, event->kind, event->tag, name)) name[0] = '\0';
    berth_write_format(self->out, "O,");
    write_text_field(self->out, name);
    berth_write_format(self->out, ",,%u,\n", e);
    for (uint32_t v = event->first_value; v < event->first_value + event->value_count; v++) {
        const uint64_t bytes = self->model->workspace.sizes[v];
        berth_write_format(self->out, "A,%u,%" PRIu64 ",%u,%u\nM,%u,", v, bytes, e, e, v);
        write_kind(self, &path->sizes, &path->sizes.kinds.items[path->sizes.kind_of[v]]);
        berth_write_format(self->out, ",,\n");
    }
    for (uint32_t i = shown->expired_at[e]; i < shown->expired_at[e + 1]; i++)
        berth_write_format(self->out, "F,%u,,%u,-1\n", shown->expired[i], e);
}

/// Evaluates the sizes at `values` into the workspace; false if they are too large for a file.
static bool evaluate(exporter* self, berth_known_path* path, const int64_t* values) {
    berth_plan_workspace* workspace = &self->model->workspace;
    int64_t below[BERTH_BINDINGS_MAX];
    if (berth_plan_workspace_reserve(workspace, &path->version->shown) != BERTH_OK) {
        self->out->failed = true;
        return false;
    }
    for (uint32_t i = 0; i < path->sizes.binding_count; i++)
        below[i] = values[i] - 1;
    (void)berth_size_model_evaluate(&path->sizes, below, values, values, workspace->sizes);
    uint64_t sum = 0;
    for (uint32_t v = 0; v < path->version->shown.value_count; v++)
        if (!berth_add_u64(sum, workspace->sizes[v], &sum)) return false;
    return sum <= BERTH_TRACE_BYTES_MAX;
}

static void write_path(exporter* self, berth_known_path* path) {
    const int64_t* values = run_at(&path->sizes, newest_run(&path->sizes));
    if (!evaluate(self, path, values)) return;
    berth_write_format(self->out, "P,%u,,,\n", path->id);
    write_symbols(self, &path->sizes, values);
    write_dimensions(self, &path->sizes);
    for (uint32_t e = 0; e < path->version->shown.event_count; e++)
        write_event(self, path, e);
}

// ---- The step.

static bool clean_names(exporter* self) {
    const berth_step_model* model = self->model;
    self->symbols =
        berth_host_calloc(model->host, model->binding_count + (size_t)1, sizeof *self->symbols);
    bool fits = self->symbols != NULL;
    for (uint32_t i = 0; fits && i < model->binding_count; i++) {
        self->symbols[i] = clean_name(model->host, model->binding_names[i]);
        fits = self->symbols[i] != NULL;
    }
    return fits;
}

static void free_names(exporter* self) {
    for (uint32_t i = 0; self->symbols != NULL && i < self->model->binding_count; i++)
        berth_host_free(self->model->host, self->symbols[i]);
    berth_host_free(self->model->host, self->symbols);
}

static void write_step(exporter* self) {
    char* name = clean_name(self->model->host, self->model->name);
    if (name == NULL || !clean_names(self)) {
        self->out->failed = true;
    } else {
        choose_prefix(self);
        berth_write_format(self->out, "B,");
        write_text_field(self->out, name);
        berth_write_format(self->out, ",%u,,\n", BERTH_PLAN_ALIGNMENT);
        for (uint32_t i = 0; i < self->model->path_count; i++)
            write_path(self, &self->model->paths[i]);
        berth_write_format(self->out, "E,,,,\n");
    }
    free_names(self);
    berth_host_free(self->model->host, name);
}

void berth_step_model_write_trace(berth_step_model* model,
                                  const berth_event_names* names,
                                  berth_byte_writer* out) {
    exporter self = {
        .model = model, .names = names, .out = out, .expression = {.host = model->host}};
    berth_mutex_lock(&model->lock);
    if (model->path_count > 0) write_step(&self);
    berth_mutex_unlock(&model->lock);
    berth_byte_writer_fini(&self.expression);
}
