# SPDX-License-Identifier: Apache-2.0
# The CUDA back end without a GPU, a driver or the toolkit: the kernels compiled as C++ for the host
# (tests/cuda/emulation.h), and the launchers over them.
#
# src/device/cuda/cuda_*.cu            -> berth_cuda_emulated_kernels
# src/device/cuda/cuda_launch_*.c      -> berth_cuda_direct, with tests/cuda/direct_run.c
# tests/cuda/test_cuda_kernels_NAME.c  -> tests of kernels against the CPU's, linked with both
# tests/cuda/standin_*.c               -> tests/libcuda_standin.so, in the driver's place
# src/device/cuda/cuda_*.c             -> tests/libberth_cuda.so, the module without images
enable_language(CXX)

set(berth_cuda_dir "${PROJECT_SOURCE_DIR}/src/device/cuda")
set(berth_cuda_tests_dir "${PROJECT_SOURCE_DIR}/tests/cuda")
file(GLOB berth_cuda_kernel_sources CONFIGURE_DEPENDS "${berth_cuda_dir}/cuda_*.cu")
file(GLOB berth_cuda_launcher_sources CONFIGURE_DEPENDS "${berth_cuda_dir}/cuda_launch_*.c")
list(APPEND berth_cuda_launcher_sources "${berth_cuda_dir}/cuda_table.c"
     "${berth_cuda_dir}/cuda_walk.c")

# With the project's warnings. Fibers' stacks are the emulation's own affair: a sanitizer
# need not keep others beside them. C programs load what is made of this, and hold no more than a
# sanitizer's C part.
add_library(berth_cuda_emulation_flags INTERFACE)
target_compile_options(
  berth_cuda_emulation_flags
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>"
            "$<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>"
            "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Debug>>:-O1>")
if(BERTH_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(
    berth_cuda_emulation_flags
    INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize-address-use-after-return=never>")
  # After berth_flags, which ask for everything.
  add_library(berth_cuda_emulation_sanitizers INTERFACE)
  target_compile_options(berth_cuda_emulation_sanitizers
                         INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=function,vptr>")
endif()
target_include_directories(
  berth_cuda_emulation_flags INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests"
                                       "${berth_cuda_tests_dir}")
target_link_libraries(
  berth_cuda_emulation_flags
  INTERFACE berth_flags $<TARGET_NAME_IF_EXISTS:berth_cuda_emulation_sanitizers>)

set_source_files_properties(${berth_cuda_kernel_sources} PROPERTIES LANGUAGE CXX)
add_library(berth_cuda_emulated_kernels STATIC ${berth_cuda_kernel_sources}
                                               "${berth_cuda_tests_dir}/emulation.cpp")
set_target_properties(berth_cuda_emulated_kernels PROPERTIES CXX_STANDARD 17)
target_link_libraries(berth_cuda_emulated_kernels PUBLIC berth_cuda_emulation_flags)

add_library(berth_cuda_direct STATIC ${berth_cuda_launcher_sources}
                                     "${berth_cuda_tests_dir}/direct_run.c")
target_link_libraries(berth_cuda_direct PUBLIC berth_cuda_emulated_kernels berth_internal)

target_sources(test_emulation PRIVATE "${berth_cuda_tests_dir}/emulation_samples.cpp")
set_target_properties(test_emulation PROPERTIES CXX_STANDARD 17)
target_link_libraries(test_emulation PRIVATE berth_cuda_emulated_kernels)
foreach(source IN LISTS berth_test_sources)
  if(source MATCHES "/tests/cuda/test_(cuda_kernels_.*)\\.c$")
    target_link_libraries(test_${CMAKE_MATCH_1} PRIVATE berth_cuda_direct)
  endif()
endforeach()

file(GLOB berth_cuda_standin_sources CONFIGURE_DEPENDS "${berth_cuda_tests_dir}/standin_*.c")
add_library(berth_cuda_standin MODULE ${berth_cuda_standin_sources})
target_link_libraries(berth_cuda_standin PRIVATE berth_cuda_emulated_kernels)
add_library(berth_cuda_tested MODULE ${berth_cuda_host_sources} ${berth_cuda_core_sources}
                                     "${berth_cuda_tests_dir}/no_images.c")
target_include_directories(berth_cuda_tested PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(berth_cuda_tested PRIVATE berth_flags)
target_link_options(berth_cuda_tested PRIVATE
                    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/berth_cuda.map)
set_target_properties(
  berth_cuda_standin PROPERTIES OUTPUT_NAME cuda_standin LIBRARY_OUTPUT_DIRECTORY
                                                         "${PROJECT_BINARY_DIR}/tests")
set_target_properties(
  berth_cuda_tested PROPERTIES OUTPUT_NAME berth_cuda LIBRARY_OUTPUT_DIRECTORY
                                                      "${PROJECT_BINARY_DIR}/tests")

# A library in cuBLASLt's place, and what loads it.
add_library(berth_blas_standin MODULE "${berth_cuda_tests_dir}/blas_standin.c")
target_include_directories(berth_blas_standin PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                      "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(berth_blas_standin PRIVATE berth_flags)
set_target_properties(
  berth_blas_standin PROPERTIES OUTPUT_NAME blas_standin LIBRARY_OUTPUT_DIRECTORY
                                                         "${PROJECT_BINARY_DIR}/tests")
target_sources(test_cuda_blas PRIVATE "${berth_cuda_dir}/cuda_blas.c"
                                      "${berth_cuda_dir}/cuda_driver.c")
target_compile_definitions(test_cuda_blas
                           PRIVATE BERTH_TEST_BLAS="$<TARGET_FILE:berth_blas_standin>")
add_dependencies(test_cuda_blas berth_blas_standin)

# Lets a test open the module over the stand-in (tests/cuda/cuda_kit.h).
function(berth_use_cuda_standin target)
  target_compile_definitions(
    ${target} PRIVATE BERTH_TEST_CUDA_MODULE="$<TARGET_FILE:berth_cuda_tested>"
                      BERTH_TEST_CUDA_DRIVER="$<TARGET_FILE:berth_cuda_standin>")
  add_dependencies(${target} berth_cuda_tested berth_cuda_standin)
endfunction()
berth_use_cuda_standin(test_device)
berth_use_cuda_standin(soak-cuda)
# A hundredth of what ./dev soak cuda does.
add_test(NAME soak/cuda COMMAND soak-cuda --count 10 --seed 100)
berth_register_test(soak/cuda unit)
foreach(source IN LISTS berth_test_sources)
  cmake_path(GET source STEM target)
  if(target MATCHES "^test_cuda_" AND NOT target MATCHES "_(kernels|images|blas)")
    berth_use_cuda_standin(${target})
  endif()
endforeach()

# A module that the core must refuse.
add_library(berth_cuda_other_version MODULE "${berth_cuda_tests_dir}/other_version_module.c")
target_include_directories(berth_cuda_other_version PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(berth_cuda_other_version PRIVATE berth_flags)
set_target_properties(berth_cuda_other_version PROPERTIES LIBRARY_OUTPUT_DIRECTORY
                                                          "${PROJECT_BINARY_DIR}/tests")
target_compile_definitions(
  test_cuda_loader
  PRIVATE BERTH_TEST_CUDA_OTHER_VERSION="$<TARGET_FILE:berth_cuda_other_version>")
add_dependencies(test_cuda_loader berth_cuda_other_version)
