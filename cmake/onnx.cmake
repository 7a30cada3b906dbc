# lockstep_onnx(ROOM)
#   Lets ROOM write ONNX files by protobuf-c. The build generates their C code from third_party/onnx/onnx.proto. Without
#   protobuf-c, or with -DLOCKSTEP_ONNX=OFF, the build works too, and `train export` names the packages to install.
function(lockstep_onnx room)
  pkg_check_modules(PROTOBUF_C QUIET IMPORTED_TARGET libprotobuf-c)
  find_program(PROTOC_C protoc-c)
  if(NOT LOCKSTEP_ONNX OR NOT PROTOBUF_C_FOUND OR NOT PROTOC_C)
    message(STATUS "no protobuf-c: 'train export' will say so (Debian: libprotobuf-c-dev protobuf-c-compiler)")
    target_compile_definitions(lockstep_${room} PUBLIC LOCKSTEP_WITHOUT_ONNX)
    return()
  endif()
  set(folder "${CMAKE_BINARY_DIR}/generated/onnx")
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(OUTPUT "${folder}/onnx.pb-c.c" "${folder}/onnx.pb-c.h"
    COMMAND ${PROTOC_C} --c_out=${folder} -I ${CMAKE_SOURCE_DIR}/third_party/onnx onnx.proto
    DEPENDS "${CMAKE_SOURCE_DIR}/third_party/onnx/onnx.proto" VERBATIM)
  add_library(lockstep_onnx STATIC "${folder}/onnx.pb-c.c" "${folder}/onnx.pb-c.h")
  target_compile_options(lockstep_onnx PRIVATE -w) # no warnings: the code is generated
  target_include_directories(lockstep_onnx SYSTEM PUBLIC "${folder}")
  target_link_libraries(lockstep_onnx PUBLIC PkgConfig::PROTOBUF_C)
  target_link_libraries(lockstep_${room} PUBLIC lockstep_onnx) # public, because tests read the files back
endfunction()
