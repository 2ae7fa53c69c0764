# SPDX-License-Identifier: Apache-2.0
# Headers, both libraries, the commands, a pkg-config file and a CMake package.
include(CMakePackageConfigHelpers)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/berth" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
install(TARGETS berth berth_static EXPORT berth-targets)
if(TARGET berth_cuda)
  # beside libberth.so, where it looks for it
  install(TARGETS berth_cuda DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(berth_commands)
  install(TARGETS ${berth_commands})
endif()

set(berth_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/berth")
install(EXPORT berth-targets NAMESPACE berth:: DESTINATION "${berth_package_dir}")
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/berth-config.cmake.in" "${PROJECT_BINARY_DIR}/berth-config.cmake"
  INSTALL_DESTINATION "${berth_package_dir}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/berth-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/berth-config.cmake"
              "${PROJECT_BINARY_DIR}/berth-config-version.cmake"
        DESTINATION "${berth_package_dir}")

# Paths relative to the file itself, so that an installed tree may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
           BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE berth_pc_prefix)
# Names, not packages: who links the shared library needs no pkg-config file of what is inside it.
list(TRANSFORM berth_private_libraries PREPEND "-l" OUTPUT_VARIABLE berth_pc_libraries)
list(JOIN berth_pc_libraries " " berth_pc_libraries)
configure_file("${PROJECT_SOURCE_DIR}/cmake/berth.pc.in" "${PROJECT_BINARY_DIR}/berth.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/berth.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/berth")
