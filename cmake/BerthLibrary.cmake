# SPDX-License-Identifier: Apache-2.0
# The library, compiled once and linked twice: libberth.so (target berth) and libberth.a
# (target berth_static).

file(GLOB_RECURSE berth_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.c")
list(FILTER berth_sources EXCLUDE REGEX "/src/device/cuda/")
# The words of the op page belong to the program that makes it.
list(FILTER berth_sources EXCLUDE REGEX "/src/ops/op_docs\\.c$")
berth_set_isa_flags(berth_sources)
if(NOT berth_sources)
  message(FATAL_ERROR "no sources under ${PROJECT_SOURCE_DIR}/src")
endif()

# An installed program that holds the library finds the CUDA module from where it is itself.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_FULL_BINDIR}"
           OUTPUT_VARIABLE berth_library_folder)
set_source_files_properties(
  "${PROJECT_SOURCE_DIR}/src/device/cuda_open.c"
  PROPERTIES COMPILE_DEFINITIONS "BERTH_LIBRARY_FOLDER=\"${berth_library_folder}/\"")

add_library(berth_objects OBJECT ${berth_sources})
target_include_directories(berth_objects PRIVATE "${PROJECT_SOURCE_DIR}/src")
# xxHash is used as a header, inlined, so neither library needs it at run time.
target_include_directories(berth_objects SYSTEM PRIVATE ${XXHASH_INCLUDE_DIRS}
                                                        ${BERTH_DLPACK_INCLUDE_DIR})
target_link_libraries(berth_objects PUBLIC berth_flags)
# What the library links beyond the system's: a static program links it too.
set(berth_private_libraries jansson)
target_include_directories(berth_objects SYSTEM PRIVATE ${JANSSON_INCLUDE_DIRS})
if(OPENBLAS_FOUND)
  list(APPEND berth_private_libraries openblas)
  target_include_directories(berth_objects SYSTEM PRIVATE ${OPENBLAS_INCLUDE_DIRS})
  set_source_files_properties(
    "${PROJECT_SOURCE_DIR}/src/device/cpu/kernel_gemm_library.c"
    PROPERTIES COMPILE_DEFINITIONS BERTH_OPENBLAS=1)
endif()

add_library(berth SHARED $<TARGET_OBJECTS:berth_objects>)
add_library(berth_static STATIC $<TARGET_OBJECTS:berth_objects>)
set_target_properties(berth_static PROPERTIES OUTPUT_NAME berth)
# While the major version is 0, every minor version may change the binary interface: it is part of
# the SONAME and of the symbols' version, as it is for find_package (SameMinorVersion).
set(berth_abi_version "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(berth_version_script "${PROJECT_BINARY_DIR}/berth.map")
configure_file("${PROJECT_SOURCE_DIR}/cmake/berth.map.in" "${berth_version_script}" @ONLY)
set_target_properties(berth PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${berth_abi_version}
                                       LINK_DEPENDS "${berth_version_script}")
target_link_options(berth PRIVATE "-Wl,--version-script=${berth_version_script}")
if(berth_host_jemalloc)
  add_dependencies(berth berth_jemalloc)
  add_dependencies(berth_static berth_jemalloc)
  target_sources(berth_static PRIVATE "${berth_jemalloc_object}")
  set_source_files_properties("${berth_jemalloc_object}" PROPERTIES EXTERNAL_OBJECT ON
                                                                    GENERATED ON)
  # Before libm below: jemalloc calls it.
  target_link_libraries(berth PRIVATE "$<BUILD_INTERFACE:${berth_jemalloc_archive}>")
  target_link_options(berth PRIVATE -Wl,--exclude-libs,libberth_jemalloc.a)
endif()
foreach(library berth berth_static)
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(${library} PRIVATE "$<BUILD_INTERFACE:berth_flags>" ${berth_private_libraries}
                                           Threads::Threads m ${CMAKE_DL_LIBS})
  target_include_directories(
    ${library} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                         "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endforeach()
if(NOT BERTH_SANITIZE)
  target_link_options(berth PRIVATE -Wl,--no-undefined)
endif()

# What the repository's own programs link: the static library and the flags it was built with.
# Programs on the public API take berth_program, tests and benchmarks may look inside with
# berth_internal.
add_library(berth_program INTERFACE)
target_link_libraries(berth_program INTERFACE berth_static berth_flags)
add_library(berth_internal INTERFACE)
target_link_libraries(berth_internal INTERFACE berth_program)
target_include_directories(berth_internal INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_include_directories(berth_internal SYSTEM INTERFACE ${XXHASH_INCLUDE_DIRS}
                                                           ${BERTH_DLPACK_INCLUDE_DIR})
