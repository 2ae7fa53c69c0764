// SPDX-License-Identifier: Apache-2.0
// berth-config: what Berth's options are set to here, or the table of all options.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth/config.h"

typedef berth_status (*writer)(char* buffer, size_t size, size_t* out_needed);

static berth_status write_effective(char* buffer, size_t size, size_t* out_needed) {
    return berth_config_format(NULL, 0, buffer, size, out_needed);
}

static int fail(const char* reason) {
    (void)fprintf(stderr, "berth-config: %s\n", reason);
    return EXIT_FAILURE;
}

/// Asks for the length, then for the text, and prints it.
static int print(writer write) {
    size_t needed;
    if (write(NULL, 0, &needed) != BERTH_OK) return fail(berth_last_error());
    char* text = malloc(needed + 1);
    if (text == NULL) return fail("out of memory");
    int result = EXIT_SUCCESS;
    if (write(text, needed + 1, &needed) != BERTH_OK)
        result = fail(berth_last_error());
    else if (fputs(text, stdout) < 0 || fflush(stdout) != 0)
        result = fail("writing failed");
    free(text);
    return result;
}

int main(int argc, char** argv) {
    if (argc == 1) return print(write_effective);
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0) return print(berth_config_markdown);
    const int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    (void)fputs(
        "usage: berth-config [--markdown]\n"
        "Prints the options that a program started here would run with, and where each value\n"
        "comes from. --markdown prints the table of all options instead.\n",
        asked ? stdout : stderr);
    return asked ? EXIT_SUCCESS : 2;
}
