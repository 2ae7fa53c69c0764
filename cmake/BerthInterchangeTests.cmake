# SPDX-License-Identifier: Apache-2.0
# Tensors to and from Python's libraries. Python loads the library by dlopen, for which it is built
# once more with -DBERTH_HOST=libc. A sanitizer's runtime would have to be in the interpreter, so
# those builds do without. What Python lacks is skipped.

find_program(BERTH_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(NOT BERTH_SANITIZE AND NOT BERTH_FUZZ AND BERTH_PYTHON)
  set(berth_libc_dir "${PROJECT_BINARY_DIR}/host-libc")
  add_test(NAME interchange/build
           COMMAND sh "${berth_tests_dir}/interchange/build.sh" "${PROJECT_SOURCE_DIR}"
                   "${berth_libc_dir}" "${CMAKE_C_COMPILER}" "${CMAKE_GENERATOR}")
  berth_register_test(interchange/build unit)
  set_tests_properties(interchange/build PROPERTIES FIXTURES_SETUP berth_host_libc)
  foreach(partner numpy torch)
    add_test(NAME interchange/${partner}
             COMMAND "${BERTH_PYTHON}" -B "${berth_tests_dir}/interchange/${partner}_exchange.py"
                     "${berth_libc_dir}/lib/libberth.so")
    berth_register_test(interchange/${partner} unit)
    set_tests_properties(interchange/${partner} PROPERTIES FIXTURES_REQUIRED berth_host_libc
                                                           SKIP_RETURN_CODE 77)
  endforeach()
endif()
