// SPDX-License-Identifier: Apache-2.0
// Reads and checks plan files, and frames what is written into one.
#include "plan/plan_file.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "plan/plan.h"
#include "plan/step_model_impl.h"

static const unsigned char magic[8] = {0x8F, 'B', 'R', 'T', 'H', 'P', '\r', '\n'};

/// Where the header has what.
enum {
    VERSION_AT = 8,
    BYTES_AT = 16,
    GENERATION_AT = 24,
    STEPS_AT = 32,
    CONFIG_AT = 36,
    HASH_AT = 40
};

#define CHECKSUM_BYTES 8u
#define KNOWN_FLAGS                                                                                \
    ((unsigned)BERTH_VALUE_SCRATCH | (unsigned)BERTH_VALUE_FRAME | (unsigned)BERTH_VALUE_DATA)

static berth_status damaged(const char* what) {
    return berth_fail(BERTH_ERR_CORRUPT, "it is damaged: %s", what);
}

// ---- Paths.

/// What reading a section needs.
typedef struct section {
    berth_plan_file* file;
    const berth_host* host;
    berth_byte_reader in;
    uint32_t binding_count;
} section;

static berth_status read_texts(section* self, uint32_t count) {
    for (uint32_t i = 0; i < count && !self->in.failed; i++) {
        const berth_byte_text text = berth_read_text(&self->in);
        BERTH_TRY(berth_file_text_vec_push(&self->file->texts, self->host, text));
    }
    return self->in.failed ? damaged("a name is cut short") : BERTH_OK;
}

/// Events and values agree: each value is made by one event, in order.
static bool events_are_sound(const berth_file_path* path) {
    uint64_t values = 0;
    for (uint32_t e = 0; e < path->event_count; e++) {
        const unsigned char* event = path->events + (size_t)e * BERTH_PLAN_FILE_EVENT_BYTES;
        if (berth_load_u32(event) >= path->name_count) return false;
        values += berth_load_u16(event + 4);
    }
    return values == path->value_count;
}

static bool value_is_sound(uint32_t rank, uint32_t dtype, uint32_t flags) {
    if ((flags & ~KNOWN_FLAGS) != 0 || rank > BERTH_MAX_RANK) return false;
    if (berth_dtype_query_info((berth_dtype)dtype) == NULL) return false;
    const bool is_bytes = rank == 1 && dtype == BERTH_U8;
    return is_bytes || (flags & ((unsigned)BERTH_VALUE_SCRATCH | (unsigned)BERTH_VALUE_FRAME)) == 0;
}

/// Sums the ranks. False if a value makes no sense.
static bool values_are_sound(berth_file_path* path) {
    uint64_t dims = 0;
    for (uint32_t v = 0; v < path->value_count; v++) {
        const unsigned char* value = path->values + (size_t)v * BERTH_PLAN_FILE_VALUE_BYTES;
        if (!value_is_sound(value[0], value[1], berth_load_u16(value + 2))) return false;
        dims += value[0];
    }
    path->dim_count = (uint32_t)dims;
    return dims <= INT32_MAX;
}

static bool deaths_are_sound(const berth_file_path* path) {
    uint32_t value = 0;
    for (uint32_t e = 0; e < path->event_count; e++) {
        const unsigned char* event = path->events + (size_t)e * BERTH_PLAN_FILE_EVENT_BYTES;
        for (uint32_t left = berth_load_u16(event + 4); left > 0; left--, value++) {
            const uint32_t death = berth_load_u32(path->deaths + (size_t)value * 4);
            const uint32_t at = death & ~BERTH_PLAN_FILE_ESCAPES;
            if (at < e || at >= path->event_count) return false;
            if (death != at && at != path->event_count - 1) return false;
        }
    }
    return true;
}

static berth_status read_identity(section* self, berth_file_path* path) {
    const size_t bytes = berth_read_u32(&self->in);
    path->identity = berth_read_bytes(&self->in, bytes);
    if (path->identity == NULL) return damaged("a path is cut short");
    path->identity_bytes = bytes;
    berth_byte_reader rest = self->in;
    self->in = (berth_byte_reader){path->identity, bytes, false};
    path->first_name = self->file->texts.count;
    path->name_count = berth_read_u32(&self->in);
    const berth_status status = read_texts(self, path->name_count);
    path->event_count = berth_read_u32_to(&self->in, INT32_MAX);
    path->events = berth_read_array(&self->in, path->event_count, BERTH_PLAN_FILE_EVENT_BYTES);
    path->value_count = berth_read_u32_to(&self->in, INT32_MAX);
    path->values = berth_read_array(&self->in, path->value_count, BERTH_PLAN_FILE_VALUE_BYTES);
    const bool is_whole = !self->in.failed && self->in.left == 0;
    self->in = rest;
    BERTH_TRY(status);
    if (!is_whole) return damaged("a path is cut short");
    if (!events_are_sound(path)) return damaged("the events of a path do not fit its values");
    return values_are_sound(path) ? BERTH_OK : damaged("a value of a path makes no sense");
}

/// Each symbol is a binding, and none is there twice.
static bool symbols_are_sound(const section* self, const berth_file_path* path) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < path->symbol_count; i++) {
        const uint32_t symbol = berth_load_u16(path->symbols + (size_t)i * 2);
        if (symbol >= self->binding_count || (seen >> symbol & 1) != 0) return false;
        seen |= UINT64_C(1) << symbol;
    }
    return true;
}

static bool are_natural(const unsigned char* numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (berth_load_u64(numbers + i * 8) > INT64_MAX) return false;
    return true;
}

static bool classes_are_sound(const berth_file_path* path) {
    const size_t bytes = berth_file_class_bytes(path->run_count);
    for (uint32_t c = 0; c < path->class_count; c++) {
        const unsigned char* class = path->classes + c * bytes;
        if ((class[0] & ~BERTH_FILE_CLASS_DATA) != 0) return false;
        if (!are_natural(class + 2, path->run_count + (size_t)1)) return false;
    }
    for (uint32_t d = 0; d < path->dim_count; d++)
        if (berth_load_u32(path->class_of + (size_t)d * 4) >= path->class_count) return false;
    return true;
}

static berth_status read_learned(section* self, berth_file_path* path) {
    path->recency = berth_read_u32_to(&self->in, INT32_MAX);
    path->deaths = berth_read_array(&self->in, path->value_count, 4);
    const size_t before = self->in.left;
    path->learned = self->in.at;
    path->symbol_count = berth_read_u32_to(&self->in, BERTH_BINDINGS_MAX);
    path->symbols = berth_read_array(&self->in, path->symbol_count, 2);
    path->run_count = berth_read_u32_to(&self->in, BERTH_PLAN_FILE_RUNS);
    path->runs =
        berth_read_array(&self->in, (size_t)path->run_count * self->binding_count, sizeof(int64_t));
    path->class_count = berth_read_u32(&self->in);
    path->classes =
        berth_read_array(&self->in, path->class_count, berth_file_class_bytes(path->run_count));
    path->class_of = berth_read_array(&self->in, path->dim_count, 4);
    if (self->in.failed || path->run_count == 0) return damaged("what a path learned is cut short");
    path->learned_bytes = before - self->in.left;
    if (!deaths_are_sound(path)) return damaged("a value of a path dies when it cannot");
    if (!symbols_are_sound(self, path)) return damaged("a symbol of a path is no binding");
    if (!are_natural(path->runs, (size_t)path->run_count * self->binding_count))
        return damaged("a run of a path has a negative symbol");
    return classes_are_sound(path) ? BERTH_OK : damaged("a dimension of a path makes no sense");
}

static berth_status read_plan(section* self, const berth_file_path* path) {
    berth_file_plan plan = {.bytes = self->in.at};
    const size_t before = self->in.left;
    plan.key = berth_read_array(&self->in, path->symbol_count, sizeof(int64_t));
    plan.tier = berth_read_u8(&self->in);
    plan.cost = berth_read_u64(&self->in);
    plan.hits = berth_read_u64(&self->in);
    plan.offsets = berth_read_array(&self->in, path->value_count, sizeof(uint64_t));
    if (self->in.failed || plan.tier > BERTH_PLAN_AT_LIMIT) return damaged("a plan is cut short");
    if (!are_natural(plan.key, path->symbol_count))
        return damaged("the bucket of a plan is negative");
    plan.size = before - self->in.left;
    return berth_file_plan_vec_push(&self->file->plans, self->host, plan);
}

static berth_status read_path(section* self) {
    berth_file_path path = {0};
    BERTH_TRY(read_identity(self, &path));
    BERTH_TRY(read_learned(self, &path));
    path.plan_count = berth_read_u32(&self->in);
    path.first_plan = self->file->plans.count;
    for (uint32_t i = 0; i < path.plan_count; i++)
        BERTH_TRY(read_plan(self, &path));
    return berth_file_path_vec_push(&self->file->paths, self->host, path);
}

static berth_status read_step(berth_plan_file* file,
                              const berth_host* host,
                              const unsigned char* bytes,
                              size_t size) {
    section self = {.file = file, .host = host, .in = {bytes, size, false}};
    berth_file_step step = {.bytes = bytes, .size = size};
    step.name = berth_read_text(&self.in);
    step.generation = berth_read_u64(&self.in);
    step.binding_count = self.binding_count = berth_read_u32_to(&self.in, BERTH_BINDINGS_MAX);
    step.first_binding = file->texts.count;
    BERTH_TRY(read_texts(&self, step.binding_count));
    step.path_count = berth_read_u32(&self.in);
    step.first_path = file->paths.count;
    for (uint32_t i = 0; i < step.path_count; i++)
        BERTH_TRY(read_path(&self));
    if (self.in.failed || self.in.left > 0 || step.name.length == 0)
        return damaged("a step does not end where it should");
    return berth_file_step_vec_push(&file->steps, host, step);
}

// ---- The file.

bool berth_plan_file_is_ours(const unsigned char* bytes, size_t size) {
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/// Names the first line of the file's configuration that is not `config`'s.
static berth_status other_config(berth_byte_text found, const char* config) {
    const char* theirs = found.bytes;
    const char* end = theirs + found.length;
    const char* line = theirs;
    while (theirs < end && *theirs == *config) {
        if (*theirs == '\n') line = theirs + 1;
        theirs++;
        config++;
    }
    int length = 0;
    while (line + length < end && line[length] != '\n' && length < 100)
        length++;
    return berth_fail(BERTH_ERR_UNSUPPORTED,
                      "it was made in another configuration: its \"%.*s\" is not so here",
                      length,
                      line);
}

static berth_status check_header(const unsigned char* bytes, size_t size) {
    if (!berth_plan_file_is_ours(bytes, size))
        return berth_fail(BERTH_ERR_CORRUPT, "it is no plan file");
    if (size < BERTH_PLAN_FILE_HEADER_BYTES + CHECKSUM_BYTES) return damaged("it is cut short");
    const uint32_t version = berth_load_u32(bytes + VERSION_AT);
    if (version != BERTH_PLAN_FILE_VERSION)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "it is of format %u, this library's is %u",
                          version,
                          BERTH_PLAN_FILE_VERSION);
    if (berth_load_u64(bytes + BYTES_AT) != size) return damaged("its length is wrong");
    if (berth_load_u64(bytes + HASH_AT) != berth_hash64(bytes, HASH_AT, 0))
        return damaged("its header's checksum is wrong");
    const size_t end = size - CHECKSUM_BYTES;
    if (berth_load_u64(bytes + end) != berth_hash64(bytes, end, 0))
        return damaged("its checksum is wrong");
    return BERTH_OK;
}

static berth_status read_sections(berth_plan_file* self,
                                  const berth_host* host,
                                  berth_byte_reader* in,
                                  uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = berth_read_u64(in);
        const unsigned char* content = bytes <= in->left ? berth_read_bytes(in, bytes) : NULL;
        const uint64_t hash = berth_read_u64(in);
        if (content == NULL || in->failed) return damaged("a section is cut short");
        if (hash != berth_hash64(content, bytes, i))
            return damaged("the checksum of a section is wrong");
        BERTH_TRY(read_step(self, host, content, bytes));
    }
    return in->left == 0 ? BERTH_OK : damaged("there is more than its sections");
}

static berth_status read_file(berth_plan_file* self,
                              const berth_host* host,
                              const unsigned char* bytes,
                              size_t size,
                              const char* config) {
    BERTH_TRY(check_header(bytes, size));
    berth_byte_reader in = {bytes + BERTH_PLAN_FILE_HEADER_BYTES,
                            size - BERTH_PLAN_FILE_HEADER_BYTES - CHECKSUM_BYTES,
                            false};
    const berth_byte_text found = {.bytes = (const char*)in.at,
                                   .length = berth_load_u32(bytes + CONFIG_AT)};
    if (berth_read_bytes(&in, found.length) == NULL) return damaged("it is cut short");
    if (!berth_byte_text_is(found, config)) return other_config(found, config);
    self->generation = berth_load_u64(bytes + GENERATION_AT);
    return read_sections(self, host, &in, berth_load_u32(bytes + STEPS_AT));
}

berth_status berth_plan_file_parse(berth_plan_file* self,
                                   const berth_host* host,
                                   const unsigned char* bytes,
                                   size_t size,
                                   const char* config) {
    const berth_status status = read_file(self, host, bytes, size, config);
    if (status != BERTH_OK) berth_plan_file_fini(self, host);
    return status;
}

void berth_plan_file_fini(berth_plan_file* self, const berth_host* host) {
    berth_file_text_vec_fini(&self->texts, host);
    berth_file_step_vec_fini(&self->steps, host);
    berth_file_path_vec_fini(&self->paths, host);
    berth_file_plan_vec_fini(&self->plans, host);
    self->generation = 0;
}

const berth_file_step* berth_plan_file_find(const berth_plan_file* self, const char* name) {
    for (size_t i = 0; i < self->steps.count; i++)
        if (berth_byte_text_is(self->steps.items[i].name, name)) return &self->steps.items[i];
    return NULL;
}

bool berth_plan_file_has_binding(const berth_plan_file* self,
                                 const berth_file_step* step,
                                 uint32_t index,
                                 const char* name) {
    return berth_byte_text_is(self->texts.items[step->first_binding + index], name);
}

// ---- Writing.

void berth_plan_file_begin(berth_byte_writer* writer, const char* config) {
    berth_write_bytes(writer, magic, sizeof magic);
    berth_write_u64(writer, BERTH_PLAN_FILE_VERSION);
    for (size_t at = BYTES_AT; at < BERTH_PLAN_FILE_HEADER_BYTES; at += 8)
        berth_write_u64(writer, 0);
    berth_rewrite_u64(writer, STEPS_AT, (uint64_t)strlen(config) << 32);
    berth_write_bytes(writer, config, strlen(config));
}

void berth_plan_file_add_section(berth_byte_writer* writer,
                                 uint32_t index,
                                 const unsigned char* content,
                                 size_t size) {
    berth_write_u64(writer, size);
    berth_write_bytes(writer, content, size);
    berth_write_u64(writer, berth_hash64(content, size, index));
}

void berth_plan_file_end(berth_byte_writer* writer, uint64_t generation, uint32_t step_count) {
    if (writer->failed) return;
    const uint64_t config_bytes = berth_load_u32(writer->data + CONFIG_AT);
    berth_rewrite_u64(writer, BYTES_AT, writer->count + CHECKSUM_BYTES);
    berth_rewrite_u64(writer, GENERATION_AT, generation);
    berth_rewrite_u64(writer, STEPS_AT, step_count | config_bytes << 32);
    berth_rewrite_u64(writer, HASH_AT, berth_hash64(writer->data, HASH_AT, 0));
    berth_write_u64(writer, berth_hash64(writer->data, writer->count, 0));
}
