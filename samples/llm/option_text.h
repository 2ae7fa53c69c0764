// SPDX-License-Identifier: Apache-2.0
// Numbers as they are written on command lines. Each function returns false, with its output as
// before, for a text that is not wholly such a number.
#ifndef BERTH_SAMPLES_LLM_OPTION_TEXT_H
#define BERTH_SAMPLES_LLM_OPTION_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/// Reads a whole number from `least` to `most`.
bool llm_parse_whole(const char* text, int64_t least, int64_t most, int64_t* out_value);

/// Reads a number from `least` to `most`.
bool llm_parse_number(const char* text, double least, double most, double* out_value);

/// Reads bytes: a whole number and, if wanted, K, M, G, T or KiB and so on.
bool llm_parse_bytes(const char* text, uint64_t* out_bytes);

#endif // BERTH_SAMPLES_LLM_OPTION_TEXT_H
