// SPDX-License-Identifier: Apache-2.0
// Limits of the system, read from made-up /proc and control group files.
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <linux/mempolicy.h>

#include "device/cpu/cpu_numa.h"
#include "device/cpu/cpu_system.h"

#define MIB (1ull << 20)

static char root[64];
static char proc[80], cgroup[80], nodes[80];
static berth_cpu_files files;

/// Writes `text` to `name` below the root, with the folders on the way.
static void put(const char* name, const char* text) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char* slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE* file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void** state) {
    (void)state;
    strcpy(root, "/tmp/berth-system-XXXXXX");
    if (mkdtemp(root) == NULL) return 1;
    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    (void)snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    (void)snprintf(nodes, sizeof nodes, "%s/node", root);
    files = (berth_cpu_files){.proc = proc, .cgroup = cgroup, .nodes = nodes};
    put("proc/meminfo",
        "MemTotal:       1048576 kB\nMemFree:   1000 kB\n"
        "MemAvailable:    524288 kB\nSwapTotal: 0 kB\n");
    return 0;
}

static int remove_one(const char* path, const struct stat* about, int flag, struct FTW* where) {
    (void)about;
    (void)flag;
    (void)where;
    return remove(path);
}

static int tear_down(void** state) {
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void check_memory(uint64_t total, uint64_t available) {
    uint64_t got_total, got_available;
    assert_ok(berth_cpu_query_memory(&files, &got_total, &got_available));
    assert_int_equal(got_total, total);
    assert_int_equal(got_available, available);
}

static void without_groups_the_machine_is_the_limit(void** state) {
    (void)state;
    check_memory(1024 * MIB, 512 * MIB);
}

static void a_machine_that_cannot_be_read_is_an_error(void** state) {
    (void)state;
    uint64_t total = 1, available = 1;
    put("proc/meminfo", "MemFree: 5 kB\n");
    assert_fails(berth_cpu_query_memory(&files, &total, &available), BERTH_ERR_DEVICE, "meminfo");
    assert_int_equal(total, 0);
    assert_int_equal(available, 0);
}

static void a_group_of_version_2_limits_and_its_page_cache_is_free(void** state) {
    (void)state;
    put("proc/self/cgroup", "0::/user/job\n");
    put("cgroup/user/job/memory.max", "268435456\n");
    put("cgroup/user/job/memory.current", "209715200\n");
    put("cgroup/user/job/memory.stat", "anon 1\ninactive_file 104857600\nactive_file 7\n");
    check_memory(256 * MIB, 156 * MIB);
}

static void a_group_further_up_limits_too(void** state) {
    (void)state;
    put("proc/self/cgroup", "0::/user/job\n");
    put("cgroup/user/job/memory.max", "max\n");
    put("cgroup/user/memory.max", "134217728\n");
    put("cgroup/user/memory.current", "134217728\n");
    check_memory(128 * MIB, 0);
}

static void a_group_whose_path_is_not_here_counts_at_the_root(void** state) {
    (void)state;
    put("proc/self/cgroup", "0::/host/only/path\n");
    put("cgroup/memory.max", "134217728\n");
    put("cgroup/memory.current", "1048576\n");
    check_memory(128 * MIB, 127 * MIB);
}

static void a_group_of_version_1_limits(void** state) {
    (void)state;
    put("proc/self/cgroup", "5:cpu,memory:/box\n2:freezer:/other\n0::/\n");
    put("cgroup/memory/box/memory.limit_in_bytes", "67108864\n");
    put("cgroup/memory/box/memory.usage_in_bytes", "33554432\n");
    put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cgroup/memory/memory.usage_in_bytes", "33554432\n");
    check_memory(64 * MIB, 32 * MIB);
}

static void cores_are_at_most_the_quota_rounded_up(void** state) {
    (void)state;
    const uint32_t all = berth_cpu_query_cores(&files);
    assert_true(all >= 1);
    put("proc/self/cgroup", "0::/job\n");
    put("cgroup/job/cpu.max", "max 100000\n");
    assert_int_equal(berth_cpu_query_cores(&files), all);
    put("cgroup/job/cpu.max", "50000 100000\n");
    assert_int_equal(berth_cpu_query_cores(&files), 1);
    put("cgroup/job/cpu.max", "110000 100000\n");
    assert_int_equal(berth_cpu_query_cores(&files), all < 2 ? all : 2);
}

static void cores_of_version_1_have_quota_and_period_apart(void** state) {
    (void)state;
    const uint32_t all = berth_cpu_query_cores(&files);
    put("proc/self/cgroup", "3:cpuacct,cpu:/job\n");
    put("cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    put("cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(berth_cpu_query_cores(&files), all);
    put("cgroup/cpu/job/cpu.cfs_quota_us", "90000\n");
    assert_int_equal(berth_cpu_query_cores(&files), 1);
}

static void the_mapping_limit_has_a_value_without_its_file(void** state) {
    (void)state;
    assert_int_equal(berth_cpu_query_mapping_limit(&files), 65530);
    put("proc/sys/vm/max_map_count", "1000\n");
    assert_int_equal(berth_cpu_query_mapping_limit(&files), 1000);
}

static void mappings_are_the_lines_of_their_file(void** state) {
    (void)state;
    assert_int_equal(berth_cpu_count_mappings(&files), 0);
    put("proc/self/maps", "00-01 r--p\n02-03 rw-p\n04-05 ---p\n");
    assert_int_equal(berth_cpu_count_mappings(&files), 3);
    assert_in_range(berth_cpu_count_mappings(NULL), 10, 65530);
}

/// A machine with memory on nodes 0, 1 and 8, of which the process may use 0 and 1.
static void put_two_nodes(void) {
    put("node/has_memory", "0-1,8\n");
    put("proc/self/status", "Name:\tprogram\nMems_allowed:\t03\nMems_allowed_list:\t0-1\n");
}

static void nodes_are_those_with_memory_that_the_process_may_use(void** state) {
    (void)state;
    assert_int_equal(berth_cpu_query_nodes(&files), 1); // nothing can be read
    put("node/has_memory", "0\n");
    assert_int_equal(berth_cpu_query_nodes(&files), 1);
    put_two_nodes();
    assert_int_equal(berth_cpu_query_nodes(&files), 3);
    put("proc/self/status", "Mems_allowed_list:\t1-70\n");
    assert_int_equal(berth_cpu_query_nodes(&files), 2 + 256);
    put("node/has_memory", "none\n");
    assert_int_equal(berth_cpu_query_nodes(&files), 1);
}

static void the_memory_of_a_node_is_read_from_its_own_file(void** state) {
    (void)state;
    uint64_t total, available;
    assert_fails(
        berth_cpu_query_node_memory(&files, 1, &total, &available), BERTH_ERR_DEVICE, "node 1");
    put("node/node1/meminfo",
        "Node 1 MemTotal:       4096 kB\nNode 1 MemFree:        1024 kB\n"
        "Node 1 Inactive(file):    512 kB\n");
    assert_ok(berth_cpu_query_node_memory(&files, 1, &total, &available));
    assert_int_equal(total, 4096 * 1024);
    assert_int_equal(available, 1536 * 1024);
}

static berth_numa decide(const char* text, uint32_t threads) {
    berth_numa_choice choice;
    berth_numa numa;
    assert_ok(berth_numa_parse(text, &choice));
    assert_ok(berth_numa_decide(&files, &choice, threads, &numa));
    return numa;
}

static void with_one_node_there_is_nothing_to_place(void** state) {
    (void)state;
    static const char* const all[] = {"off", "auto", "local", "interleave", "bind:0"};
    put("node/has_memory", "0\n");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_false(decide(all[i], 8).is_placing);
}

static void with_two_nodes_each_policy_has_its_mode(void** state) {
    (void)state;
    put_two_nodes();
    assert_false(decide("off", 8).is_placing);
    assert_false(decide("auto", 1).is_placing); // one thread is near its own memory
    const berth_numa several = decide("auto", 2), spread = decide("interleave", 1);
    assert_true(several.is_placing && several.mode == MPOL_INTERLEAVE && several.nodes == 3);
    assert_true(spread.is_placing && spread.mode == MPOL_INTERLEAVE && spread.nodes == 3);
    const berth_numa local = decide("local", 8), bound = decide("bind:1", 8);
    assert_true(local.is_placing && local.mode == MPOL_LOCAL && local.nodes == 0);
    assert_true(bound.is_placing && bound.mode == MPOL_BIND && bound.nodes == 2);
    assert_true(bound.is_strict && !local.is_strict && !spread.is_strict);
}

static void a_node_that_is_not_there_cannot_be_bound_to(void** state) {
    (void)state;
    put_two_nodes();
    berth_numa_choice choice;
    berth_numa numa;
    assert_ok(berth_numa_parse("bind:8", &choice)); // there, but not for this process
    assert_fails(
        berth_numa_decide(&files, &choice, 1, &numa), BERTH_ERR_INVALID_ARGUMENT, "node 8");
    assert_false(numa.is_placing);
}

static void what_is_no_policy_is_refused_with_what_is_one(void** state) {
    (void)state;
    static const char* const bad[] = {
        "", "bind", "bind:", "bind:x", "bind:64", "bind:1x", "local "};
    berth_numa_choice choice;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(
            berth_numa_parse(bad[i], &choice), BERTH_ERR_INVALID_ARGUMENT, "interleave, or bind:N");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(without_groups_the_machine_is_the_limit),
        TEST(nodes_are_those_with_memory_that_the_process_may_use),
        TEST(the_memory_of_a_node_is_read_from_its_own_file),
        TEST(with_one_node_there_is_nothing_to_place),
        TEST(with_two_nodes_each_policy_has_its_mode),
        TEST(a_node_that_is_not_there_cannot_be_bound_to),
        TEST(what_is_no_policy_is_refused_with_what_is_one),
        TEST(a_machine_that_cannot_be_read_is_an_error),
        TEST(a_group_of_version_2_limits_and_its_page_cache_is_free),
        TEST(a_group_further_up_limits_too),
        TEST(a_group_whose_path_is_not_here_counts_at_the_root),
        TEST(a_group_of_version_1_limits),
        TEST(cores_are_at_most_the_quota_rounded_up),
        TEST(cores_of_version_1_have_quota_and_period_apart),
        TEST(mappings_are_the_lines_of_their_file),
        TEST(the_mapping_limit_has_a_value_without_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
