# SPDX-License-Identifier: Apache-2.0
# Tests of the installed tree and of the documents. Sanitizers own malloc themselves and need their
# flags in every program, so the package is tested without them.

if(NOT BERTH_SANITIZE AND NOT BERTH_FUZZ)
  include(CheckLanguage)
  check_language(CXX)
  set(berth_cxx "")
  if(CMAKE_CXX_COMPILER)
    set(berth_cxx "${CMAKE_CXX_COMPILER}")
  endif()
  add_test(NAME install/package
           COMMAND sh "${berth_tests_dir}/install/package.sh" "${PROJECT_BINARY_DIR}"
                   "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}" ${berth_cxx})
  berth_register_test(install/package unit)
  add_test(NAME install/symbols
           COMMAND sh "${berth_tests_dir}/install/symbols.sh" "$<TARGET_FILE:berth>"
                   "${PROJECT_SOURCE_DIR}/include" "${CMAKE_C_COMPILER}" "${berth_abi_version}")
  berth_register_test(install/symbols unit)
endif()

if(TARGET berth-config)
  add_test(NAME install/readme_options
           COMMAND sh "${PROJECT_SOURCE_DIR}/cmake/options_table.sh" check
                   "$<TARGET_FILE:berth-config>" "${PROJECT_SOURCE_DIR}/README.md")
  berth_register_test(install/readme_options unit)
endif()
