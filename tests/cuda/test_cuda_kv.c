// SPDX-License-Identifier: Apache-2.0
// A KV cache at random on the CUDA device over the stand-in for the driver: sequences grow, fork,
// are evicted, parked and come back, while memory is short, blocks move and calls of the driver
// fail. Every key and value is compared after each batch.
#include "cuda/cuda_kit.h"
#include "device/cuda/cuda_api.h"
#include "kit/kv_worker.h"

enum { OPERATIONS = 400 };

static uint64_t runs = 12; ///< the program's argument is another number

/// Calls that a cache's growth and its copies are made of.
static const char* const symbols[] = {
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuCtxPushCurrent_v2",
};
enum { SYMBOLS = sizeof symbols / sizeof symbols[0] };

/// Another function each time; one that is asked for is told by the other's status.
static void fail_driver(uint64_t nth) {
    static size_t turn;
    const standin_control* control = cuda_kit_control();
    (control->fail)(symbols[turn % SYMBOLS], 0, 0);
    if (nth == 0) return;
    turn++;
    const int result = turn / SYMBOLS % 2 == 0 ? CU_ERROR_OUT_OF_MEMORY : CU_ERROR_INVALID_VALUE;
    (control->fail)(symbols[turn % SYMBOLS], (nth + 1) / 2, result);
}

/// The worker looks at keys and values where they lie.
static void show_memory(uint64_t seed) {
    standin_settings settings;
    cuda_kit_reset(seed);
    cuda_kit_control()->get_settings(&settings);
    settings.is_hidden = false;
    cuda_kit_control()->reset(&settings);
}

static void every_key_and_value_is_right_whatever_fails(void** state) {
    (void)state;
    static kv_worker worker;
    uint64_t hits = 0;
    for (uint64_t seed = 1, done = 0; done < runs; ++seed) {
        kv_setting setting = kv_setting_draw(seed);
        if (strcmp(setting.device, "sim") != 0) continue; // sizes for another granule
        ++done;
        show_memory(seed % 2 == 0 ? seed : 0);
        setting.device = "cuda";
        setting.has_faults = done % 3 != 0;
        setting.fail_device = fail_driver;
        if (!kv_worker_run(&worker, &setting, OPERATIONS, seed))
            fail_msg("seed %d: %s", (int)seed, worker.failure);
        cuda_kit_assert_clean();
        hits += worker.hits;
    }
    assert_true(hits > 0);
}

int main(int argc, char** argv) {
    if (argc > 1) runs = strtoull(argv[1], NULL, 10);
    cuda_kit_set_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_and_value_is_right_whatever_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
