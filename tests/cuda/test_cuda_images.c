// SPDX-License-Identifier: Apache-2.0
// The fat binaries that the module carries, by their headers: machine code for the devices that are
// promised, and PTX for newer ones. Skipped where the toolkit did not make them.
#include "test.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BERTH_CUDA_IMAGES_DIR
#define BERTH_CUDA_IMAGES_DIR ""
#endif

enum { PTX = 1, MACHINE_CODE = 2 };

/// The beginning of a fat binary, and of each of its parts.
typedef struct fat_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t parts_bytes;
} fat_header;

typedef struct part_header {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t unused[3];
    uint32_t architecture;
} part_header;

typedef struct contents {
    bool has_sm_80, has_sm_90, has_ptx;
    int parts;
} contents;

static unsigned char* read_whole(const char* path, size_t* out_size) {
    FILE* file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    unsigned char* bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), (size_t)size);
    (void)fclose(file);
    *out_size = (size_t)size;
    return bytes;
}

static contents list_parts(const char* path) {
    size_t size;
    unsigned char* bytes = read_whole(path, &size);
    fat_header whole;
    assert_true(size > sizeof whole);
    memcpy(&whole, bytes, sizeof whole);
    assert_int_equal(whole.magic, 0xba55ed50u);
    contents found = {0};
    for (size_t at = whole.header_bytes; at + sizeof(part_header) <= size; found.parts++) {
        part_header part;
        memcpy(&part, bytes + at, sizeof part);
        if (part.kind == MACHINE_CODE && part.architecture == 80) found.has_sm_80 = true;
        if (part.kind == MACHINE_CODE && part.architecture == 90) found.has_sm_90 = true;
        if (part.kind == PTX && part.architecture == 90) found.has_ptx = true;
        at += part.header_bytes + part.bytes;
    }
    free(bytes);
    return found;
}

static void every_image_holds_sm_80_and_sm_90_and_ptx(void** state) {
    (void)state;
    const char* folder = BERTH_CUDA_IMAGES_DIR;
    if (folder[0] == '\0') {
        print_message("skipped: this build has no CUDA Toolkit\n");
        skip();
    }
    DIR* directory = opendir(folder);
    assert_non_null(directory);
    int images = 0;
    for (const struct dirent* entry; (entry = readdir(directory)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (length < 7 || strcmp(entry->d_name + length - 7, ".fatbin") != 0) continue;
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        const contents found = list_parts(path);
        assert_int_equal(found.parts, 3);
        assert_true(found.has_sm_80 && found.has_sm_90 && found.has_ptx);
        images++;
    }
    (void)closedir(directory);
    assert_true(images > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_image_holds_sm_80_and_sm_90_and_ptx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
