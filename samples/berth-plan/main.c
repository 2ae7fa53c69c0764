// SPDX-License-Identifier: Apache-2.0
// berth-plan: packs the buffers of problems and traces, on the public API alone.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

/// Of an id, with the zero byte, as printed.
enum { ID_BYTES = 48 };

/// Everything one run of the program holds.
typedef struct program {
    plan_options options;
    berth_trace_file** files; ///< [options.file_count]; NULL where one could not be read
    plan_case* cases;         ///< [case_count]
    size_t case_count;
    size_t case_capacity;
    int name_width;
    bool shows_sizes; ///< some sizes depend on symbols
    bool has_header;
    int status;
} program;

static void note(program* p, int status) {
    if (status > p->status) p->status = status;
}

static void complain(program* p, const char* subject, const char* reason) {
    (void)fprintf(stderr, "berth-plan: %s%s%s\n", subject, subject[0] != '\0' ? ": " : "", reason);
    note(p, PLAN_EXIT_BAD_INPUT);
}

// ---- Reading.

static void read_files(program* p) {
    for (size_t i = 0; i < p->options.file_count; i++) {
        const char* path = p->options.files[i];
        const char* source = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
        if (berth_trace_file_read(source, &p->files[i]) != BERTH_OK)
            complain(p, "", berth_last_error());
    }
}

static bool has_symbol(const berth_trace_file* file, size_t part, const char* name) {
    berth_trace_symbol symbol;
    for (size_t i = 0; berth_trace_file_query_symbol(file, part, i, &symbol) == BERTH_OK; i++)
        if (strcmp(symbol.name, name) == 0) return true;
    return false;
}

/// What a terminal would obey is not printed.
static void make_printable(char* text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) *text = '?';
}

/// Appends " name" to `known` unless it is there.
static void list_symbol(char* known, size_t size, const char* name) {
    const size_t length = strlen(name);
    for (const char* at = strchr(known, ' '); at != NULL; at = strchr(at + 1, ' '))
        if (strncmp(at + 1, name, length) == 0 && strchr(" ", at[1 + length]) != NULL) return;
    const size_t used = strlen(known);
    (void)snprintf(known + used, size - used, " %s", name);
}

/// Says that no file has a symbol called `name`, and which there are.
static void refuse_setting(program* p, const char* name) {
    char reason[256] = "no file has a symbol of this name, only";
    const size_t stem = strlen(reason);
    for (size_t f = 0; f < p->options.file_count; f++) {
        for (size_t part = 0; part < berth_trace_file_query_part_count(p->files[f]); part++) {
            berth_trace_symbol symbol;
            for (size_t i = 0;
                 berth_trace_file_query_symbol(p->files[f], part, i, &symbol) == BERTH_OK;
                 i++)
                list_symbol(reason + stem, sizeof reason - stem, symbol.name);
        }
    }
    make_printable(reason);
    complain(p,
             name,
             reason[stem] != '\0' ? reason : "no file has a symbol of this name, nor any other");
}

/// A symbol that no file has is a mistake.
static bool check_settings(program* p) {
    for (size_t s = 0; s < p->options.setting_count; s++) {
        const char* name = p->options.settings[s].name;
        bool found = false;
        for (size_t f = 0; f < p->options.file_count; f++)
            for (size_t i = 0; i < berth_trace_file_query_part_count(p->files[f]); i++)
                found = found || has_symbol(p->files[f], i, name);
        if (found) continue;
        refuse_setting(p, name);
        return false;
    }
    return true;
}

static void make_plain(char* text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    for (char* at = text + strspn(text, plain); *at != '\0'; at += strspn(at, plain))
        *at = '_';
}

/// Names a part by its file, step and path. False without memory.
static bool name_case(plan_case* item, const char* path, const berth_trace_part* part) {
    const char* slash = strrchr(path, '/');
    const char* base = slash != NULL ? slash + 1 : path;
    const char* dot = strrchr(base, '.');
    const int stem = dot != NULL && dot > base ? (int)(dot - base) : (int)strlen(base);
    const char* step = part->step != NULL ? part->step : "";
    const char* number = part->path != NULL ? part->path : "";
    const bool in_step = part->step != NULL;
    if (asprintf(&item->name,
                 "%s%s%s%s%s",
                 path,
                 in_step ? ":" : "",
                 step,
                 number[0] != '\0' ? "/" : "",
                 number) < 0)
        item->name = NULL;
    if (asprintf(&item->stem,
                 "%.*s%s%s%s%s",
                 stem,
                 base,
                 in_step ? "-" : "",
                 step,
                 number[0] != '\0' ? "-" : "",
                 number) < 0)
        item->stem = NULL;
    if (item->name == NULL || item->stem == NULL) return false;
    make_printable(item->name);
    make_plain(item->stem);
    return true;
}

/// The settings that concern a part, into `out` [setting_count]; returns how many.
static size_t settings_of(const program* p,
                          const berth_trace_file* file,
                          size_t part,
                          berth_trace_setting* out) {
    size_t count = 0;
    for (size_t s = 0; s < p->options.setting_count; s++)
        if (has_symbol(file, part, p->options.settings[s].name))
            out[count++] = p->options.settings[s];
    return count;
}

static plan_case* add_case(program* p) {
    if (p->case_count == p->case_capacity) {
        const size_t capacity = 2 * p->case_capacity + 8;
        plan_case* grown = realloc(p->cases, capacity * sizeof *grown);
        if (grown == NULL) return NULL;
        p->cases = grown;
        p->case_capacity = capacity;
    }
    p->cases[p->case_count] = (plan_case){0};
    return &p->cases[p->case_count++];
}

/// Makes the case of one part; false without memory.
static bool make_case(program* p, size_t file, size_t part, berth_trace_setting* settings) {
    plan_case* item = add_case(p);
    berth_trace_part info;
    if (item == NULL || berth_trace_file_query_part(p->files[file], part, &info) != BERTH_OK)
        return false;
    if (!name_case(item, p->options.files[file], &info)) return false;
    const size_t count = settings_of(p, p->files[file], part, settings);
    item->has_symbols = info.symbol_count > 0;
    p->shows_sizes = p->shows_sizes || item->has_symbols;
    if ((int)strlen(item->name) > p->name_width) p->name_width = (int)strlen(item->name);
    if (berth_problem_create(p->files[file], part, settings, count, &item->problem) != BERTH_OK)
        complain(p, item->name, berth_last_error());
    return true;
}

static bool make_cases(program* p) {
    berth_trace_setting* settings = calloc(p->options.setting_count + 1, sizeof *settings);
    bool fits = settings != NULL;
    for (size_t f = 0; f < p->options.file_count && fits; f++)
        for (size_t i = 0; i < berth_trace_file_query_part_count(p->files[f]) && fits; i++)
            fits = make_case(p, f, i, settings);
    free(settings);
    if (!fits) complain(p, "", "out of memory");
    return fits;
}

/// Several problems cannot be written to one file.
static bool check_outputs(program* p) {
    const char* const outputs[] = {p->options.output, p->options.svg};
    for (size_t i = 0; i < 2 && p->case_count > 1; i++) {
        if (outputs[i] == NULL || strchr(outputs[i], '%') != NULL) continue;
        complain(p, outputs[i], "several problems go to one file; a % stands for their names");
        return false;
    }
    return true;
}

static bool stem_is_taken(const program* p, size_t before, const char* stem) {
    for (size_t i = 0; i < before; i++)
        if (strcmp(p->cases[i].stem, stem) == 0) return true;
    return false;
}

/// Adds its place among the problems to the stem of each that is called like an earlier one, so
/// that no output takes another's place.
static bool tell_stems_apart(program* p) {
    for (size_t i = 0; i < p->case_count; i++) {
        plan_case* item = &p->cases[i];
        while (stem_is_taken(p, i, item->stem)) {
            char* longer;
            if (asprintf(&longer, "%s-%zu", item->stem, i + 1) < 0) {
                complain(p, "", "out of memory");
                return false;
            }
            free(item->stem);
            item->stem = longer;
        }
    }
    return true;
}

// ---- Results.

static const char* size_word(const plan_case* item) {
    return item->has_symbols ? berth_estimate_text(berth_problem_query_kind(item->problem))
                             : "given";
}

/// Results go to stderr where offsets go to stdout.
static FILE* results_stream(const program* p) {
    return p->options.output != NULL && strcmp(p->options.output, "-") == 0 ? stderr : stdout;
}

static void print_header(program* p) {
    if (p->has_header) return;
    p->has_header = true;
    (void)fprintf(results_stream(p),
                  "%-*s %8s %16s %16s %7s  %-7s %10s%s%s\n",
                  p->name_width,
                  "problem",
                  "buffers",
                  "peak",
                  "lower bound",
                  "ratio",
                  p->options.verify ? "verdict" : "proof",
                  "ms",
                  p->options.capacity > 0 ? "  capacity" : "",
                  p->shows_sizes ? "  sizes" : "");
}

static void print_case(program* p, const plan_case* item, const char* verdict) {
    const berth_pack_result* result = &item->result;
    const bool fits = result->peak <= p->options.capacity;
    print_header(p);
    (void)fprintf(results_stream(p),
                  "%-*s %8zu %16" PRIu64 " %16" PRIu64 " %7.4f  %-7s %10.3f%s%s%s\n",
                  p->name_width,
                  item->name,
                  berth_problem_query_pack(item->problem)->count,
                  result->peak,
                  result->lower_bound,
                  result->lower_bound > 0 ? (double)result->peak / (double)result->lower_bound
                                          : 1.0,
                  verdict,
                  item->cpu_ms,
                  p->options.capacity == 0 ? ""
                  : fits                   ? "  fits    "
                                           : "  exceeded",
                  p->shows_sizes ? "  " : "",
                  p->shows_sizes ? size_word(item) : "");
    (void)fflush(results_stream(p));
    if (p->options.capacity > 0 && !fits) note(p, PLAN_EXIT_UNSOLVED);
}

static void write_files(program* p, const plan_case* item) {
    const plan_options* options = &p->options;
    if (options->output != NULL && !plan_write_offsets(item, options->output))
        note(p, PLAN_EXIT_BAD_INPUT);
    if (options->svg != NULL && !plan_write_svg(item, options->capacity, options->svg))
        note(p, PLAN_EXIT_BAD_INPUT);
}

// ---- Planning and checking.

static void plan(program* p, plan_case* item) {
    const berth_status status = plan_search_run(item, &p->options);
    if (status != BERTH_OK) {
        const char* reason = berth_last_error();
        complain(p, item->name, reason[0] != '\0' ? reason : berth_status_text(status));
        return;
    }
    print_case(p, item, item->result.proved ? "proved" : "open");
    write_files(p, item);
}

/// Copies as much of an id as is printed.
static const char* printable(const char* id, char out[ID_BYTES]) {
    (void)snprintf(out, ID_BYTES, "%s", id);
    make_printable(out);
    return out;
}

/// Says which buffers are at fault.
static void explain(program* p, const plan_case* item, const berth_pack_verdict* verdict) {
    berth_problem_row first, second;
    char first_id[ID_BYTES];
    char second_id[ID_BYTES];
    if (berth_problem_query_row(item->problem, verdict->first, &first) != BERTH_OK ||
        berth_problem_query_row(item->problem, verdict->second, &second) != BERTH_OK)
        return;
    note(p, PLAN_EXIT_UNSOLVED);
    if (verdict->first == verdict->second)
        (void)fprintf(stderr,
                      "%s:%" PRIu32 ": '%s' at %" PRIu64
                      " is at no multiple of its alignment, %" PRIu64 "\n",
                      item->name,
                      first.line,
                      printable(first.id, first_id),
                      first.offset,
                      first.alignment);
    else
        (void)fprintf(stderr,
                      "%s:%" PRIu32 ": '%s' at %" PRIu64 " (%" PRIu64
                      " bytes) and '%s' of line %" PRIu32 " at %" PRIu64 " (%" PRIu64
                      " bytes) share bytes while both are alive\n",
                      item->name,
                      first.line,
                      printable(first.id, first_id),
                      first.offset,
                      first.size,
                      printable(second.id, second_id),
                      second.line,
                      second.offset,
                      second.size);
}

/// Takes the offsets of the file; false if one is missing.
static bool take_offsets(program* p, plan_case* item) {
    const size_t count = berth_problem_query_pack(item->problem)->count;
    item->offsets = calloc(count + 1, sizeof *item->offsets);
    if (item->offsets == NULL) {
        complain(p, item->name, "out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        berth_problem_row row;
        char id[ID_BYTES];
        if (berth_problem_query_row(item->problem, i, &row) != BERTH_OK) return false;
        item->offsets[i] = row.offset;
        if (row.offset != BERTH_PACK_ANYWHERE) continue;
        (void)fprintf(stderr,
                      "berth-plan: %s:%" PRIu32 ": '%s' has no offset to check\n",
                      item->name,
                      row.line,
                      printable(row.id, id));
        note(p, PLAN_EXIT_BAD_INPUT);
        return false;
    }
    return true;
}

static void verify(program* p, plan_case* item) {
    if (!take_offsets(p, item)) return;
    berth_pack_problem pack = *berth_problem_query_pack(item->problem);
    pack.fixed_offsets = NULL; // they are what is to be checked
    berth_pack_verdict verdict;
    const double begun_s = plan_search_cpu_s();
    const berth_status status = berth_pack_verify(&pack, item->offsets, &verdict);
    item->cpu_ms = (plan_search_cpu_s() - begun_s) * 1e3;
    if (status != BERTH_OK) {
        complain(p, item->name, berth_last_error());
        return;
    }
    item->result =
        (berth_pack_result){.peak = verdict.peak,
                            .lower_bound = verdict.lower_bound,
                            .proved = verdict.valid && verdict.peak == verdict.lower_bound};
    print_case(p, item, verdict.valid ? "valid" : "INVALID");
    if (!verdict.valid) explain(p, item, &verdict);
    write_files(p, item);
}

static void work(program* p) {
    read_files(p);
    if (!check_settings(p) || !make_cases(p) || !check_outputs(p) || !tell_stems_apart(p)) return;
    if (p->options.improve_s > 0) plan_search_catch_interrupt();
    for (size_t i = 0; i < p->case_count; i++) {
        if (p->cases[i].problem == NULL) continue;
        if (p->options.verify)
            verify(p, &p->cases[i]);
        else
            plan(p, &p->cases[i]);
    }
    if (fflush(stdout) != 0 || ferror(stdout) != 0)
        complain(p, "the standard output", "writing failed");
}

static void fini(program* p) {
    for (size_t i = 0; i < p->case_count; i++) {
        berth_problem_destroy(p->cases[i].problem);
        free(p->cases[i].offsets);
        free(p->cases[i].name);
        free(p->cases[i].stem);
    }
    free(p->cases);
    for (size_t i = 0; p->files != NULL && i < p->options.file_count; i++)
        berth_trace_file_destroy(p->files[i]);
    free(p->files);
    plan_options_fini(&p->options);
}

int main(int argc, char** argv) {
    program p = {.name_width = 7};
    if (plan_options_read(&p.options, argc, argv, &p.status)) {
        p.status = PLAN_EXIT_SOLVED;
        p.files = calloc(p.options.file_count + 1, sizeof(berth_trace_file*));
        if (p.files != NULL)
            work(&p);
        else
            complain(&p, "", "out of memory");
    }
    fini(&p);
    return p.status;
}
