// SPDX-License-Identifier: Apache-2.0
// Tests of servers as children, with shells in their place.
#include "client_child.h"
#include "llm/llm_kit.h"

#include <signal.h>
#include <unistd.h>

enum { LONG_MS = 60000 };

static berth_status start(const char* script, client_child* child, llm_error* error) {
    const char* const words[] = {"/bin/sh", "-c", script, NULL};
    return client_child_start(words, LONG_MS, child, error);
}

static void a_child_listens_where_it_says(void** state) {
    (void)state;
    client_child child;
    llm_error error;
    assert_int_equal(start("trap 'exit 0' TERM; echo budget; printf 'listening on http://127.0.'; "
                           "echo 0.1:77; while :; do sleep 0.01; done",
                           &child,
                           &error),
                     BERTH_OK);
    assert_string_equal(child.url, "http://127.0.0.1:77");
    assert_true(client_child_is_alive(&child));
    uint64_t resident, peak;
    assert_true(client_process_bytes(child.pid, "VmRSS", &resident));
    assert_true(client_process_bytes(child.pid, "VmHWM", &peak));
    // The kernel's counters of a running process are approximate: two readings have no order.
    assert_true(resident > 0 && peak > 0);
    assert_false(client_process_bytes(child.pid, "VmNone", &peak));
    assert_true(client_process_forget_peak(child.pid));
    assert_int_equal(client_child_end(&child, LONG_MS, &error), BERTH_OK);
    assert_int_equal(child.pid, 0);
    assert_false(client_child_is_alive(&child));
    assert_int_equal(client_child_end(&child, LONG_MS, &error), BERTH_ERR_IO);
}

static void a_child_that_does_not_listen_is_an_error(void** state) {
    (void)state;
    client_child child;
    llm_error error;
    assert_int_equal(start("echo no; exit 3", &child, &error), BERTH_ERR_IO);
    assert_mentions(&error, "/bin/sh: it ended");
    assert_int_equal(child.pid, 0);
    const char* const none[] = {"/nowhere/server", NULL};
    assert_int_equal(client_child_start(none, LONG_MS, &child, &error), BERTH_ERR_IO);
    const char* const silent[] = {"/bin/sh", "-c", "exec sleep 1000", NULL};
    assert_int_equal(client_child_start(silent, 1, &child, &error), BERTH_ERR_IO);
    assert_mentions(&error, "1 ms");
    assert_int_equal(start("while :; do echo no; done", &child, &error), BERTH_ERR_IO);
}

static void a_child_that_ends_badly_is_an_error(void** state) {
    (void)state;
    client_child child;
    llm_error error;
    assert_int_equal(start("echo listening on x; exec sleep 1000", &child, &error), BERTH_OK);
    assert_int_equal(client_child_end(&child, LONG_MS, &error), BERTH_ERR_IO);
    assert_mentions(&error, "signal 15");
    assert_int_equal(start("trap 'exit 4' TERM; echo listening on x; while :; do sleep 0.01; done",
                           &child,
                           &error),
                     BERTH_OK);
    assert_int_equal(client_child_end(&child, LONG_MS, &error), BERTH_ERR_IO);
    assert_mentions(&error, "status 4");
    assert_int_equal(
        start("trap '' TERM; echo listening on x; while :; do :; done", &child, &error), BERTH_OK);
    assert_int_equal(client_child_end(&child, 1, &error), BERTH_ERR_IO);
    assert_mentions(&error, "within 1 ms");
}

static void there_is_no_memory_of_a_process_that_is_none(void** state) {
    (void)state;
    uint64_t bytes = 1;
    assert_false(client_process_bytes(-1, "VmRSS", &bytes));
    assert_int_equal(bytes, 0);
    assert_false(client_process_forget_peak(-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_listens_where_it_says),
        cmocka_unit_test(a_child_that_does_not_listen_is_an_error),
        cmocka_unit_test(a_child_that_ends_badly_is_an_error),
        cmocka_unit_test(there_is_no_memory_of_a_process_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
