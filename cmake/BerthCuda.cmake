# SPDX-License-Identifier: Apache-2.0
# The CUDA module, libberth_cuda.so, where the CUDA Toolkit (12 or newer) is found. The core neither
# links nor includes anything of CUDA: it loads the module when a runtime asks for the device.
#
# src/device/cuda/cuda_*.cu  -> one fat binary each, carried inside the module
# src/device/cuda/cuda_*.c   -> the module's host code, which links the driver at run time
set(BERTH_CUDA AUTO CACHE STRING "Build the CUDA module: ON, OFF, or AUTO: where the toolkit is")
set_property(CACHE BERTH_CUDA PROPERTY STRINGS AUTO ON OFF)
string(TOUPPER "${BERTH_CUDA}" berth_cuda_wanted)
if(berth_cuda_wanted MATCHES "^(1|YES|TRUE|Y)$")
  set(berth_cuda_wanted ON)
elseif(berth_cuda_wanted MATCHES "^(0|NO|FALSE|N)$")
  set(berth_cuda_wanted OFF)
elseif(NOT berth_cuda_wanted MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "BERTH_CUDA is '${BERTH_CUDA}', expected ON, OFF or AUTO")
endif()

set(berth_cuda_dir "${PROJECT_SOURCE_DIR}/src/device/cuda")
file(GLOB berth_cuda_host_sources CONFIGURE_DEPENDS "${berth_cuda_dir}/cuda_*.c")
file(GLOB berth_cuda_kernel_sources CONFIGURE_DEPENDS "${berth_cuda_dir}/cuda_*.cu")
# These hold hand-written declarations against the toolkit's headers.
file(GLOB berth_cuda_checks CONFIGURE_DEPENDS "${berth_cuda_dir}/cuda_*_check.cpp")

# What the module has of the core's files; the rest it is given (cuda_module_entry.c).
set(berth_cuda_core_sources "${PROJECT_SOURCE_DIR}/src/base/dtype.c"
                            "${PROJECT_SOURCE_DIR}/src/base/status.c"
                            "${PROJECT_SOURCE_DIR}/src/base/text.c"
                            "${PROJECT_SOURCE_DIR}/src/base/thread.c"
                            "${PROJECT_SOURCE_DIR}/src/tensor/shape.c")

set(berth_cuda_found FALSE)
if(NOT berth_cuda_wanted STREQUAL "OFF")
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(berth_cuda_found TRUE)
  else()
    set(berth_cuda_why "the CUDA Toolkit (12 or newer: nvcc, its headers, libcudart) is not found")
    if(CUDAToolkit_VERSION AND CUDAToolkit_VERSION VERSION_LESS 12)
      string(APPEND berth_cuda_why ", only ${CUDAToolkit_VERSION} in ${CUDAToolkit_BIN_DIR}")
    endif()
  endif()
endif()
if(NOT berth_cuda_found)
  if(berth_cuda_wanted STREQUAL "ON")
    message(FATAL_ERROR "BERTH_CUDA is ON, but ${berth_cuda_why}: give its place with "
                        "-DCUDAToolkit_ROOT=, or nvcc on the PATH")
  elseif(berth_cuda_wanted STREQUAL "AUTO")
    message(STATUS "No CUDA module: ${berth_cuda_why}")
  endif()
  return()
endif()
message(STATUS "CUDA module: nvcc ${CUDAToolkit_VERSION}")
enable_language(CXX)

# Machine code for A100 and H100, and what drivers compile for newer devices.
set(berth_cuda_codes -gencode arch=compute_80,code=sm_80
                     -gencode arch=compute_90,code=[sm_90,compute_90])
set(berth_cuda_werror)
if(BERTH_WERROR)
  set(berth_cuda_werror -Werror all-warnings)
endif()
set(berth_cuda_images_dir "${PROJECT_BINARY_DIR}/cuda")
file(MAKE_DIRECTORY "${berth_cuda_images_dir}")
set(berth_cuda_images)
set(berth_cuda_image_code)
set(berth_cuda_image_rows)
foreach(source IN LISTS berth_cuda_kernel_sources)
  cmake_path(GET source STEM name)
  set(image "${berth_cuda_images_dir}/${name}.fatbin")
  add_custom_command(
    OUTPUT "${image}"
    COMMAND "${CUDAToolkit_NVCC_EXECUTABLE}" -std=c++17 -O3 -fatbin ${berth_cuda_codes}
            ${berth_cuda_werror} -Xfatbin=-compress-all -I "${PROJECT_SOURCE_DIR}/include"
            -I "${PROJECT_SOURCE_DIR}/src" -MD -MF "${image}.d" -MT "${image}" -o "${image}"
            "${source}"
    DEPENDS "${source}"
    DEPFILE "${image}.d"
    COMMENT "Compiling ${name}.cu for sm_80, sm_90 and PTX"
    VERBATIM)
  list(APPEND berth_cuda_images "${image}")
  string(APPEND berth_cuda_image_code
         "__asm__(\".section .rodata\\n.balign 64\\n.hidden berth_image_${name}\\n\"\n"
         "        \".global berth_image_${name}\\nberth_image_${name}:\\n\"\n"
         "        \".incbin \\\"${image}\\\"\\n.previous\\n\");\n"
         "extern const unsigned char berth_image_${name}[];\n")
  string(APPEND berth_cuda_image_rows "    {\"${name}\", berth_image_${name}},\n")
endforeach()
set(berth_cuda_images_source "${berth_cuda_images_dir}/cuda_images.c")
file(
  CONFIGURE
  OUTPUT "${berth_cuda_images_source}"
  CONTENT "// Made by cmake/BerthCuda.cmake.
#include \"device/cuda/cuda_images.h\"

@berth_cuda_image_code@
const berth_cuda_image berth_cuda_images[] = {
@berth_cuda_image_rows@};
const size_t berth_cuda_image_count = sizeof berth_cuda_images / sizeof berth_cuda_images[0];
"
  @ONLY)
set_source_files_properties("${berth_cuda_images_source}" PROPERTIES OBJECT_DEPENDS
                                                                     "${berth_cuda_images}")

set_source_files_properties(${berth_cuda_checks} PROPERTIES COMPILE_OPTIONS -std=c++17)
add_library(berth_cuda MODULE ${berth_cuda_host_sources} ${berth_cuda_core_sources}
                              ${berth_cuda_checks} "${berth_cuda_images_source}")
target_include_directories(berth_cuda PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_include_directories(berth_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(berth_cuda PRIVATE berth_flags Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(berth_cuda PROPERTIES LINKER_LANGUAGE C)
# One export, so that what the module has of the core's files is its own.
target_link_options(berth_cuda PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/berth_cuda.map)
if(NOT BERTH_SANITIZE)
  target_link_options(berth_cuda PRIVATE -Wl,--no-undefined)
endif()
