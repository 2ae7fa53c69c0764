// SPDX-License-Identifier: Apache-2.0
// Reads the command line of berth-plan.
#include "plan_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: berth-plan [OPTIONS] FILE...\n"
    "Packs buffers with given lifetimes into as few bytes as it can. A FILE holds a packing\n"
    "problem (columns id,lower,upper,size and, if wanted, alignment, offset, exclusive, in_place)\n"
    "or a trace of allocations (columns op,id,bytes,t_us,site), each path of each step of which "
    "is\n"
    "a problem. docs/trace-format.md describes both. - is the standard input.\n"
    "\n"
    "  --quick             a portfolio of orders, milliseconds (the default)\n"
    "  --improve SECONDS   then search for better packings, so much CPU time for each problem;\n"
    "                      it ends at a proof, and an interrupt (Ctrl-C) ends it with the best\n"
    "  --capacity BYTES    bytes that are enough, such as 1048576, 1M or 1MiB\n"
    "  --at NAME=VALUE     the value of a symbol of a trace, such as tokens.0=512; repeatable\n"
    "  -o, --output FILE   write the offsets as CSV: the columns of the problem and offset;\n"
    "                      - is the standard output\n"
    "  --svg FILE          draw the packing: time across, addresses up\n"
    "  --verify            check the offsets that the files give instead of planning\n"
    "  --ignore-offsets    plan as if the files gave no offsets (they are kept otherwise)\n"
    "  --seed NUMBER       of the search's random choices\n"
    "  --help              this text\n"
    "\n"
    "With several problems, a % in the name of an output stands for the problem's name, with its\n"
    "place among them where an earlier one has the same.\n"
    "Prints for each problem: buffers, peak, lower bound, peak / bound, whether the peak is "
    "proved\n"
    "to be the least, and milliseconds of CPU time.\n"
    "Exit status: 0 solved, 1 not within the capacity or a solution that is not valid, 2 bad "
    "input.\n";

static bool fail(const char* sentence, const char* argument) {
    const bool quotes = argument != NULL;
    (void)fprintf(stderr,
                  "berth-plan: %s%s%s%s\nTry berth-plan --help.\n",
                  sentence,
                  quotes ? ": '" : "",
                  quotes ? argument : "",
                  quotes ? "'" : "");
    return false;
}

static bool read_whole(const char* text, uint64_t* out_number, const char** out_end) {
    if (text[0] < '0' || text[0] > '9') return false;
    char* end;
    errno = 0;
    *out_number = strtoull(text, &end, 10);
    *out_end = end;
    return errno == 0;
}

/// Reads bytes: a whole number and, if wanted, K, M, G, T or KiB and so on.
static bool read_bytes(const char* text, uint64_t* out_bytes) {
    static const char units[] = "KMGT";
    const char* end;
    if (!read_whole(text, out_bytes, &end)) return false;
    if (*end == '\0') return true;
    const char* unit = strchr(units, *end);
    if (unit == NULL || (strcmp(end + 1, "") != 0 && strcmp(end + 1, "iB") != 0)) return false;
    const unsigned shift = 10 * (unsigned)(unit - units + 1);
    if (*out_bytes > UINT64_MAX >> shift) return false;
    *out_bytes <<= shift;
    return true;
}

static bool read_seconds(const char* text, double* out_seconds) {
    char* end;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.') return false;
    *out_seconds = strtod(text, &end);
    return end != text && *end == '\0' && *out_seconds > 0 && *out_seconds <= 1e6;
}

static bool read_setting(plan_options* options, const char* text) {
    const char* equals = strrchr(text, '=');
    const char* end;
    uint64_t value;
    if (equals == NULL || equals == text || !read_whole(equals + 1, &value, &end) || *end != '\0' ||
        value > INT64_MAX)
        return fail("--at takes NAME=VALUE, a whole number, not", text);
    char* name = strndup(text, (size_t)(equals - text));
    if (name == NULL) return fail("out of memory", NULL);
    options->settings[options->setting_count++] = (berth_trace_setting){name, (int64_t)value};
    return true;
}

/// Reads an option with a value. False if it is wrong.
static bool read_valued(plan_options* options, const char* name, const char* value) {
    const char* end;
    if (strcmp(name, "--improve") == 0)
        return read_seconds(value, &options->improve_s) ||
               fail("--improve takes seconds above 0, not", value);
    if (strcmp(name, "--capacity") == 0)
        return (read_bytes(value, &options->capacity) && options->capacity > 0) ||
               fail("--capacity takes bytes above 0, such as 1M, not", value);
    if (strcmp(name, "--seed") == 0)
        return (read_whole(value, &options->seed, &end) && *end == '\0') ||
               fail("--seed takes a whole number, not", value);
    if (strcmp(name, "--at") == 0) return read_setting(options, value);
    if (strcmp(name, "--svg") == 0)
        options->svg = value;
    else
        options->output = value;
    return true;
}

static bool takes_value(const char* name) {
    static const char* const names[] = {
        "--improve", "--capacity", "--seed", "--at", "--svg", "--output", "-o"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static bool read_flag(plan_options* options, const char* name) {
    if (strcmp(name, "--quick") == 0)
        options->improve_s = 0;
    else if (strcmp(name, "--verify") == 0)
        options->verify = true;
    else if (strcmp(name, "--ignore-offsets") == 0)
        options->ignores_offsets = true;
    else
        return fail("there is no such option", name);
    return true;
}

/// Reads the option at `*at`, "--name value" or "--name=value", and passes it.
static bool read_option(plan_options* options, int argc, char** argv, int* at) {
    char* name = argv[(*at)++];
    if (takes_value(name)) {
        if (*at == argc) return fail("a value is missing after", name);
        return read_valued(options, name, argv[(*at)++]);
    }
    char* equals = strchr(name, '=');
    if (equals == NULL) return read_flag(options, name);
    *equals = '\0';
    if (!takes_value(name) || name[1] != '-')
        return fail("there is no such option with a value", name);
    return read_valued(options, name, equals + 1);
}

/// True if the options fit together.
static bool check(const plan_options* options) {
    if (options->file_count == 0) return fail("a file is needed", NULL);
    if (options->verify && (options->improve_s > 0 || options->output != NULL))
        return fail("--verify plans nothing: it goes with neither --improve nor --output", NULL);
    if (options->verify && options->ignores_offsets)
        return fail("--verify needs the offsets that --ignore-offsets leaves out", NULL);
    if (options->svg != NULL && strcmp(options->svg, "-") == 0)
        return fail("--svg needs the name of a file", NULL);
    return true;
}

static bool read_arguments(plan_options* options, int argc, char** argv) {
    bool only_files = false;
    for (int at = 1; at < argc;) {
        const char* argument = argv[at];
        if (only_files || argument[0] != '-' || argument[1] == '\0') {
            options->files[options->file_count++] = argument;
            at++;
        } else if (strcmp(argument, "--") == 0) {
            only_files = true;
            at++;
        } else if (!read_option(options, argc, argv, &at)) {
            return false;
        }
    }
    return check(options);
}

bool plan_options_read(plan_options* options, int argc, char** argv, int* out_status) {
    *options = (plan_options){0};
    *out_status = PLAN_EXIT_BAD_INPUT;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") != 0) continue;
        const bool printed = fputs(help, stdout) >= 0 && fflush(stdout) == 0;
        *out_status = printed ? PLAN_EXIT_SOLVED : PLAN_EXIT_BAD_INPUT;
        return false;
    }
    options->files = calloc((size_t)argc + 1, sizeof *options->files);
    options->settings = calloc((size_t)argc + 1, sizeof *options->settings);
    if (options->files == NULL || options->settings == NULL) return fail("out of memory", NULL);
    return read_arguments(options, argc, argv);
}

void plan_options_fini(plan_options* options) {
    for (size_t i = 0; i < options->setting_count; i++)
        free((void*)(uintptr_t)options->settings[i].name);
    free(options->settings);
    free(options->files);
}
