// SPDX-License-Identifier: Apache-2.0
// The table of ways.
#include "program_ways.h"

// clang-format off
const program_way program_reference = {
    "cpu, pool", {{"mode", "pool"}, {"threads", "1"}}, 2, false, false};

static const program_way ways[] = {
    {"cpu", {{"threads", "1"}}, 1, false, false},
    {"sim, order checked, noted",
     {{"device", "sim"}, {"check_order", "1"}, {"leaks", "1"}}, 3, false, false},
    {"cpu, tampered with", {{"threads", "1"}, {"mode", "plan"}}, 2, true, false},
    {"sim, trimmed, pow2 buckets",
     {{"device", "sim"}, {"keep", "none"}, {"buckets", "pow2"}, {"check_order", "1"}}, 4, false, false},
    {"cpu, plan, linear buckets",
     {{"threads", "1"}, {"mode", "plan"}, {"plan_quantum", "0"}, {"buckets", "linear:8"}}, 4,
     false, false},
    {"sim, tampered with, many paths",
     {{"device", "sim"}, {"mode", "plan"}, {"paths_max", "64"}, {"plan_quantum", "0"}}, 4, true, false},
    {"cpu, two threads, noted",
     {{"threads", "2"}, {"keep", "all"}, {"leaks", "1"}, {"history", "50"}}, 4, false, false},
    {"cpu, poison", {{"threads", "1"}, {"poison", "both"}, {"keep", "none"}}, 3, false, false},
    {"cpu, small plan cache",
     {{"threads", "1"}, {"plan_cache_bytes", "65536"}, {"paths_max", "2"},
      {"buckets", "list:3,9"}}, 4, false, false},
    {"cpu, one plan", {{"threads", "1"}, {"mode", "plan"}, {"plan_cache_entries", "1"}}, 3, false, false},
    {"cpu, short traces", {{"threads", "1"}, {"trace_max", "24"}, {"keep", "1M"}}, 3, false, false},
    {"cpu, system", {{"threads", "1"}, {"mode", "system"}}, 2, false, false},
    {"sim, pool, order checked",
     {{"device", "sim"}, {"mode", "pool"}, {"check_order", "1"}}, 3, false, false},
    {"sim, poison, order checked",
     {{"device", "sim"}, {"poison", "both"}, {"check_order", "1"}, {"history", "9"}}, 4, false, false},
    {"cpu, guards", {{"threads", "1"}, {"guard", "1"}, {"poison", "both"}}, 3, false, false},
    {"sim, guards, order checked",
     {{"device", "sim"}, {"guard", "1"}, {"check_order", "1"}, {"strict", "1"}}, 4, false, false},
    {"cpu, moved at every op", {{"threads", "1"}, {"compact", "always"}}, 2, false, false},
    {"cpu, ageing, moved at every op",
     {{"threads", "1"}, {"decay_ms", "1"}, {"compact", "always"}}, 3, false, false},
    {"sim, moved at every op",
     {{"device", "sim"}, {"compact", "always"}, {"keep", "none"}}, 3, false, false},
    {"cpu, pool, moved at every op",
     {{"threads", "1"}, {"mode", "pool"}, {"compact", "always"}, {"poison", "both"}}, 4, false, false},
    {"sim, pool, moved at every op",
     {{"device", "sim"}, {"mode", "pool"}, {"compact", "always"}, {"check_order", "1"},
      {"compact_budget_bytes", "8192"}}, 5, false, false},
    {"sim, short of memory",
     {{"device", "sim"}, {"check_order", "1"}, {"memory", "8M"}}, 3, false, true},
    {"sim, short of memory, moved at every op",
     {{"device", "sim"}, {"memory", "6M"}, {"compact", "always"}, {"keep", "none"}}, 4,
     false, true},
    {"sim, pool, short of memory, tampered with",
     {{"device", "sim"}, {"memory", "6M"}, {"mode", "plan"}, {"poison", "both"}}, 4, true, true},
    {"cpu, short of memory, ageing",
     {{"threads", "1"}, {"memory", "48M"}, {"decay_ms", "1"}, {"compact", "always"}}, 4,
     false, true},
    {"cpu, pool, short of memory",
     {{"threads", "1"}, {"memory", "48M"}, {"mode", "pool"}, {"guard", "1"}}, 4, false, true},
    {"hidden, order checked, tampered with",
     {{"device", "hidden"}, {"mode", "plan"}, {"check_order", "1"}, {"plan_quantum", "0"}}, 4,
     true, false},
    {"hidden, short of memory, moved at every op",
     {{"device", "hidden"}, {"memory", "6M"}, {"compact", "always"}, {"keep", "none"},
      {"poison", "both"}}, 5, false, true},
    {"sim, plan, many paths",
     {{"device", "sim"}, {"mode", "plan"}, {"paths_max", "64"}, {"plan_quantum", "0"}}, 4, false, false},
};
// clang-format on

const program_way* program_ways(size_t* out_count) {
    *out_count = sizeof ways / sizeof ways[0];
    return ways;
}
