#!/usr/bin/env bash
# check_includes.sh - every room of src/ includes only the rooms above it, and every library's header appears only where that
# library is wrapped. The list of rooms is cmake/rooms.txt.
#
#   scripts/check_includes.sh [ROOT]     ROOT: a tree with src/ (default: this repository)
set -euo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
cd "${1:-$(dirname "$0")/..}"

grep -rnE '^[[:space:]]*#[[:space:]]*include' src --include='*.c' --include='*.h' --include='*.def' --include='*.cu' |
  awk '
    BEGIN {
      while ((getline row < "cmake/rooms.txt") > 0)
        if (row ~ /^[a-z]/) {
          room = rooms = row
          sub(/ .*/, "", room)
          sub(/^[a-z]+ +[0-9]+/, room, rooms) # without the budget of lines
          allow(room, rooms)
        }
      # header, and the files that may include it: regular expressions
      wrap("^mpi\\.h", "^src/dist/comm_mpi[a-z_]*\\.[ch]$")
      wrap("^(oneapi/)?dnnl", "^src/device/cpu/")
      wrap("^(cuda|cudnn|cublas|nvrtc|nvml)", "^src/device/cuda/")
      wrap("^nccl", "^src/device/cuda/")
      wrap("^zlib\\.h", "^src/data/")
      wrap("^stb", "^src/data/")
      wrap("^(jpeglib|jerror|turbojpeg)\\.h", "^src/data/jpeg_turbo\\.c$")
      wrap("^cjson/|^cJSON", "^src/base/json\\.[ch]$")
      wrap("^xxhash", "^src/base/hash\\.c$")
      wrap("^hwloc", "^src/(system|device/cpu)/")
      wrap("^(onnx\\.pb-c|protobuf-c)", "^src/formats/onnx_graph\\.c$")
      wrap("^(x86intrin|[a-z]mmintrin|arm_[a-z]+)\\.h", "^src/device/cpu/kernels/kernels\\.h$")
      wrap("^cpuid\\.h", "^src/system/cpus\\.c$")
    }
    function allow(room, rooms,   list, count, i) {
      uses[room] = rooms
      count = split(rooms, list, " ")
      for (i = 1; i <= count; i++) allowed[room, list[i]] = 1
    }
    function wrap(header, files) { wrapped[++wraps] = header; keepers[wraps] = files }
    function complain(text) { print file ":" line ": " text; bad = 1 }
    {
      split($0, part, ":"); file = part[1]; line = part[2]
      header = $0
      sub(/^[^"<]*["<]/, "", header); sub(/[">].*$/, "", header)
      split(file, folders, "/"); room = folders[2]
      target = header; sub(/\/.*$/, "", target)
      if (!(room in uses)) complain("unknown room \"" room "\": add it to cmake/rooms.txt")
      else if (target != header && target in uses && !((room, target) in allowed))
        complain("room " room " must not include " header ": it may use " uses[room])
      for (i = 1; i <= wraps; i++)
        if (header ~ wrapped[i] && file !~ keepers[i]) complain("<" header "> belongs into " keepers[i] " only")
    }
    END {
      if (!bad) print NR " includes: every room keeps to its table"
      exit bad
    }'
