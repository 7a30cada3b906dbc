# lockstep_rooms(FILE)
#   Reads the list of rooms, one per line: "data 5400 base config" has the name, the budget of lines and the rooms that
#   `data` includes. Sets lockstep_uses_NAME to the libraries of the included rooms.
macro(lockstep_rooms file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(STRINGS "${file}" lockstep_rooms REGEX "^[a-z]")
  foreach(row ${lockstep_rooms})
    string(REGEX REPLACE " +" ";" row "${row}")
    list(POP_FRONT row room budget)
    list(TRANSFORM row PREPEND lockstep_ OUTPUT_VARIABLE lockstep_uses_${room})
  endforeach()
endmacro()

# lockstep_plugins(FILE)
#   Reads the table of device plugins. Sets lockstep_plugins to their names.
macro(lockstep_plugins file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(STRINGS "${file}" lockstep_plugins REGEX "^PLUGIN\\(")
  list(TRANSFORM lockstep_plugins REPLACE "^PLUGIN\\([^,]*, *([a-z0-9_]+),.*" "\\1")
endmacro()

# lockstep_room(NAME [LIBRARIES libraries...] [INCLUDES folders...])
#   Makes library lockstep_NAME from every .c file below src/NAME and links it with the rooms that it includes.
#   INCLUDES are folders of the libraries' headers; only this room sees them.
function(lockstep_room name)
  cmake_parse_arguments(ROOM "" "" "LIBRARIES;INCLUDES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${name}/*.c")
  list(FILTER sources EXCLUDE REGEX "/kernels/[^/]*$") # lockstep_vector_kernels compiles them, once per vector width
  foreach(plugin ${lockstep_plugins})
    list(FILTER sources EXCLUDE REGEX "src/device/${plugin}/") # ${plugin}.cmake builds the plugin
  endforeach()
  if(NOT LOCKSTEP_MPI)
    list(FILTER sources EXCLUDE REGEX "/comm_mpi[a-z_]*\\.c$")
  endif()
  if(LOCKSTEP_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "/onednn_absent\\.c$")
  else()
    list(FILTER sources EXCLUDE REGEX "/onednn\\.c$")
  endif()
  add_library(lockstep_${name} STATIC ${sources})
  set_target_properties(lockstep_${name} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(lockstep_${name} PUBLIC "${CMAKE_SOURCE_DIR}/src")
  target_include_directories(lockstep_${name} SYSTEM PRIVATE ${ROOM_INCLUDES})
  target_link_libraries(lockstep_${name} PUBLIC ${lockstep_uses_${name}} PRIVATE ${ROOM_LIBRARIES})
endfunction()

# lockstep_version(ROOM)
#   Writes build/generated/lockstep_version.h for ROOM: git's description of the tree, and the compiler, flags and
#   library versions that CMake found at configure time. Every build describes the tree again, but rewrites the header
#   only if it changed, so that nothing is compiled again without need.
function(lockstep_version room)
  set(libraries "zlib ${ZLIB_VERSION_STRING}")
  if(LOCKSTEP_ONEDNN)
    set(dnnl "")
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" line REGEX "^#define +DNNL_VERSION_${part} +[0-9]+")
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND dnnl "${number}")
    endforeach()
    list(JOIN dnnl "." dnnl)
    set(libraries "oneDNN ${dnnl}, ${libraries}")
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(flags "${CMAKE_BUILD_TYPE} ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${type}}")
  if(LOCKSTEP_SANITIZE)
    string(APPEND flags " -fsanitize=${LOCKSTEP_SANITIZE}")
  endif()
  string(REGEX REPLACE "[ \"\\]+" " " flags "${flags}") # the flags become a C string
  set(command ${CMAKE_COMMAND} "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DOUT=${CMAKE_BINARY_DIR}/generated/lockstep_version.h"
    "-DVERSION=${PROJECT_VERSION}" "-DCOMPILER=${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION} ${flags}"
    "-DLIBRARIES=${libraries}" -P "${CMAKE_SOURCE_DIR}/cmake/version.cmake")
  add_custom_target(lockstep_describe COMMAND ${command} VERBATIM
    BYPRODUCTS "${CMAKE_BINARY_DIR}/generated/lockstep_version.h" COMMENT "")
  add_dependencies(lockstep_${room} lockstep_describe)
  target_include_directories(lockstep_${room} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()

# lockstep_vector_kernels(ROOM FOLDER)
#   Compiles every .c file of FOLDER several times into the room. LS_VL is the number of floats in a vector, and
#   LS_KERNEL(name) in kernels.h appends it to the symbol. The program chooses a variant at run time, by the processor:
#     v1b, v4     any processor that the program is compiled for: x86-64 without AVX2, arm64
#     v1          for tensors with few channels; without the Winograd kernels, which need more channels
#     v8          AVX2
#     v16         AVX-512
#     v16n_bf16   AVX-512 with instructions that round to bfloat16
#   In variants with _bf16 (LS_STORED_BF16) activations are bfloat16 in memory; files without activations are left out.
#   Two variants are emulated (LS_EMULATED) for tests alone: lockstep_tests links them.
#     v16e        vectors of 16 floats on AVX2, so that tests cover the layouts of AVX-512 on any machine; compiled at
#                 -O1, because -O3 takes two minutes for vectors that are twice as wide as the registers
#     v4e         vectors of 4 floats with AVX2's fused multiply-add: the arithmetic of arm64 on x86-64
#   With LOCKSTEP_PROCESSOR=native the program gets the variants alone that it uses on this processor.
function(lockstep_vector_kernels room folder)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c")
  if(NOT sources)
    return()
  endif()
  set(level -O3)
  if(LOCKSTEP_SANITIZE)
    # A third of the time of compiling. The address sanitizer sees what the checks that are left out would see.
    set(level -O1 -fno-sanitize=null,alignment,pointer-overflow,object-size,bounds)
  endif()
  set(narrow "") # few x86-64 processors need v1b and v4, so their time of compiling counts more than their speed
  if(LOCKSTEP_X86)
    set(narrow -O1)
  endif()
  set(options_1b LS_VL=1 -DLS_BASELINE=1 ${narrow})
  set(options_4 LS_VL=4 ${narrow})
  set(options_4e LS_VL=4 -march=haswell -DLS_EMULATED=1 -O1 -fexpensive-optimizations) # the latter fuses
  set(options_1 LS_VL=1 -march=haswell)
  set(options_8 LS_VL=8 -march=haswell)
  set(options_16 LS_VL=16 -march=skylake-avx512 -mprefer-vector-width=512)
  set(options_16e LS_VL=16 -march=haswell -DLS_EMULATED=1 -O1)
  set(options_16n LS_VL=16 -march=skylake-avx512 -mavx512bf16 -mprefer-vector-width=512 -DLS_NATIVE_BF16=1)
  set(widths 1b 4)
  lockstep_native_variants(native)
  if(native)
    string(REGEX REPLACE "_bf16" "" widths "${native}")
    list(REMOVE_DUPLICATES widths)
  elseif(LOCKSTEP_X86)
    list(APPEND widths 1 8 16 16n)
    if(BUILD_TESTING)
      list(APPEND widths 16e)
    endif()
    if(BUILD_TESTING AND NOT LOCKSTEP_SANITIZE) # it takes time to compile, and v4 is the same source
      list(APPEND widths 4e)
    endif()
  endif()
  foreach(width IN LISTS widths)
    list(POP_FRONT options_${width} definition)
    set(width_sources ${sources})
    if(width MATCHES "^1b?$")
      list(FILTER width_sources EXCLUDE REGEX "/winograd[^/]*$")
    endif()
    set(storages "" _bf16)
    if(width STREQUAL 16n)
      set(storages _bf16)
    endif()
    foreach(storage IN LISTS storages)
      if(native AND NOT "${width}${storage}" IN_LIST native)
        continue()
      endif()
      set(target lockstep_kernels_v${width}${storage})
      set(variant_sources ${width_sources})
      if(storage)
        list(FILTER variant_sources EXCLUDE REGEX "/(gemm|quantise|update|winograd_gemm|winograd_filters)\\.c$")
      endif()
      add_library(${target} OBJECT ${variant_sources})
      target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/src")
      target_compile_definitions(${target} PRIVATE ${definition} $<$<BOOL:${storage}>:LS_STORED_BF16=1>)
      # ISO C mode turns contraction off, but the kernels need fused multiply-add
      target_compile_options(${target} PRIVATE ${level} -ffp-contract=fast -Wno-psabi ${options_${width}})
      if(NOT width MATCHES "e$")
        target_sources(lockstep_${room} PRIVATE $<TARGET_OBJECTS:${target}>)
        target_compile_definitions(lockstep_${room} PRIVATE LS_KERNELS_v${width}${storage}=1)
      endif()
    endforeach()
  endforeach()
endfunction()

# lockstep_native_variants(OUT)
#   Sets OUT to the kernels' variants that this processor uses, or to nothing where all are compiled. The choice is that
#   of device/cpu/device.c, by the features that system/cpus.c asks for.
function(lockstep_native_variants out)
  set(${out} "" PARENT_SCOPE)
  if(NOT LOCKSTEP_PROCESSOR STREQUAL "native" OR NOT LOCKSTEP_X86 OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  if(BUILD_TESTING)
    message(FATAL_ERROR "LOCKSTEP_PROCESSOR=native leaves out kernels that the tests need: add -DBUILD_TESTING=OFF, or use any")
  endif()
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  string(REPLACE " " ";" flags "${flags}")
  if(avx512f IN_LIST flags AND avx512bw IN_LIST flags AND avx512dq IN_LIST flags AND avx512vl IN_LIST flags)
    set(variants 1 1_bf16 16 16_bf16)
    if(avx512_bf16 IN_LIST flags)
      list(TRANSFORM variants REPLACE "^16_bf16$" 16n_bf16)
    endif()
  elseif(avx2 IN_LIST flags AND fma IN_LIST flags)
    set(variants 1 1_bf16 8 8_bf16)
  else()
    set(variants 1b 1b_bf16 4 4_bf16)
  endif()
  set(${out} "${variants}" PARENT_SCOPE)
endfunction()

# lockstep_program(NAME ROOM)
#   Makes executable NAME from src/ROOM. A build without sanitizers, for this processor, also makes a link to it in the
#   root of the repository, which git ignores.
function(lockstep_program name room)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${room}/*.c")
  list(FILTER sources EXCLUDE REGEX "/main\\.c$")
  add_library(lockstep_${room} STATIC ${sources}) # a library, so that tests can link it
  target_include_directories(lockstep_${room} PUBLIC "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(lockstep_${room} PUBLIC ${lockstep_uses_${room}})
  add_executable(${name} "${CMAKE_SOURCE_DIR}/src/${room}/main.c")
  target_link_libraries(${name} PRIVATE lockstep_${room})
  if(NOT LOCKSTEP_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    add_custom_command(TARGET ${name} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${name}> "${CMAKE_SOURCE_DIR}/${name}")
  endif()
endfunction()

# lockstep_embed(ROOM FOLDER FILES...)
#   Embeds FILES of FOLDER in library lockstep_ROOM. embed.cmake describes the names of the arrays.
function(lockstep_embed room folder)
  set(out "${CMAKE_BINARY_DIR}/generated/lockstep_embedded_${room}.c")
  list(JOIN ARGN "," names)
  list(TRANSFORM ARGN PREPEND "${folder}/" OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT "${out}" DEPENDS ${files} "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
    COMMAND ${CMAKE_COMMAND} "-DOUT=${out}" "-DFOLDER=${folder}" "-DFILES=${names}" -P "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
    VERBATIM COMMENT "")
  target_sources(lockstep_${room} PRIVATE "${out}")
endfunction()

# lockstep_bench(NAME FOLDER USES rooms... [LIBRARIES libraries...] [INCLUDES folders...])
#   Defines executable NAME from FOLDER. It is built only on request: cmake --build BUILD --target NAME.
function(lockstep_bench name folder)
  cmake_parse_arguments(BENCH "" "" "USES;LIBRARIES;INCLUDES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.c")
  list(TRANSFORM BENCH_USES PREPEND lockstep_)
  add_executable(${name} EXCLUDE_FROM_ALL ${sources})
  target_include_directories(${name} SYSTEM PRIVATE ${BENCH_INCLUDES})
  target_link_libraries(${name} PRIVATE ${BENCH_USES} ${BENCH_LIBRARIES})
endfunction()

# lockstep_injected(NAME SOURCE)
#   Makes executable NAME: the program, linked with SOURCE. Where SOURCE defines __wrap_FUNCTION, Lockstep's calls of
#   FUNCTION go there instead.
function(lockstep_injected name source)
  file(STRINGS "${source}" lines REGEX "^[a-zA-Z].* [*]*__wrap_[a-z]")
  file(STRINGS "${source}" rows REGEX "^(PASS|PASS_AT|PASS_RECORDED|PASS_FILE|LIBRARY|MAKES|ENDS)\\(")
  set(options "")
  foreach(line IN LISTS lines rows)
    string(REGEX MATCH "(__wrap_|^[A-Z_]+\\()([a-zA-Z0-9_]+)" found "${line}")
    list(APPEND options "LINKER:--wrap=${CMAKE_MATCH_2}")
  endforeach()
  add_executable(${name} "${CMAKE_SOURCE_DIR}/src/cli/main.c" "${source}")
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${source}")
  # Configure again if SOURCE changes: the names above come from it.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  target_link_libraries(${name} PRIVATE lockstep_cli)
  target_link_options(${name} PRIVATE ${options})
endfunction()

# lockstep_mpich()
#   Makes train_mpich and test_dist_ranks_mpich for tests/dist/test_mpich.sh, if MPICH is installed beside the build's
#   MPI. They are the programs train and test_dist_ranks with src/dist compiled for MPICH. The other rooms do not use
#   MPI, so their libraries are reused. They are linked as files, because their targets would bring lockstep_dist with
#   them.
function(lockstep_mpich)
  pkg_check_modules(MPICH QUIET IMPORTED_TARGET mpich)
  if(NOT MPICH_FOUND OR NOT LOCKSTEP_MPI OR LOCKSTEP_SANITIZE OR MPI_C_LIBRARIES MATCHES "mpich")
    return()
  endif()
  get_target_property(sources lockstep_dist SOURCES)
  add_library(lockstep_dist_mpich STATIC ${sources})
  target_include_directories(lockstep_dist_mpich PUBLIC "${CMAKE_SOURCE_DIR}/src")
  set(rooms lockstep_cli ${lockstep_uses_cli})
  list(REMOVE_ITEM rooms lockstep_dist)
  set(libraries lockstep_dist_mpich)
  foreach(room ${rooms})
    list(APPEND libraries $<TARGET_FILE:${room}>)
  endforeach()
  foreach(room ${rooms})
    get_target_property(others ${room} LINK_LIBRARIES)
    list(REMOVE_ITEM others ${rooms} lockstep_dist)
    list(APPEND libraries ${others})
  endforeach()
  target_link_libraries(lockstep_dist_mpich PRIVATE PkgConfig::MPICH)
  foreach(program train test_dist_ranks)
    get_target_property(sources ${program} SOURCES)
    add_executable(${program}_mpich ${sources})
    add_dependencies(${program}_mpich ${program}) # builds the rooms' libraries first
    target_include_directories(${program}_mpich PRIVATE "${CMAKE_SOURCE_DIR}/tests")
    target_link_libraries(${program}_mpich PRIVATE -Wl,--start-group ${libraries} -Wl,--end-group)
  endforeach()
  target_link_libraries(test_dist_ranks_mpich PRIVATE PkgConfig::CMOCKA)
endfunction()

# lockstep_test_name(OUT FOLDER SOURCE)
#   Sets OUT to the name of a test: its folders and its own name, joined by dots. FOLDER/dist/watch/test_heartbeat.c is
#   dist.watch.heartbeat.
function(lockstep_test_name out folder source)
  file(RELATIVE_PATH name "${folder}" "${source}")
  string(REGEX REPLACE "test_([^/]*)\\.[a-z]+$" "\\1" name "${name}")
  string(REPLACE "/" "." name "${name}")
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

# lockstep_tests(FOLDER)
#   Makes a test of every test_NAME.c and test_NAME.sh below FOLDER. FOLDER/ROOM/test_NAME.c is test ROOM.NAME: a
#   cmocka program test_ROOM_NAME, linked with all rooms. FOLDER/ROOM/test_NAME.sh is test ROOM.NAME: a script whose
#   argument is the folder of the built programs. A test with exit status 77 is skipped; it prints the reason. Scripts
#   start several ranks, which spend much of their time waiting for each other. So each script counts as two of
#   ctest's jobs (-j), and -j may be twice the number of cores. Scripts share nothing: each has its own folders,
#   process numbers, hosts and ports.
function(lockstep_tests folder)
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    message(STATUS "cmocka not found: no tests in this build")
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/test_*.c")
  foreach(source ${sources})
    lockstep_test_name(test "${folder}" "${source}")
    string(REPLACE "." "_" target "test_${test}")
    add_executable(${target} "${source}")
    target_include_directories(${target} PRIVATE "${folder}")
    target_link_libraries(${target} PRIVATE lockstep_cli PkgConfig::CMOCKA)
    if(LOCKSTEP_X86 AND test MATCHES "^device\\.") # these tests choose the width of vectors
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:lockstep_kernels_v16e> $<TARGET_OBJECTS:lockstep_kernels_v16e_bf16>)
    endif()
    if(TARGET lockstep_kernels_v4e AND test STREQUAL "device.cpu.kernels")
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:lockstep_kernels_v4e> $<TARGET_OBJECTS:lockstep_kernels_v4e_bf16>)
    endif()
    file(STRINGS "${source}" opens_emulated REGEX "cuda_(device|ranks)\\.h\"" LIMIT_COUNT 1)
    # The emulation's fibers are too slow under the thread sanitizer: such a test leaves the device out there.
    if(opens_emulated AND TARGET lockstep_cuda_emulated AND NOT LOCKSTEP_SANITIZE STREQUAL "thread")
      add_dependencies(${target} lockstep_cuda_emulated)
    endif()
    add_test(NAME ${test} COMMAND ${target} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800)
  endforeach()
  lockstep_injected(train_injected "${folder}/support/inject.c")
  add_executable(newest_checkpoint "${folder}/support/newest_checkpoint.c") # used by tests/fault/power_loss.py
  target_link_libraries(newest_checkpoint PRIVATE lockstep_cli)
  add_executable(plant_plans "${folder}/support/plant_plans.c") # used by tests/train/test_autotune.sh
  target_link_libraries(plant_plans PRIVATE lockstep_cli)
  lockstep_injected(train_flipped "${folder}/support/flip.c")
  lockstep_injected(train_unsound "${folder}/support/unsound.c")
  lockstep_injected(train_miscomputing "${folder}/support/miscompute.c")
  lockstep_injected(train_narrow "${folder}/support/narrow.c")
  if(TARGET lockstep_kernels_v4e)
    lockstep_injected(train_fused "${folder}/support/narrow.c")
    target_sources(train_fused PRIVATE $<TARGET_OBJECTS:lockstep_kernels_v4e> $<TARGET_OBJECTS:lockstep_kernels_v4e_bf16>)
  endif()
  lockstep_mpich()
  file(GLOB_RECURSE scripts CONFIGURE_DEPENDS "${folder}/test_*.sh")
  foreach(script ${scripts})
    lockstep_test_name(test "${folder}" "${script}")
    add_test(NAME ${test} COMMAND bash "${script}" "${CMAKE_BINARY_DIR}/bin" WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 PROCESSORS 2)
    # Open MPI 5 maps its table of ranks at the launcher's address, which the thread sanitizer keeps for itself.
    if(LOCKSTEP_SANITIZE STREQUAL "thread")
      set_tests_properties(${test} PROPERTIES ENVIRONMENT "PMIX_MCA_gds=hash")
    endif()
  endforeach()
endfunction()
