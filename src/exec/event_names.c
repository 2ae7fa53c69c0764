// SPDX-License-Identifier: Apache-2.0
// Writes and reads the names of events.
#include "exec/event_names.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static const char step_prefix[] = "step:";
static const char op_prefix[] = "op:";
static const char alloc_name[] = "alloc";

static const char* const op_ids[BERTH_OP_COUNT] = {
#define OP_ID(id, name) #id,
    BERTH_OP_MAP(OP_ID)
#undef OP_ID
};

// ---- Steps by number.

berth_status berth_runtime_number_step(berth_runtime* runtime,
                                       const char* name,
                                       uint32_t* out_tag) {
    berth_step_name_vec* names = &runtime->step_names;
    for (size_t i = 0; i < names->count; ++i) {
        *out_tag = (uint32_t)i;
        if (strcmp(names->items[i], name) == 0) return BERTH_OK;
    }
    char* copy = berth_host_strdup(runtime->host, name);
    if (copy == NULL || names->count == UINT32_MAX ||
        berth_step_name_vec_push(names, runtime->host, copy) != BERTH_OK) {
        berth_host_free(runtime->host, copy);
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for the name of a step");
    }
    *out_tag = (uint32_t)names->count - 1;
    return BERTH_OK;
}

void berth_runtime_forget_step_names(berth_runtime* runtime) {
    for (size_t i = 0; i < runtime->step_names.count; ++i)
        berth_host_free(runtime->host, runtime->step_names.items[i]);
    berth_step_name_vec_fini(&runtime->step_names, runtime->host);
}

// ---- Parts of names.

static bool is_plain(char c) {
    const unsigned char byte = (unsigned char)c;
    return byte < 128 && (isalnum(byte) || c == '_' || c == '.' || c == '-');
}

static void add_escaped(berth_text* text, const char* name) {
    for (; *name != '\0'; ++name) {
        if (is_plain(*name))
            berth_text_add(text, "%c", *name);
        else
            berth_text_add(text, "%%%02X", (unsigned)(unsigned char)*name);
    }
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// Reads `length` bytes of `text` into `out`, which has room. False if they are no escaped name.
static bool unescape(const char* text, size_t length, char* out) {
    for (size_t i = 0; i < length; ++i) {
        char c = text[i];
        if (c == '%') {
            if (length - i < 3) return false;
            const int high = digit_of(text[i + 1]);
            const int low = digit_of(text[i + 2]);
            if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (!is_plain(c)) {
            return false;
        }
        *out++ = c;
    }
    *out = '\0';
    return true;
}

/// Type and rank, as a tag has them.
static bool add_tensor(berth_text* text, uint32_t tag) {
    const berth_dtype_info* dtype = berth_dtype_query_info((berth_dtype)(tag >> 8));
    if (dtype == NULL || (tag & 0xff) > BERTH_MAX_RANK) return false;
    berth_text_add(text, ":%s:%u", dtype->name, (unsigned)(tag & 0xff));
    return true;
}

/// Reads what add_tensor wrote, `text` beginning with its ':'.
static bool read_tensor(const char* text, uint32_t* out_tag) {
    if (*text++ != ':') return false;
    const size_t length = strcspn(text, ":");
    if (text[length] != ':') return false;
    const char rank = text[length + 1];
    if (rank < '0' || rank > '0' + BERTH_MAX_RANK || text[length + 2] != '\0') return false;
    for (uint32_t dtype = 0; dtype < BERTH_DTYPE_COUNT; ++dtype) {
        const char* name = berth_dtype_query_info((berth_dtype)dtype)->name;
        if (strlen(name) != length || memcmp(name, text, length) != 0) continue;
        *out_tag = dtype << 8 | (uint32_t)(rank - '0');
        return true;
    }
    return false;
}

static bool is_op_id(const char* id, const char* text, size_t length) {
    if (strlen(id) != length) return false;
    for (size_t i = 0; i < length; ++i)
        if (tolower((unsigned char)id[i]) != text[i]) return false;
    return true;
}

static void add_op_id(berth_text* text, uint32_t kind) {
    for (const char* c = op_ids[kind]; *c != '\0'; ++c)
        berth_text_add(text, "%c", tolower((unsigned char)*c));
}

// ---- Names. Under the runtime's lock.

static const berth_op* registered_op(const berth_runtime* runtime, uint32_t kind) {
    const berth_op* op = runtime->first_op;
    while (op != NULL && op->id != kind)
        op = op->next;
    return op;
}

static bool compose(const berth_runtime* runtime, uint32_t kind, uint32_t tag, berth_text* text) {
    if (kind == BERTH_EVENT_STEP) {
        if (tag >= runtime->step_names.count) return false;
        berth_text_add(text, "%s", step_prefix);
        add_escaped(text, runtime->step_names.items[tag]);
        return true;
    }
    if (kind < BERTH_OP_COUNT) {
        add_op_id(text, kind);
    } else if (kind == BERTH_EVENT_ALLOC) {
        berth_text_add(text, "%s", alloc_name);
    } else {
        const berth_op* op = registered_op(runtime, kind);
        if (op == NULL) return false;
        berth_text_add(text, "%s", op_prefix);
        add_escaped(text, op->desc.name);
    }
    return add_tensor(text, tag);
}

/// The kind called by the first `length` bytes of `name`, without type and rank.
static bool find_kind(const char* name, size_t length, uint32_t* out_kind) {
    if (length == strlen(alloc_name) && memcmp(name, alloc_name, length) == 0) {
        *out_kind = BERTH_EVENT_ALLOC;
        return true;
    }
    for (uint32_t kind = 0; kind < BERTH_OP_COUNT; ++kind) {
        if (!is_op_id(op_ids[kind], name, length)) continue;
        *out_kind = kind;
        return true;
    }
    return false;
}

static bool find_registered(const berth_runtime* runtime,
                            const char* name,
                            size_t length,
                            uint32_t* out_kind) {
    char plain[BERTH_EVENT_NAME_BYTES];
    if (!unescape(name, length, plain)) return false;
    for (const berth_op* op = runtime->first_op; op != NULL; op = op->next) {
        if (strcmp(op->desc.name, plain) != 0) continue;
        *out_kind = op->id;
        return true;
    }
    return false;
}

static bool read_name(berth_runtime* runtime, const char* name, uint32_t* kind, uint32_t* tag) {
    if (strncmp(name, step_prefix, strlen(step_prefix)) == 0) {
        char plain[BERTH_EVENT_NAME_BYTES];
        const char* escaped = name + strlen(step_prefix);
        *kind = BERTH_EVENT_STEP;
        return unescape(escaped, strlen(escaped), plain) &&
               berth_runtime_number_step(runtime, plain, tag) == BERTH_OK;
    }
    const bool is_registered = strncmp(name, op_prefix, strlen(op_prefix)) == 0;
    if (is_registered) name += strlen(op_prefix);
    const size_t length = strcspn(name, ":");
    if (!read_tensor(name + length, tag)) return false;
    return is_registered ? find_registered(runtime, name, length, kind)
                         : find_kind(name, length, kind);
}

static bool name_of(void* self, uint32_t kind, uint32_t tag, char name[BERTH_EVENT_NAME_BYTES]) {
    berth_runtime* runtime = self;
    berth_text text = {.buffer = name, .size = BERTH_EVENT_NAME_BYTES};
    berth_mutex_lock(&runtime->lock);
    const bool has_name = compose(runtime, kind, tag, &text);
    berth_mutex_unlock(&runtime->lock);
    return has_name && text.length < BERTH_EVENT_NAME_BYTES;
}

static bool find(void* self, const char* name, uint32_t* out_kind, uint32_t* out_tag) {
    berth_runtime* runtime = self;
    if (strnlen(name, BERTH_EVENT_NAME_BYTES) == BERTH_EVENT_NAME_BYTES) return false;
    berth_mutex_lock(&runtime->lock);
    const bool is_known = read_name(runtime, name, out_kind, out_tag);
    berth_mutex_unlock(&runtime->lock);
    return is_known;
}

berth_event_names berth_runtime_event_names(berth_runtime* runtime) {
    return (berth_event_names){.self = runtime, .name_of = name_of, .find = find};
}
