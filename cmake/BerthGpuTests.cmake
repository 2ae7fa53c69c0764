# SPDX-License-Identifier: Apache-2.0
# What runs on a GPU: tests/gpu/test_NAME.c, which skip where there is none, and the programs of
# the bundle that ./dev gpu-bundle makes.
set(berth_gpu_dir "${berth_tests_dir}/gpu")

# The calls of every op that bench-ops measures are compared too.
set(berth_op_cases "${berth_bench_dir}/ops/op_cases.c" "${berth_bench_dir}/ops/op_data.c")
target_sources(test_gpu_ops PRIVATE "${berth_gpu_dir}/gpu_shadow.c" "${berth_gpu_dir}/gpu_tolerance.c"
                                    ${berth_op_cases})
target_include_directories(test_gpu_ops PRIVATE "${berth_bench_dir}")
set_tests_properties(gpu/gpu_ops gpu/gpu_programs PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)
# The comparison itself, with a device that computes as the CPU does.
add_test(NAME gpu/gpu_ops_elsewhere COMMAND test_gpu_ops --device hidden --programs 3 --sizes 1024)
berth_register_test(gpu/gpu_ops_elsewhere unit)

berth_add_program(gpu-tokens bin "${berth_gpu_dir}/gpu_tokens.c")
target_include_directories(gpu-tokens PRIVATE "${berth_tests_dir}")

# bench-gpu runs programs and calls of other benchmarks on the device.
target_sources(bench-gpu PRIVATE ${berth_op_cases} "${berth_bench_dir}/shapes/workload.c"
                                 "${berth_bench_dir}/dispatch/chain.c")
target_link_libraries(bench-gpu PRIVATE m ${CMAKE_DL_LIBS})
# Counts what goes to the driver; its functions are jumps, written for one processor.
set(berth_gpu_counted)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT BERTH_SANITIZE)
  set(berth_gpu_counted berth_cuda_counted)
  add_library(berth_cuda_counted MODULE "${berth_bench_dir}/gpu/counted/counted_driver.c")
  target_include_directories(berth_cuda_counted PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                        "${berth_bench_dir}")
  target_link_libraries(berth_cuda_counted PRIVATE berth_flags ${CMAKE_DL_LIBS})
  set_target_properties(berth_cuda_counted PROPERTIES OUTPUT_NAME cuda_counted)
endif()

# What bench-gpu loads, for who builds that alone.
set(berth_gpu_loaded ${berth_gpu_counted})
if(TARGET berth_cuda)
  list(APPEND berth_gpu_loaded berth_cuda)
endif()
if(berth_gpu_loaded)
  add_dependencies(bench-gpu ${berth_gpu_loaded})
endif()

# What ./dev gpu-bundle needs of the build, but for the module itself.
add_custom_target(gpu-bundle-programs)
add_dependencies(
  gpu-bundle-programs bench-gpu gpu-tokens berth-generate test_device test_gpu_ops
  test_gpu_programs ${berth_gpu_counted})

# The bundle, without a GPU: made, and run in short form on the stand-in.
if(NOT BERTH_SANITIZE)
  add_test(NAME gpu/bundle COMMAND sh "${berth_gpu_dir}/bundle_on_standin.sh"
                                   "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  berth_register_test(gpu/bundle unit)
endif()
