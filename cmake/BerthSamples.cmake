# SPDX-License-Identifier: Apache-2.0
# samples/llm/*.c        -> library berth-llm
# samples/serve/*.c      -> library berth-llm-serve: what berth-serve and its clients are made of
# samples/berth-NAME/*.c -> command berth-NAME, installed
# samples/examples/*.c   -> example-NAME, each run by the tests

set(berth_samples_dir "${PROJECT_SOURCE_DIR}/samples")
set(berth_commands "")
set(berth_examples "")

file(GLOB berth_llm_sources CONFIGURE_DEPENDS "${berth_samples_dir}/llm/*.c")
if(berth_llm_sources)
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
  add_library(berth-llm STATIC ${berth_llm_sources})
  target_include_directories(berth-llm PUBLIC "${berth_samples_dir}/llm")
  target_link_libraries(berth-llm PUBLIC berth_program PkgConfig::UTF8PROC jansson)
  target_include_directories(berth-llm SYSTEM PRIVATE ${JANSSON_INCLUDE_DIRS})
endif()

file(GLOB berth_serve_sources CONFIGURE_DEPENDS "${berth_samples_dir}/serve/*.c")
if(berth_serve_sources)
  pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)
  pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
  add_library(berth-llm-serve STATIC ${berth_serve_sources})
  target_include_directories(berth-llm-serve PUBLIC "${berth_samples_dir}/serve")
  target_link_libraries(berth-llm-serve PUBLIC berth-llm PkgConfig::MICROHTTPD PkgConfig::LIBCURL
                                                xxhash)
  # a server that asks nobody has no HTTP client in it, and a client no server
  target_link_options(berth-llm-serve INTERFACE LINKER:--as-needed)
  target_include_directories(berth-llm-serve SYSTEM PRIVATE ${JANSSON_INCLUDE_DIRS})
  # The chat page becomes part of the program.
  set(berth_page "${berth_samples_dir}/serve/page.html")
  set(berth_page_source "${PROJECT_BINARY_DIR}/page.c")
  set(berth_page_script "${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake")
  add_custom_command(
    OUTPUT "${berth_page_source}"
    COMMAND "${CMAKE_COMMAND}" "-DPAGE=${berth_page}" "-DOUTPUT=${berth_page_source}" -P
            "${berth_page_script}"
    DEPENDS "${berth_page}" "${berth_page_script}"
    VERBATIM)
  target_sources(berth-llm-serve PRIVATE "${berth_page_source}")
endif()

file(GLOB berth_command_sources CONFIGURE_DEPENDS "${berth_samples_dir}/berth-*/*.c")
foreach(source IN LISTS berth_command_sources)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME command)
  if(NOT TARGET ${command})
    add_executable(${command})
    target_include_directories(${command} PRIVATE "${folder}")
    target_link_libraries(${command} PRIVATE berth_program $<TARGET_NAME_IF_EXISTS:berth-llm>
                                             $<TARGET_NAME_IF_EXISTS:berth-llm-serve>)
    list(APPEND berth_commands ${command})
  endif()
  target_sources(${command} PRIVATE "${source}")
endforeach()

file(GLOB berth_example_sources CONFIGURE_DEPENDS "${berth_samples_dir}/examples/*.c")
foreach(source IN LISTS berth_example_sources)
  cmake_path(GET source STEM name)
  string(REPLACE "_" "-" name "${name}")
  add_executable(example-${name} "${source}")
  target_link_libraries(example-${name} PRIVATE berth_program)
  list(APPEND berth_examples ${name})
endforeach()
