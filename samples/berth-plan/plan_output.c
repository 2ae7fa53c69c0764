// SPDX-License-Identifier: Apache-2.0
// Whole files, and offsets as CSV.
#include "plan_output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(const char* path, int error) {
    (void)fprintf(stderr,
                  "berth-plan: '%s' cannot be written: %s\n",
                  path != NULL ? path : "the standard output",
                  strerror(error));
    return false;
}

/// `pattern` with `stem` for its %; NULL without memory.
static char* fill_pattern(const char* pattern, const char* stem) {
    const char* percent = strchr(pattern, '%');
    if (percent == NULL) return strdup(pattern);
    char* path;
    const int head = (int)(percent - pattern);
    return asprintf(&path, "%.*s%s%s", head, pattern, stem, percent + 1) >= 0 ? path : NULL;
}

/// Opens a new file beside `file->path`. 0, or what failed.
static int open_beside(plan_file* file) {
    struct stat info;
    // what is no regular file, such as /dev/null or a link, is written where it is
    if (lstat(file->path, &info) == 0 && !S_ISREG(info.st_mode)) {
        file->stream = fopen(file->path, "w");
        return file->stream != NULL ? 0 : errno;
    }
    if (asprintf(&file->temporary, "%s.%ld.tmp", file->path, (long)getpid()) < 0) {
        file->temporary = NULL;
        return ENOMEM;
    }
    file->stream = fopen(file->temporary, "wx");
    return file->stream != NULL ? 0 : errno;
}

static void free_names(plan_file* file) {
    free(file->path);
    free(file->temporary);
}

bool plan_file_begin(plan_file* file, const char* pattern, const plan_case* item) {
    *file = (plan_file){0};
    if (strcmp(pattern, "-") == 0) {
        file->stream = stdout;
        return true;
    }
    file->path = fill_pattern(pattern, item->stem);
    const int error = file->path == NULL ? ENOMEM : open_beside(file);
    if (error == 0) return true;
    (void)fail(file->path != NULL ? file->path : pattern, error);
    free_names(file);
    return false;
}

/// Writes what is still to be written, and closes. 0, or what failed.
static int close_stream(plan_file* file) {
    errno = 0;
    const bool earlier = ferror(file->stream) != 0;
    bool failed = fflush(file->stream) != 0;
    if (!failed && file->temporary != NULL) failed = fsync(fileno(file->stream)) != 0;
    int error = !failed ? 0 : errno != 0 ? errno : EIO;
    if (earlier && error == 0) error = EIO;
    if (file->path != NULL && fclose(file->stream) != 0 && error == 0) error = errno;
    return error;
}

bool plan_file_end(plan_file* file) {
    int error = close_stream(file);
    if (error == 0 && file->temporary != NULL && rename(file->temporary, file->path) != 0)
        error = errno;
    if (error != 0 && file->temporary != NULL) (void)unlink(file->temporary);
    const bool written = error == 0 || fail(file->path, error);
    free_names(file);
    return written;
}

// ---- Offsets.

/// Optional columns that the problem uses.
typedef struct columns {
    bool alignment;
    bool exclusive;
    bool in_place;
} columns;

static void write_id(FILE* stream, const char* id) {
    if (strpbrk(id, ",\" \t") == NULL) {
        (void)fputs(id, stream);
        return;
    }
    (void)fputc('"', stream);
    for (; *id != '\0'; id++) {
        if (*id == '"') (void)fputc('"', stream);
        (void)fputc(*id, stream);
    }
    (void)fputc('"', stream);
}

/// The row of a buffer, which is there.
static berth_problem_row row_of(const plan_case* item, size_t index) {
    berth_problem_row row;
    if (berth_problem_query_row(item->problem, index, &row) != BERTH_OK)
        row = (berth_problem_row){.id = "", .label = ""};
    return row;
}

static void write_row(FILE* stream, const plan_case* item, size_t index, const columns* with) {
    const berth_problem_row row = row_of(item, index);
    write_id(stream, row.id);
    (void)fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, row.lower, row.upper, row.size);
    if (with->alignment) (void)fprintf(stream, ",%" PRIu64, row.alignment);
    if (with->exclusive) (void)fputs(row.exclusive ? ",1" : ",0", stream);
    if (with->in_place) {
        (void)fputc(',', stream);
        if (row.in_place_from != BERTH_PROBLEM_NONE)
            write_id(stream, row_of(item, row.in_place_from).id);
    }
    (void)fprintf(stream, ",%" PRIu64 "\n", item->offsets[index]);
}

bool plan_write_offsets(const plan_case* item, const char* pattern) {
    plan_file file;
    if (!plan_file_begin(&file, pattern, item)) return false;
    const berth_pack_problem* pack = berth_problem_query_pack(item->problem);
    const columns with = {
        pack->alignments != NULL, pack->exclusive != NULL, pack->in_place_count > 0};
    (void)fprintf(file.stream,
                  "id,lower,upper,size%s%s%s,offset\n",
                  with.alignment ? ",alignment" : "",
                  with.exclusive ? ",exclusive" : "",
                  with.in_place ? ",in_place" : "");
    for (size_t i = 0; i < pack->count; i++)
        write_row(file.stream, item, i, &with);
    return plan_file_end(&file);
}
