// SPDX-License-Identifier: Apache-2.0
// What a session cost: steps and how they were placed, memory, speed; as a table and as JSON.
#ifndef BERTH_SAMPLES_LLM_GENERATE_REPORT_H
#define BERTH_SAMPLES_LLM_GENERATE_REPORT_H

#include "session.h"

#include <stdio.h>

typedef struct llm_report_step {
    const char* name;
    llm_step_record record;       ///< what the session saw
    berth_step_counters counters; ///< what Berth counted
} llm_report_step;

/// Numbers of one session after its work.
typedef struct llm_report {
    llm_report_step steps[LLM_STEP_KIND_COUNT]; ///< kinds that ran
    size_t step_count;
    berth_kv_layout layout; ///< of the cache
    berth_kv_stats kv;
    berth_memory_stats memory;
    uint64_t prompts;
    uint64_t prompt_tokens;
    uint64_t answer_tokens;
    uint64_t file_weight_bytes; ///< weights read in place from the model's file
} llm_report;

/// The same prompts answered again without planning.
typedef struct llm_comparison {
    const llm_report* other;
    bool tokens_are_identical;
} llm_comparison;

/// Fills in all but the counts of prompts and tokens.
BERTH_NODISCARD berth_status llm_report_collect(const llm_session* session,
                                                llm_report* out_report,
                                                llm_error* error);

/// Prints the report as text; `comparison` may be NULL.
void llm_report_print(FILE* out, const llm_report* report, const llm_comparison* comparison);

/// Writes the report as one JSON object; `comparison` may be NULL.
void llm_report_write_json(FILE* out, const llm_report* report, const llm_comparison* comparison);

#endif // BERTH_SAMPLES_LLM_GENERATE_REPORT_H
