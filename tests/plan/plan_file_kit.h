// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of plan files: names of the events of tapes, models that write and read files.
#ifndef BERTH_TEST_PLAN_FILE_KIT_H
#define BERTH_TEST_PLAN_FILE_KIT_H

#include <stdio.h>
#include <stdlib.h>

#include "plan/plan_file_seal.h"
#include "plan/plan_merge.h"
#include "plan/step_kit.h"

#define FILE_KIT_CONFIG "library=1\nthreads=2\n"

static inline berth_plan_file_limits file_kit_limits(void) {
    return (berth_plan_file_limits){
        .step_bytes = 16 * MIB, .file_bytes = 64 * MIB, .step_paths = 8};
}

// Names of tapes' events: "event:KIND:TAG".

static inline bool file_kit_name_of(void* self,
                                    uint32_t kind,
                                    uint32_t tag,
                                    char name[BERTH_EVENT_NAME_BYTES]) {
    const uint32_t* unknown = self;
    snprintf(name, BERTH_EVENT_NAME_BYTES, "event:%u:%u", kind, tag);
    return unknown == NULL || kind != *unknown;
}

static inline bool file_kit_find(void* self,
                                 const char* name,
                                 uint32_t* out_kind,
                                 uint32_t* out_tag) {
    const uint32_t* unknown = self;
    if (sscanf(name, "event:%u:%u", out_kind, out_tag) != 2) return false;
    return unknown == NULL || *out_kind != *unknown;
}

/// Names that know every kind but `*unknown` (may be NULL).
static inline berth_event_names file_kit_names(const uint32_t* unknown) {
    return (berth_event_names){(void*)(uintptr_t)unknown, file_kit_name_of, file_kit_find};
}

/// The bytes of a file that holds what `models` [count] know; freed by free().
static inline unsigned char* file_kit_save(berth_step_model** models,
                                           size_t count,
                                           size_t* out_size) {
    const berth_event_names names = file_kit_names(NULL);
    berth_byte_writer file = {.host = berth_host_default()};
    uint32_t steps = 0;
    berth_plan_file_begin(&file, FILE_KIT_CONFIG);
    for (size_t i = 0; i < count; i++) {
        berth_byte_writer section = {.host = berth_host_default()};
        if (berth_step_model_export(models[i], &names, &section))
            berth_plan_file_add_section(&file, steps++, section.data, section.count);
        assert_false(section.failed);
        berth_byte_writer_fini(&section);
    }
    berth_plan_file_end(&file, 1, steps);
    assert_false(file.failed);
    // of exactly its size, so that sanitizers see a read past its end
    unsigned char* bytes = malloc(file.count);
    assert_non_null(bytes);
    memcpy(bytes, file.data, file.count);
    *out_size = file.count;
    berth_byte_writer_fini(&file);
    return bytes;
}

#endif // BERTH_TEST_PLAN_FILE_KIT_H
