# SPDX-License-Identifier: Apache-2.0
# berth-serve with clients that people have: a browser, the openai package, curl. They test the
# interface, not memory, so one build is enough; what a client lacks is skipped.

if(TARGET berth-serve AND BERTH_PYTHON AND CMAKE_BUILD_TYPE STREQUAL "Release"
   AND NOT BERTH_SANITIZE AND NOT BERTH_FUZZ)
  set(berth_clients_dir "${berth_tests_dir}/serve/clients")
  add_test(NAME serve/page
           COMMAND "${BERTH_PYTHON}" -B "${berth_clients_dir}/page_test.py"
                   "$<TARGET_FILE:berth-serve>")
  add_test(NAME serve/openai
           COMMAND "${BERTH_PYTHON}" -B "${berth_clients_dir}/openai_test.py"
                   "$<TARGET_FILE:berth-serve>" "${PROJECT_SOURCE_DIR}/build/clients-venv"
                   "${PROJECT_SOURCE_DIR}/README.md")
  add_test(NAME serve/curl
           COMMAND sh "${berth_clients_dir}/curl_test.sh" "$<TARGET_FILE:berth-serve>"
                   "${PROJECT_SOURCE_DIR}/README.md")
  foreach(client page openai curl)
    berth_register_test(serve/${client} unit)
    set_tests_properties(serve/${client} PROPERTIES SKIP_RETURN_CODE 77)
  endforeach()
  set_tests_properties(serve/page PROPERTIES PROCESSORS 2)
endif()
