# Builds the CUDA device: a plugin that `train` opens at run time (src/device/cuda/), and its emulation for tests.

set(LOCKSTEP_CUDA "auto" CACHE STRING "build the CUDA plugin: auto (where nvcc is found), on or off")
set(LOCKSTEP_CUDA_ARCHITECTURES "80-real;90-real;100" CACHE STRING "GPU architectures of the plugin; the last also as PTX for newer ones")
option(LOCKSTEP_EMULATED_CUDA "build the emulated CUDA device, for tests" ON)
set(LOCKSTEP_CUDA_ROOT "" CACHE PATH "CUDA toolkit, as scripts/fetch-cuda.sh makes it (empty: nvcc on the PATH, CUDA_HOME or /usr/local/cuda)")

# Gives the plugin its own copy of the program's code that it needs: base/, the checks of the operators, the measured
# choices of algorithms and their cache, and the rule of batch norm.
function(lockstep_cuda_link target)
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}/src")
  target_sources(${target} PRIVATE "${CMAKE_SOURCE_DIR}/src/device/op_check.c" "${CMAKE_SOURCE_DIR}/src/device/algorithm_cache.c"
    "${CMAKE_SOURCE_DIR}/src/device/algorithm_choice.c" "${CMAKE_SOURCE_DIR}/src/device/gpu/norm_rule.c")
  # The lowest architecture and the list of all, for the message about a GPU that is too old.
  string(REGEX MATCHALL "[0-9]+" built_for "${LOCKSTEP_CUDA_ARCHITECTURES}")
  list(SORT built_for COMPARE NATURAL)
  list(GET built_for 0 lowest)
  list(JOIN built_for ", sm_" built_for)
  target_compile_definitions(${target} PRIVATE LS_CUDA_LOWEST=${lowest} LS_CUDA_BUILT_FOR="sm_${built_for}")
  target_link_libraries(${target} PRIVATE lockstep_base)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME lockstep_cuda C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
endfunction()

# lockstep_cuda_find(OUT)
#   Sets OUT to true if the plugin is wanted and nvcc, cuDNN and cuBLASLt are found. If a part is missing, prints its
#   name, or fails if LOCKSTEP_CUDA is on.
function(lockstep_cuda_find out)
  set(${out} FALSE PARENT_SCOPE)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/device/cuda/*.c" "${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/*.cu")
  string(TOLOWER "${LOCKSTEP_CUDA}" wanted)
  if(NOT wanted MATCHES "^(auto|on|off)$")
    message(FATAL_ERROR "LOCKSTEP_CUDA=${LOCKSTEP_CUDA}: expected auto, on or off")
  endif()
  if(wanted STREQUAL "off" OR NOT sources)
    return()
  endif()
  # If the user names another toolkit, forget the files found in the previous one.
  if(NOT "${LOCKSTEP_CUDA_ROOT}" STREQUAL "${LOCKSTEP_CUDA_ROOT_BEFORE}")
    foreach(part NVCC CUDNN_INCLUDE CUBLAS_INCLUDE NCCL_INCLUDE CUDART CUDNN CUBLASLT NCCL)
      unset(LOCKSTEP_${part} CACHE)
    endforeach()
  endif()
  set(LOCKSTEP_CUDA_ROOT_BEFORE "${LOCKSTEP_CUDA_ROOT}" CACHE INTERNAL "")
  set(first "")
  if(LOCKSTEP_CUDA_ROOT)
    get_filename_component(first "${LOCKSTEP_CUDA_ROOT}" ABSOLUTE BASE_DIR "${CMAKE_SOURCE_DIR}")
    find_program(LOCKSTEP_NVCC nvcc PATHS "${first}/bin" NO_DEFAULT_PATH) # only in the toolkit that the user named
  else()
    find_program(LOCKSTEP_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin PATH_SUFFIXES bin)
  endif()
  set(missing "")
  if(NOT LOCKSTEP_NVCC)
    set(missing "nvcc")
  else()
    get_filename_component(root "${LOCKSTEP_NVCC}" DIRECTORY)
    get_filename_component(root "${root}" DIRECTORY)
    set(where HINTS ${first} "${root}" PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib)
    find_path(LOCKSTEP_CUDNN_INCLUDE cudnn.h HINTS ${first} "${root}" PATH_SUFFIXES include)
    find_path(LOCKSTEP_CUBLAS_INCLUDE cublasLt.h HINTS ${first} "${root}" PATH_SUFFIXES include targets/x86_64-linux/include)
    find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ${first} "${root}" PATH_SUFFIXES include)
    find_library(LOCKSTEP_CUDART NAMES cudart libcudart.so.13 libcudart.so.12 ${where})
    find_library(LOCKSTEP_CUDNN NAMES cudnn libcudnn.so.9 ${where})
    find_library(LOCKSTEP_CUBLASLT NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 ${where})
    find_library(LOCKSTEP_NCCL NAMES nccl libnccl.so.2 HINTS ${first} "${root}" "${LOCKSTEP_NCCL_INCLUDE}/.."
      PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib) # for its folder only: NCCL is opened at run time
    if(NOT LOCKSTEP_NCCL_INCLUDE)
      message(STATUS "the CUDA plugin is for one GPU: nccl.h not found")
    endif()
    foreach(part LOCKSTEP_CUDNN_INCLUDE LOCKSTEP_CUBLAS_INCLUDE LOCKSTEP_CUDART LOCKSTEP_CUDNN LOCKSTEP_CUBLASLT)
      if(NOT ${part})
        list(APPEND missing "${part}")
      endif()
    endforeach()
  endif()
  if(missing)
    if(wanted STREQUAL "on")
      message(FATAL_ERROR "LOCKSTEP_CUDA=on, but this is missing: ${missing}; scripts/fetch-cuda.sh assembles a toolkit")
    endif()
    message(STATUS "no CUDA plugin in this build: ${missing} not found")
    return()
  endif()
  set(${out} TRUE PARENT_SCOPE)
endfunction()

# lockstep_cuda_plugin()
#   Builds bin/lockstep_cuda.so next to the program if lockstep_cuda_find finds a toolkit. Also makes the header that
#   tells the program the plugin's versions, and with BUILD_TESTING the emulation. A macro, because enable_language
#   must not be called in a function.
macro(lockstep_cuda_plugin)
  lockstep_cuda_find(lockstep_has_cuda)
  if(lockstep_has_cuda)
    set(CMAKE_CUDA_COMPILER "${LOCKSTEP_NVCC}")
    set(CMAKE_CUDA_ARCHITECTURES "${LOCKSTEP_CUDA_ARCHITECTURES}")
    enable_language(CUDA)
    lockstep_cuda_add_plugin()
    add_dependencies(train lockstep_cuda) # the plugin is loaded, not linked, but building `train` must build it as well
    if(BUILD_TESTING)
      lockstep_cuda_add_plans()
    endif()
  endif()
  lockstep_cuda_versions(system)
  if(BUILD_TESTING)
    lockstep_cuda_emulation()
  endif()
endmacro()

function(lockstep_cuda_add_plugin)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/device/cuda/*.c" "${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/*.cu")
  add_library(lockstep_cuda MODULE ${sources})
  lockstep_cuda_link(lockstep_cuda)
  target_link_libraries(lockstep_cuda PRIVATE lockstep_system) # the search for NCCL
  target_include_directories(lockstep_cuda PRIVATE "${CMAKE_BINARY_DIR}/generated") # lockstep_cuda_build.h
  if(LOCKSTEP_NCCL_INCLUDE) # NCCL is not linked: it is opened at run time if several ranks need it
    target_include_directories(lockstep_cuda SYSTEM PRIVATE "${LOCKSTEP_NCCL_INCLUDE}")
    target_compile_definitions(lockstep_cuda PRIVATE LS_WITH_NCCL)
  endif()
  target_include_directories(lockstep_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} "${LOCKSTEP_CUDNN_INCLUDE}" "${LOCKSTEP_CUBLAS_INCLUDE}")
  target_link_libraries(lockstep_cuda PRIVATE ${LOCKSTEP_CUDART} ${LOCKSTEP_CUDNN} ${LOCKSTEP_CUBLASLT} ${CMAKE_DL_LIBS})
  target_link_options(lockstep_cuda PRIVATE -Wl,-z,defs)
  lockstep_cuda_folders(folders)
  set_target_properties(lockstep_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin" CUDA_STANDARD 17
    CUDA_RUNTIME_LIBRARY None INSTALL_RPATH "$ORIGIN;${folders}")
  lockstep_install_plugin(cuda lockstep_cuda)
endfunction()

# Builds bin/cuda_plans for tests/device/cuda/test_cudnn_plans.sh. The program makes cuDNN's plans for described GPUs,
# without a GPU or a driver.
function(lockstep_cuda_add_plans)
  add_executable(cuda_plans "${CMAKE_SOURCE_DIR}/tests/device/cuda/cudnn_plans.c" "${CMAKE_SOURCE_DIR}/tests/device/cuda/fused_plans.c"
    "${CMAKE_SOURCE_DIR}/src/device/cuda/cudnn_plans.c")
  target_include_directories(cuda_plans PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_include_directories(cuda_plans SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES} "${LOCKSTEP_CUDNN_INCLUDE}" "${LOCKSTEP_CUBLAS_INCLUDE}")
  target_link_libraries(cuda_plans PRIVATE lockstep_model ${LOCKSTEP_CUDNN})
  lockstep_cuda_folders(folders)
  set_target_properties(cuda_plans PROPERTIES INSTALL_RPATH "${folders}")
endfunction()

function(lockstep_cuda_folders out) # sets OUT to the folders of the libraries that the build found
  set(folders "")
  set(libraries "${LOCKSTEP_CUDART}" "${LOCKSTEP_CUDNN}" "${LOCKSTEP_CUBLASLT}")
  if(LOCKSTEP_NCCL)
    list(APPEND libraries "${LOCKSTEP_NCCL}")
  endif()
  foreach(library ${libraries})
    get_filename_component(folder "${library}" DIRECTORY)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(${out} "${folders}" PARENT_SCOPE)
endfunction()

# lockstep_cuda_versions(ROOM)
#   Writes build/generated/lockstep_cuda_build.h for ROOM. The header has the CUDA runtime and cuDNN versions that the
#   plugin was built with, as numbered by those libraries, and the folders of the plugin's libraries. The folder that
#   scripts/fetch-cuda.sh fills comes first. Without a plugin the header has the versions that this program knows.
function(lockstep_cuda_versions room)
  set(runtime 13000)
  set(cudnn 90800)
  set(folders "")
  if(TARGET lockstep_cuda)
    set(pattern "^#define +(CUDART_VERSION|CUDNN_MAJOR|CUDNN_MINOR|CUDNN_PATCHLEVEL) +([0-9]+)")
    list(TRANSFORM CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES APPEND "/cuda_runtime_api.h" OUTPUT_VARIABLE headers)
    foreach(header ${headers} "${LOCKSTEP_CUDNN_INCLUDE}/cudnn_version.h")
      if(EXISTS "${header}")
        file(STRINGS "${header}" lines REGEX "${pattern}")
        foreach(line ${lines})
          string(REGEX MATCH "${pattern}" matched "${line}")
          set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
        endforeach()
      endif()
    endforeach()
    if(CUDART_VERSION)
      set(runtime ${CUDART_VERSION})
    endif()
    if(CUDNN_MAJOR)
      math(EXPR cudnn "${CUDNN_MAJOR} * 10000 + ${CUDNN_MINOR} * 100 + ${CUDNN_PATCHLEVEL}")
    endif()
    lockstep_cuda_folders(folders)
  endif()
  list(JOIN folders ":" folders)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/lockstep_cuda_build.h" CONTENT "#define LS_CUDA_BUILD_RUNTIME ${runtime}
#define LS_CUDA_BUILD_CUDNN ${cudnn}
#define LS_CUDA_BUILD_FOLDERS \"${CMAKE_SOURCE_DIR}/cuda/lib:${folders}\"
")
  target_include_directories(lockstep_${room} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()

# lockstep_cuda_emulation()
#   Builds bin/emulated/lockstep_cuda.so and the tests of the emulation. It has the plugin's own source files,
#   compiled with tests/emulation in place of CUDA and NVIDIA's libraries. It needs a C++ compiler. The program does
#   not depend on it: build `train` and `lockstep_cuda_emulated` before you run a tests/.../test_NAME.sh by hand. Test
#   programs that open the emulation depend on it (lockstep_tests).
macro(lockstep_cuda_emulation)
  file(GLOB lockstep_emulation CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/emulation/*.cc")
  if(lockstep_emulation AND LOCKSTEP_EMULATED_CUDA)
    include(CheckLanguage)
    check_language(CXX)
    if(CMAKE_CXX_COMPILER)
      enable_language(CXX)
      lockstep_cuda_add_emulation()
    else()
      message(STATUS "no C++ compiler: no emulated CUDA device for the tests")
    endif()
  endif()
endmacro()

# This test includes nccl.c. It is compiled with tests/emulation/nccl.h, whose functions the test itself defines.
set_source_files_properties("${CMAKE_SOURCE_DIR}/tests/device/cuda/test_nccl_calls.c" PROPERTIES
  INCLUDE_DIRECTORIES "${CMAKE_SOURCE_DIR}/tests/emulation" COMPILE_DEFINITIONS LS_WITH_NCCL)

function(lockstep_cuda_emulated target)
  target_include_directories(${target} BEFORE PRIVATE "${CMAKE_SOURCE_DIR}/tests/emulation")
  target_compile_definitions(${target} PRIVATE LS_EMULATED_CUDA)
  # as on the device: kernels may read values as other types, and a multiply-add is fused only where the code says so
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-strict-aliasing> -ffp-contract=off)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS ON)
endfunction()

function(lockstep_cuda_add_emulation)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/device/cuda/*.c" "${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/*.cu")
  file(GLOB emulation CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/emulation/*.cc" "${CMAKE_SOURCE_DIR}/tests/emulation/*.c")
  list(FILTER emulation EXCLUDE REGEX "/test_")
  list(FILTER sources EXCLUDE REGEX "/(libraries|cudnn_conv|cublaslt|cudnn_plans|nccl)\\.c$")
  set(runtime ${emulation})
  list(FILTER runtime EXCLUDE REGEX "/(libraries\\.c|peers\\.cc)$") # these two need the plugin's own source files
  add_executable(test_emulation_runtime ${runtime} "${CMAKE_SOURCE_DIR}/tests/emulation/test_emulation.cc")
  lockstep_cuda_emulated(test_emulation_runtime)
  target_include_directories(test_emulation_runtime PRIVATE "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(test_emulation_runtime PRIVATE lockstep_base)
  add_test(NAME emulation.runtime COMMAND test_emulation_runtime WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(emulation.runtime PROPERTIES TIMEOUT 1800)
  if(NOT sources)
    return()
  endif()
  # A .cu file must be C++ here and CUDA in the plugin, but a file has one language in the whole CMake directory. So a
  # generated .cc file includes it.
  set(kernels ${sources})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "\\.cu$")
  foreach(kernel ${kernels})
    get_filename_component(name "${kernel}" NAME_WE)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/emulated/${name}.cc" CONTENT "#include \"device/cuda/kernels/${name}.cu\"\n")
    list(APPEND sources "${CMAKE_BINARY_DIR}/generated/emulated/${name}.cc")
  endforeach()
  add_library(lockstep_cuda_emulated MODULE ${sources} ${emulation})
  lockstep_cuda_link(lockstep_cuda_emulated)
  lockstep_cuda_emulated(lockstep_cuda_emulated)
  set_target_properties(lockstep_cuda_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/emulated")
endfunction()
