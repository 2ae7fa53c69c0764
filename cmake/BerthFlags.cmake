# SPDX-License-Identifier: Apache-2.0
# One interface target, berth_flags, that everything in the repository compiles with.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# No NDEBUG: assertions have their own levels (BERTH_CHECK_LEVEL).
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g3")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_SANITIZE "${CMAKE_C_FLAGS_SANITIZE}")

if(NOT BERTH_CHECK_LEVEL MATCHES "^[0-3]$")
  message(FATAL_ERROR "BERTH_CHECK_LEVEL is ${BERTH_CHECK_LEVEL}, expected 0, 1, 2 or 3")
endif()
if(NOT BERTH_SANITIZE MATCHES "^(|address,undefined|thread)$")
  message(FATAL_ERROR "BERTH_SANITIZE is ${BERTH_SANITIZE}, expected address,undefined or thread")
endif()
if(NOT BERTH_HOST MATCHES "^(|jemalloc|libc)$")
  message(FATAL_ERROR "BERTH_HOST is ${BERTH_HOST}, expected jemalloc or libc")
endif()
set(berth_host "${BERTH_HOST}")
if(berth_host STREQUAL "")
  # Sanitizers watch libc's malloc only.
  set(berth_host jemalloc)
  if(BERTH_SANITIZE)
    set(berth_host libc)
  endif()
endif()
set(berth_host_jemalloc 0)
if(berth_host STREQUAL "jemalloc")
  set(berth_host_jemalloc 1)
endif()

set(berth_c_warnings
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wvla -Wstrict-prototypes
    -Wmissing-prototypes -Wcast-qual -Wcast-align -Wpointer-arith -Wformat=2 -Wwrite-strings
    -Wswitch-enum -Wimplicit-fallthrough -Wdouble-promotion)

add_library(berth_flags INTERFACE)
target_compile_definitions(
  berth_flags INTERFACE _GNU_SOURCE BERTH_CHECK_LEVEL=${BERTH_CHECK_LEVEL}
                        BERTH_HOST_JEMALLOC=${berth_host_jemalloc})
target_compile_options(
  berth_flags INTERFACE "$<$<COMPILE_LANGUAGE:C>:${berth_c_warnings}>" -ffp-contract=off
                        "$<$<BOOL:${BERTH_WERROR}>:-Werror>")
target_include_directories(
  berth_flags INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>")
target_link_libraries(berth_flags INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

set(berth_sanitizers "${BERTH_SANITIZE}")
if(BERTH_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "BERTH_FUZZ needs clang, the compiler is ${CMAKE_C_COMPILER_ID}")
  endif()
  list(APPEND berth_sanitizers fuzzer-no-link)
endif()
if(berth_sanitizers)
  list(JOIN berth_sanitizers "," berth_sanitizers)
  target_compile_options(
    berth_flags INTERFACE -fsanitize=${berth_sanitizers} -fno-sanitize-recover=all)
  target_link_options(berth_flags INTERFACE -fsanitize=${berth_sanitizers})
endif()

# Files named *_avx2.c and *_avx512.c hold kernels that are chosen at run time; they alone are
# compiled for those instruction sets, and only where they exist.
set(berth_avx2_flags "-mavx2 -mfma -mf16c")
set(berth_avx512_flags
    "${berth_avx2_flags} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni")
string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" berth_processor)
function(berth_set_isa_flags sources_variable)
  set(kept ${${sources_variable}})
  if(berth_processor MATCHES "^(x86_64|amd64)$")
    foreach(source IN LISTS kept)
      if(source MATCHES "_avx2\\.c$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_FLAGS "${berth_avx2_flags}")
      elseif(source MATCHES "_avx512\\.c$")
        set_source_files_properties("${source}" PROPERTIES COMPILE_FLAGS "${berth_avx512_flags}")
      endif()
    endforeach()
  else()
    list(FILTER kept EXCLUDE REGEX "_avx(2|512)\\.c$")
  endif()
  set(${sources_variable} "${kept}" PARENT_SCOPE)
endfunction()
