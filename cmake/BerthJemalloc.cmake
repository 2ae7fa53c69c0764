# SPDX-License-Identifier: Apache-2.0
# The private jemalloc: berth_jemalloc_object for the static library, berth_jemalloc_archive for the
# shared one, both empty when host metadata comes from libc.

set(berth_jemalloc_object "")
set(berth_jemalloc_archive "")
if(berth_host_jemalloc)
  find_library(BERTH_JEMALLOC_PIC NAMES libjemalloc_pic.a)
  if(NOT BERTH_JEMALLOC_PIC)
    message(FATAL_ERROR
      "libjemalloc_pic.a not found: install libjemalloc-dev, or configure with -DBERTH_HOST=libc")
  endif()
  set(berth_jemalloc_object "${PROJECT_BINARY_DIR}/jemalloc/berth_jemalloc.o")
  set(berth_jemalloc_archive "${PROJECT_BINARY_DIR}/jemalloc/libberth_jemalloc.a")
  add_custom_command(
    OUTPUT "${berth_jemalloc_object}" "${berth_jemalloc_archive}"
    COMMAND
      "${CMAKE_COMMAND}" -E env "AR=${CMAKE_AR}" "NM=${CMAKE_NM}" "LD=${CMAKE_LINKER}"
      "OBJCOPY=${CMAKE_OBJCOPY}" sh "${PROJECT_SOURCE_DIR}/cmake/prefix_jemalloc.sh"
      "${BERTH_JEMALLOC_PIC}" "${berth_jemalloc_object}" "${berth_jemalloc_archive}"
    DEPENDS "${PROJECT_SOURCE_DIR}/cmake/prefix_jemalloc.sh" "${BERTH_JEMALLOC_PIC}"
    COMMENT "Prefixing a private copy of jemalloc"
    VERBATIM)
  add_custom_target(berth_jemalloc DEPENDS "${berth_jemalloc_object}" "${berth_jemalloc_archive}")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/jemalloc")
endif()
