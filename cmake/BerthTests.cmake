# SPDX-License-Identifier: Apache-2.0
# tests/kit/*.c              -> berth_test_kit, linked into every test
# tests/FOLDER/test_NAME.c   -> one executable and one test, FOLDER/NAME
# tests/soak/soak_NAME.c     -> soak-NAME, run by hand through ./dev soak; a short form of some is a
#                               test
# tests/fuzz/fuzz_NAME.c     -> fuzz-NAME with -DBERTH_FUZZ=ON, and a test that replays its
#                               corpus through tests/fuzz/replay_main.c
# bench/bench_NAME.c, bench/NAME/*.c -> bench-NAME, run through ./dev bench; bench/kit/*.c shared

find_package(cmocka REQUIRED)
set(berth_tests_dir "${PROJECT_SOURCE_DIR}/tests")
set(berth_bench_dir "${PROJECT_SOURCE_DIR}/bench")

# Absurd sizes are part of the tests: an allocator that fails must return NULL, not end the program.
set(berth_test_environment
    "ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1"
    "TSAN_OPTIONS=allocator_may_return_null=1:second_deadlock_stack=1"
    "UBSAN_OPTIONS=print_stacktrace=1")
cmake_path(GET PROJECT_SOURCE_DIR PARENT_PATH berth_parent_dir)
if(IS_DIRECTORY "${berth_parent_dir}/shared")
  list(APPEND berth_test_environment "BERTH_SHARED=${berth_parent_dir}/shared")
endif()

function(berth_register_test name label)
  set_tests_properties(
    ${name} PROPERTIES LABELS ${label} TIMEOUT 900 ENVIRONMENT "${berth_test_environment}")
endfunction()

# Adds an executable that may use the library's inside; output goes to FOLDER of the build.
function(berth_add_program target folder)
  add_executable(${target} ${ARGN})
  set_target_properties(
    ${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
  target_link_libraries(${target} PRIVATE berth_internal $<TARGET_NAME_IF_EXISTS:berth-llm>
                                          $<TARGET_NAME_IF_EXISTS:berth-llm-serve>)
endfunction()

file(GLOB berth_kit_sources CONFIGURE_DEPENDS "${berth_tests_dir}/kit/*.c")
if(berth_kit_sources)
  add_library(berth_test_kit STATIC ${berth_kit_sources})
  target_include_directories(berth_test_kit PUBLIC "${berth_tests_dir}/kit")
  target_link_libraries(berth_test_kit PUBLIC berth_internal cmocka)
endif()

file(GLOB berth_test_sources CONFIGURE_DEPENDS "${berth_tests_dir}/*/test_*.c")
foreach(source IN LISTS berth_test_sources)
  cmake_path(GET source STEM target)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME folder)
  berth_add_program(${target} tests "${source}")
  target_include_directories(${target} PRIVATE "${berth_tests_dir}")
  target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:berth_test_kit> cmocka)
  target_compile_definitions(${target} PRIVATE BERTH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  string(REGEX REPLACE "^test_" "${folder}/" name "${target}")
  add_test(NAME ${name} COMMAND ${target})
  set(label unit)
  if(folder STREQUAL "conformance")
    set(label conformance)
  elseif(folder STREQUAL "fuzz")
    set(label replay)
  endif()
  berth_register_test(${name} ${label})
endforeach()

target_compile_definitions(
  test_version PRIVATE "BERTH_TEST_PROJECT_VERSION=\"${PROJECT_VERSION}\"")

add_dependencies(test_plan_command berth-plan)
target_compile_definitions(
  test_plan_command PRIVATE "BERTH_PLAN_COMMAND=\"$<TARGET_FILE:berth-plan>\"")

if(TARGET berth_cuda)
  add_dependencies(test_cuda_images berth_cuda)
  target_compile_definitions(
    test_cuda_images PRIVATE "BERTH_CUDA_IMAGES_DIR=\"${berth_cuda_images_dir}\"")
endif()

foreach(name IN LISTS berth_examples)
  add_test(NAME examples/${name} COMMAND example-${name})
  berth_register_test(examples/${name} unit)
endforeach()

file(GLOB berth_soak_sources CONFIGURE_DEPENDS "${berth_tests_dir}/soak/soak_*.c")
foreach(source IN LISTS berth_soak_sources)
  cmake_path(GET source STEM target)
  string(REPLACE "_" "-" target "${target}")
  berth_add_program(${target} bin "${source}")
  target_include_directories(${target} PRIVATE "${berth_tests_dir}")
  target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:berth_test_kit>)
endforeach()
# A fiftieth of what ./dev soak pool does.
add_test(NAME soak/pool COMMAND soak-pool --count 4 --seed 7)
berth_register_test(soak/pool unit)
# A fiftieth of what ./dev soak kv does.
add_test(NAME soak/kv COMMAND soak-kv --count 4 --seed 31)
berth_register_test(soak/kv unit)
# Two waves; ./dev soak serve runs some hundred.
add_dependencies(soak-serve berth-serve)
add_test(NAME soak/serve COMMAND soak-serve --count 2 --seed 7)
berth_register_test(soak/serve unit)

file(GLOB berth_fuzz_sources CONFIGURE_DEPENDS "${berth_tests_dir}/fuzz/fuzz_*.c")
foreach(source IN LISTS berth_fuzz_sources)
  cmake_path(GET source STEM stem)
  string(REGEX REPLACE "^fuzz_" "" name "${stem}")
  string(REPLACE "_" "-" target "${stem}")
  if(BERTH_FUZZ)
    berth_add_program(${target} bin "${source}")
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  endif()
  if(EXISTS "${berth_tests_dir}/fuzz/replay_main.c")
    berth_add_program(replay_${name} tests "${source}" "${berth_tests_dir}/fuzz/replay_main.c")
    add_test(NAME fuzz/replay_${name}
             COMMAND replay_${name} "${berth_tests_dir}/fuzz/corpus/${name}")
    berth_register_test(fuzz/replay_${name} replay)
  endif()
endforeach()

file(GLOB berth_bench_sources CONFIGURE_DEPENDS "${berth_bench_dir}/bench_*.c"
     "${berth_bench_dir}/*/*.c")
set(berth_bench_kit ${berth_bench_sources})
list(FILTER berth_bench_kit INCLUDE REGEX "/bench/kit/")
list(FILTER berth_bench_sources EXCLUDE REGEX "/bench/kit/")
foreach(source IN LISTS berth_bench_sources)
  cmake_path(GET source STEM stem)
  cmake_path(GET source PARENT_PATH folder)
  if(folder STREQUAL berth_bench_dir)
    string(REGEX REPLACE "^bench_" "" name "${stem}")
  else()
    cmake_path(GET folder FILENAME name)
  endif()
  string(REPLACE "_" "-" target "bench-${name}")
  if(NOT TARGET ${target})
    berth_add_program(${target} bin ${berth_bench_kit})
    target_include_directories(${target} PRIVATE "${berth_bench_dir}")
  endif()
  target_sources(${target} PRIVATE "${source}")
endforeach()

# every op has a row
add_test(NAME bench/ops COMMAND bench-ops --quick)
berth_register_test(bench/ops unit)

# tools/ops_page.c makes docs/ops.md
berth_add_program(ops-page bin "${PROJECT_SOURCE_DIR}/tools/ops_page.c"
                  "${PROJECT_SOURCE_DIR}/src/ops/op_docs.c")
add_test(NAME docs/ops_page
         COMMAND sh "${PROJECT_SOURCE_DIR}/docs/ops_page.sh" check "$<TARGET_FILE:ops-page>"
                 "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/docs/ops.md")
berth_register_test(docs/ops_page unit)

include(BerthInterchangeTests)
include(BerthServeTests)
include(BerthCudaTests)
include(BerthCudaRuntimeTests)
include(BerthInstallTests)
include(BerthGpuTests)
