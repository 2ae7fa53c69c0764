// SPDX-License-Identifier: Apache-2.0
// Choice of a placement from the option and the nodes.
#include "device/cpu/cpu_numa.h"

#include <inttypes.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MAX_NODES 64u

/// The N of "bind:N"; false if it is none.
static bool parse_node(const char* text, uint32_t* out_node) {
    static const char prefix[] = "bind:";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) return false;
    text += sizeof prefix - 1;
    if (*text < '0' || *text > '9' || strlen(text) > 2) return false;
    char* end;
    const unsigned long node = strtoul(text, &end, 10);
    if (*end != '\0' || node >= MAX_NODES) return false;
    *out_node = (uint32_t)node;
    return true;
}

berth_status berth_numa_parse(const char* text, berth_numa_choice* out_choice) {
    static const struct {
        const char* word;
        berth_numa_policy policy;
    } words[] = {{"off", BERTH_NUMA_OFF},
                 {"auto", BERTH_NUMA_AUTO},
                 {"local", BERTH_NUMA_LOCAL},
                 {"interleave", BERTH_NUMA_INTERLEAVE}};
    *out_choice = (berth_numa_choice){.policy = BERTH_NUMA_OFF};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i].word) != 0) continue;
        out_choice->policy = words[i].policy;
        return BERTH_OK;
    }
    if (!parse_node(text, &out_choice->node))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%.80s is not auto, off, local, interleave, or bind:N with N below %u",
                          text,
                          MAX_NODES);
    out_choice->policy = BERTH_NUMA_BIND;
    return BERTH_OK;
}

static berth_status bind_to(uint32_t node, uint64_t nodes, berth_numa* numa) {
    const uint64_t bit = UINT64_C(1) << node;
    if ((nodes & bit) == 0)
        return berth_fail(
            BERTH_ERR_INVALID_ARGUMENT,
            "BERTH_NUMA: the process has no memory node %u (its nodes as bits: 0x%" PRIx64 ")",
            (unsigned)node,
            nodes);
    // with no other node to go to, everything is there anyway
    if (nodes == bit) return BERTH_OK;
    *numa = (berth_numa){
        .is_placing = true, .is_strict = true, .mode = MPOL_BIND, .nodes = bit, .node = node};
    return BERTH_OK;
}

berth_status berth_numa_decide(const berth_cpu_files* files,
                               const berth_numa_choice* choice,
                               uint32_t threads,
                               berth_numa* out_numa) {
    *out_numa = (berth_numa){.is_placing = false};
    if (choice->policy == BERTH_NUMA_OFF) return BERTH_OK;
    const uint64_t nodes = berth_cpu_query_nodes(files);
    if (choice->policy == BERTH_NUMA_BIND) return bind_to(choice->node, nodes, out_numa);
    const bool has_several = (nodes & (nodes - 1)) != 0;
    if (!has_several || (choice->policy == BERTH_NUMA_AUTO && threads <= 1)) return BERTH_OK;
    out_numa->is_placing = true;
    out_numa->mode = choice->policy == BERTH_NUMA_LOCAL ? MPOL_LOCAL : MPOL_INTERLEAVE;
    out_numa->nodes = choice->policy == BERTH_NUMA_LOCAL ? 0 : nodes;
    return BERTH_OK;
}
