# Installs the program (cmake --install), and makes packages of it (cpack).
#
#   lib/lockstep/train, lockstep_cuda13.so  the program and its device plugins, which it looks for in its own folder
#   bin/lockstep-train                      a link to the program: "train" is too general a name for a command in PATH
#   share/lockstep/configs, scripts         the program finds them by its own path (src/system/installed.h), so no file
#                                           has the prefix in it
#   share/doc/lockstep, share/man, and the completions of bash and zsh
# Components: program, doc, and the name of each plugin (cuda).

include(GNUInstallDirs)
# Installed files search libraries in the same folders as the files of the build. Without this setting CMake pads the
# search path of the build's files, to make room for the installed one. The padding is an empty entry, which the loader
# takes for the current folder: it would load any library that is there.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)

# lockstep_install()
#   Installs the program, the files that it reads, and its documentation.
function(lockstep_install)
  install(TARGETS train DESTINATION lib/lockstep COMPONENT program)
  install(CODE "
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
    file(CREATE_LINK ../lib/lockstep/train
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/lockstep-train\" SYMBOLIC)" COMPONENT program)
  install(DIRECTORY configs DESTINATION share/lockstep COMPONENT program)
  install(PROGRAMS scripts/fetch-data.sh scripts/fetch-cuda.sh scripts/launch.sh scripts/torch_to_safetensors.py scripts/import_runs.py
    DESTINATION share/lockstep/scripts COMPONENT program)
  install(DIRECTORY scripts/slurm DESTINATION share/lockstep/scripts COMPONENT program)
  set(page "${CMAKE_BINARY_DIR}/generated/lockstep-train.1")
  add_custom_command(OUTPUT "${page}" DEPENDS train "${CMAKE_SOURCE_DIR}/cmake/man_page.sh" VERBATIM COMMENT ""
    COMMAND sh "${CMAKE_SOURCE_DIR}/cmake/man_page.sh" $<TARGET_FILE:train> lockstep-train > "${page}")
  add_custom_target(lockstep_help ALL DEPENDS "${page}")
  install(FILES "${page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program)
  install(FILES scripts/completion/lockstep-train.bash DESTINATION share/bash-completion/completions RENAME lockstep-train COMPONENT program)
  install(FILES scripts/completion/_lockstep-train DESTINATION share/zsh/vendor-completions COMPONENT program)
  install(FILES README.md CONTRIBUTING.md DESTINATION share/doc/lockstep COMPONENT doc)
  install(DIRECTORY docs DESTINATION share/doc/lockstep COMPONENT doc)
endfunction()

# lockstep_install_plugin(NAME TARGET)
#   Installs plugin TARGET beside the program, as a part of component NAME.
function(lockstep_install_plugin name target)
  install(TARGETS ${target} LIBRARY DESTINATION lib/lockstep COMPONENT ${name})
  set_property(GLOBAL APPEND PROPERTY lockstep_plugin_components ${name})
  set_property(GLOBAL APPEND PROPERTY lockstep_plugin_targets ${target})
endfunction()

# lockstep_packages()
#   Defines target `deb`, which makes the packages lockstep, lockstep-doc and, if the plugin is built, lockstep-cuda,
#   in the build folder. The target first builds their content, which `cpack -G DEB` alone does not do.
macro(lockstep_packages)
  get_property(lockstep_plugin_components GLOBAL PROPERTY lockstep_plugin_components)
  list(REMOVE_DUPLICATES lockstep_plugin_components) # one package has a plugin's files for all versions
  get_property(lockstep_plugin_targets GLOBAL PROPERTY lockstep_plugin_targets)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME lockstep)
  set(CPACK_PACKAGE_CONTACT "the authors of Lockstep <lockstep@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains small convolutional networks on several devices in step")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENTS_ALL program doc ${lockstep_plugin_components})
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME lockstep)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
  if(CMAKE_CROSSCOMPILING) # cmake/arm64.cmake
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
    set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS OFF)
    set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_SOURCE_DIR}/cmake/cross_depends.cmake")
    set(CPACK_LOCKSTEP_SHLIBS "${CMAKE_SYSROOT}/shlibs")
    set(CPACK_LOCKSTEP_READELF "${CMAKE_READELF}")
    set(CPACK_LOCKSTEP_PROGRAM "${CMAKE_BINARY_DIR}/bin/train")
  endif()
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS openmpi-bin)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "lockstep-doc, dataset-fashion-mnist")
  set(CPACK_DEBIAN_DOC_PACKAGE_NAME lockstep-doc)
  set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
  foreach(plugin ${lockstep_plugin_components})
    string(TOUPPER "${plugin}" upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME lockstep-${plugin})
    # Debian has no packages of the vendor's libraries.
    set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "lockstep (= ${PROJECT_VERSION})")
  endforeach()
  include(CPack)
  add_custom_target(deb DEPENDS lockstep_help ${lockstep_plugin_targets} USES_TERMINAL VERBATIM
    COMMAND "${CMAKE_CPACK_COMMAND}" -G DEB WORKING_DIRECTORY "${CMAKE_BINARY_DIR}")
endmacro()
