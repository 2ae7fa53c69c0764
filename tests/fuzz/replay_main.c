// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on every file of its corpus, and on seeded variations of each: cut short, with
// bytes changed, with a stretch doubled. No fuzzer is needed for that.
//
// Usage: replay_NAME FOLDER
#include "fuzz_target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIATIONS = 200 };

static uint64_t next_random(uint64_t* state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/// Runs the target on a block of exactly `size` bytes, so that a read past its end is seen.
static void run_exactly(const uint8_t* data, size_t size) {
    uint8_t* block = malloc(size == 0 ? 1 : size);
    if (block == NULL) abort();
    if (size > 0) memcpy(block, data, size);
    LLVMFuzzerTestOneInput(block, size);
    free(block);
}

static void run_variation(const uint8_t* data, size_t size, uint64_t* random) {
    uint8_t* changed = malloc(2 * size);
    if (changed == NULL) abort();
    memcpy(changed, data, size);
    size_t length = size;
    switch (next_random(random) % 3) {
    case 0:
        length = next_random(random) % size;
        break;
    case 1:
        for (uint64_t left = 1 + next_random(random) % 4; left > 0; left--)
            changed[next_random(random) % size] = (uint8_t)next_random(random);
        break;
    default: {
        size_t from = next_random(random) % size;
        size_t count = next_random(random) % (size - from);
        memmove(changed + from + count, data + from, size - from);
        length = size + count;
        break;
    }
    }
    run_exactly(changed, length);
    free(changed);
}

/// Reads a whole file; the caller frees the result. Returns NULL when it cannot be read.
static uint8_t* read_file(const char* path, size_t* out_size) {
    FILE* file = fopen(path, "rb");
    if (file == NULL) return NULL;
    size_t size = 0, capacity = 4096;
    uint8_t* data = malloc(capacity);
    while (data != NULL) {
        size += fread(data + size, 1, capacity - size, file);
        if (size < capacity) break;
        capacity *= 2;
        uint8_t* grown = realloc(data, capacity);
        if (grown == NULL) free(data);
        data = grown;
    }
    fclose(file);
    *out_size = size;
    return data;
}

static int replay_file(const char* folder, const char* name, uint64_t* random) {
    char path[4096];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    uint8_t* data = read_file(path, &size);
    if (data == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    run_exactly(data, size);
    for (int i = 0; i < VARIATIONS && size > 1; i++)
        run_variation(data, size, random);
    free(data);
    return 0;
}

int main(int argument_count, char** arguments) {
    if (argument_count != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
        return 2;
    }
    struct dirent** entries;
    int count = scandir(arguments[1], &entries, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "cannot read the folder %s\n", arguments[1]);
        return 1;
    }
    uint64_t random = 0x2545f4914f6cdd1d;
    int failures = 0, replayed = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            failures += replay_file(arguments[1], entries[i]->d_name, &random);
            replayed++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs, %d variations of each\n", replayed, VARIATIONS);
    return failures > 0 || replayed == 0;
}
