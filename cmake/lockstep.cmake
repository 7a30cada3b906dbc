# lockstep_room(NAME [USES rooms...] [LIBRARIES libraries...] [INCLUDES folders...])
#   Library lockstep_NAME from every .c file below src/NAME. INCLUDES are the libraries' headers, for this room alone.
function(lockstep_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LIBRARIES;INCLUDES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.c")
  list(FILTER sources EXCLUDE REGEX "/kernels/[^/]*$") # compiled once per vector width, see below
  list(FILTER sources EXCLUDE REGEX "src/device/cuda/") # the plugin: cuda.cmake
  if(NOT LOCKSTEP_MPI)
    list(FILTER sources EXCLUDE REGEX "/comm_mpi[a-z_]*\\.c$")
  endif()
  add_library(lockstep_${name} STATIC ${sources})
  set_target_properties(lockstep_${name} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(lockstep_${name} PUBLIC "${CMAKE_SOURCE_DIR}/src")
  target_include_directories(lockstep_${name} SYSTEM PRIVATE ${ROOM_INCLUDES})
  list(TRANSFORM ROOM_USES PREPEND lockstep_)
  target_link_libraries(lockstep_${name} PUBLIC ${ROOM_USES} PRIVATE ${ROOM_LIBRARIES})
endfunction()

# lockstep_version(ROOM)
#   build/generated/lockstep_version.h for ROOM: git's description of the tree, renewed at every build but rewritten only when it
#   changed, so that nothing is compiled again without need; compiler, flags and library versions as configure found them.
function(lockstep_version room)
  set(dnnl "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" line REGEX "^#define +DNNL_VERSION_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND dnnl "${number}")
  endforeach()
  list(JOIN dnnl "." dnnl)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(flags "${CMAKE_BUILD_TYPE} ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${type}}")
  if(LOCKSTEP_SANITIZE)
    string(APPEND flags " -fsanitize=${LOCKSTEP_SANITIZE}")
  endif()
  string(REGEX REPLACE "[ \"\\]+" " " flags "${flags}") # it becomes a string of C
  set(command ${CMAKE_COMMAND} "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DOUT=${CMAKE_BINARY_DIR}/generated/lockstep_version.h"
    "-DVERSION=${PROJECT_VERSION}" "-DCOMPILER=${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION} ${flags}"
    "-DLIBRARIES=oneDNN ${dnnl}, zlib ${ZLIB_VERSION_STRING}" -P "${CMAKE_SOURCE_DIR}/cmake/version.cmake")
  add_custom_target(lockstep_describe COMMAND ${command} VERBATIM
    BYPRODUCTS "${CMAKE_BINARY_DIR}/generated/lockstep_version.h" COMMENT "")
  add_dependencies(lockstep_${room} lockstep_describe)
  target_include_directories(lockstep_${room} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()

# lockstep_vector_kernels(ROOM FOLDER)
#   Every .c file of FOLDER is compiled several times into the room; LS_VL is the number of floats in a vector and LS_KERNEL(name) in
#   kernels.h appends it to the symbol. v8: AVX2. v16: AVX-512. v16e: 16 floats on AVX2 (LS_EMULATED), so that tests cover the
#   layouts of AVX-512 on any machine. v1: tensors of few channels. The processor decides at run time.
#   winograd*.c are left out of v1: few channels have no Winograd kernels.
function(lockstep_vector_kernels room folder)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c")
  if(NOT sources)
    return()
  endif()
  set(options_1 LS_VL=1 -march=haswell)
  set(options_8 LS_VL=8 -march=haswell)
  set(options_16 LS_VL=16 -march=skylake-avx512 -mprefer-vector-width=512)
  set(options_16e LS_VL=16 -march=haswell -DLS_EMULATED=1)
  foreach(variant 1 8 16 16e)
    set(variant_sources ${sources})
    if(variant EQUAL 1)
      list(FILTER variant_sources EXCLUDE REGEX "/winograd[^/]*$")
    endif()
    add_library(lockstep_kernels_v${variant} OBJECT ${variant_sources})
    list(POP_FRONT options_${variant} width)
    target_include_directories(lockstep_kernels_v${variant} PRIVATE "${CMAKE_SOURCE_DIR}/src")
    target_compile_definitions(lockstep_kernels_v${variant} PRIVATE ${width})
    # ISO mode turns contraction off; the kernels want fused multiply-add
    target_compile_options(lockstep_kernels_v${variant} PRIVATE -O3 -ffp-contract=fast -Wno-psabi ${options_${variant}})
    target_sources(lockstep_${room} PRIVATE $<TARGET_OBJECTS:lockstep_kernels_v${variant}>)
  endforeach()
endfunction()

# lockstep_program(NAME FOLDER USES rooms...)
#   Executable NAME from FOLDER; a link to it stands at the repository's root (ignored by git) after a build.
function(lockstep_program name folder)
  cmake_parse_arguments(PROGRAM "" "" "USES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.c")
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  list(TRANSFORM PROGRAM_USES PREPEND lockstep_)
  add_library(lockstep_cli STATIC ${sources}) # a library, so that tests reach it
  target_include_directories(lockstep_cli PUBLIC "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(lockstep_cli PUBLIC ${PROGRAM_USES})
  add_executable(${name} "${CMAKE_SOURCE_DIR}/${folder}/main.c")
  target_link_libraries(${name} PRIVATE lockstep_cli)
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${name}> "${CMAKE_SOURCE_DIR}/${name}")
endfunction()

# lockstep_bench(NAME FOLDER USES rooms... [LIBRARIES libraries...] [INCLUDES folders...])
#   Executable NAME from FOLDER, built only when it is asked for: cmake --build BUILD --target NAME.
function(lockstep_bench name folder)
  cmake_parse_arguments(BENCH "" "" "USES;LIBRARIES;INCLUDES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.c")
  list(TRANSFORM BENCH_USES PREPEND lockstep_)
  add_executable(${name} EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${name} SYSTEM PRIVATE ${BENCH_INCLUDES})
  target_link_libraries(${name} PRIVATE ${BENCH_USES} ${BENCH_LIBRARIES})
endfunction()

# lockstep_injected(NAME SOURCE)
#   Executable NAME: the program, linked so that our calls of the functions that SOURCE defines as __wrap_... go through it.
function(lockstep_injected name source)
  file(STRINGS "${source}" lines REGEX "^[a-zA-Z].* [*]*__wrap_[a-z]")
  file(STRINGS "${source}" rows REGEX "^(PASS|PASS_RECORDED|PASS_FILE|LIBRARY|MAKES|ENDS)\\(")
  set(options "")
  foreach(line IN LISTS lines rows)
    string(REGEX MATCH "(__wrap_|^[A-Z_]+\\()([a-zA-Z0-9_]+)" found "${line}")
    list(APPEND options "LINKER:--wrap=${CMAKE_MATCH_2}")
  endforeach()
  add_executable(${name} "${CMAKE_SOURCE_DIR}/src/cli/main.c" "${source}")
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${source}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}") # the names above
  target_link_libraries(${name} PRIVATE lockstep_cli)
  target_link_options(${name} PRIVATE ${options})
endfunction()

# lockstep_tests(FOLDER)
#   tests/ROOM/test_NAME.c is a cmocka program "ROOM.NAME", linked with everything; tests/ROOM/test_NAME.sh a script of that name,
#   called with the folder of the built programs as its argument. Exit status 77 is a skipped test (it prints the reason).
#   Scripts start several ranks: one of them at a time, beside whatever else runs.
function(lockstep_tests folder)
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    message(STATUS "cmocka not found: no tests in this build")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*/test_*.c")
  list(FILTER sources EXCLUDE REGEX "/emulation/[^/]*$") # needs the emulation: cuda.cmake
  foreach(source ${sources})
    get_filename_component(room_folder "${source}" DIRECTORY)
    get_filename_component(room "${room_folder}" NAME)
    get_filename_component(file "${source}" NAME_WE)
    string(REPLACE "test_" "" test "${file}")
    set(target test_${room}_${test})
    add_executable(${target} "${source}")
    target_include_directories(${target} PRIVATE "${folder}")
    target_link_libraries(${target} PRIVATE lockstep_cli PkgConfig::CMOCKA)
    add_test(NAME ${room}.${test} COMMAND ${target} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    set_tests_properties(${room}.${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
  lockstep_injected(train_injected "${folder}/support/inject.c")
  add_executable(newest_checkpoint "${folder}/support/newest_checkpoint.c") # for tests/fault/power_loss.py
  target_link_libraries(newest_checkpoint PRIVATE lockstep_cli)
  add_executable(plant_plans "${folder}/support/plant_plans.c") # for tests/train/test_plan_choices.sh
  target_link_libraries(plant_plans PRIVATE lockstep_cli)
  lockstep_injected(train_flipped "${folder}/support/flip.c")
  file(GLOB scripts CONFIGURE_DEPENDS "${folder}/*/test_*.sh")
  foreach(script ${scripts})
    get_filename_component(room_folder "${script}" DIRECTORY)
    get_filename_component(room "${room_folder}" NAME)
    get_filename_component(file "${script}" NAME_WE)
    string(REPLACE "test_" "" test "${file}")
    add_test(NAME ${room}.${test} COMMAND bash "${script}" "${CMAKE_BINARY_DIR}/bin" WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    set_tests_properties(${room}.${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 RESOURCE_LOCK ranks)
  endforeach()
endfunction()
