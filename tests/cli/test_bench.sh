# `train bench`: the tables and files, alone and on 2 and 4 ranks; sweeps and scaling; refusals; failures of one arrangement.
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/common.sh" "$1" || exit 1

column() { # FOLDER NAME: this field of all arrangements that have it, one after the other
    sed -n "/\tnull,/d; s/^\t\t\t\"$2\":\t\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$1/bench.json" | tr '\n' "${3:- }"
}
names() { column "$1" arrangement ';'; }
consistent() { # WHAT FOLDER TABLE: table and JSON agree with each other and with the measurements
    local seen
    command -v python3 >/dev/null || return
    seen=$(python3 "$tests/check_bench.py" "$2" "$3" 2>&1)
    check "$1: files agree" "$seen" ""
}

"$train" bench tiny.ini --seconds 0.1 --repeats 2 >alone.txt 2>alone.log
check "alone: exit" $? 0
check "alone: says where the report is" "$(grep -c '^report    \./bench\.html; its figures in bench\.json$' alone.log)" 1
check "alone: arrangements" "$(names .)" "cpu x 1;"
check "alone: files in the current folder" "$(ls bench.* | tr '\n' ' ')" "bench.html bench.json "
consistent alone . alone.txt

mkdir layers
(cd layers && "$train" bench ../tiny.ini --layers --seconds 0.1 >table 2>log; echo $? >code)
check "--layers: exit, files" "$(cat layers/code) $(ls layers | tr '\n' ' ')" "0 code log table "
"$train" bench tiny.ini --layers --seconds 0.1 --run-dir layers >layers/table 2>layers/log
check "--layers into a folder: says where" "$? $(grep -cx 'report    layers/layers.json' layers/log) $(ls layers/*.json)" "0 1 layers/layers.json"
if command -v python3 >/dev/null; then
    check "--layers: floors" "$(python3 "$tests/check_layers.py" layers/layers.json layers/table 2>&1)" ""
fi
refused "--layers on several ranks" 2 "times one rank; start it without mpirun" ranks 2 20 "$train" bench tiny.ini --layers

ranks 2 60 "$train" bench tiny.ini --seconds 0.1 --repeats 2 --scaling both --run-dir out --set device.threads=0 >two.txt 2>/dev/null
check "two ranks: exit" $? 0
check "two ranks: arrangements" "$(names out)" "cpu x 1;cpu x 2;cpu x 2 weak;"
check "two ranks: batches" "$(column out global_batch)" "32 32 64 "
check "two ranks: micro-batches" "$(column out micro_batch)" "32 16 32 "
check "two ranks: a rank has the same threads alone" "$(column out threads_per_rank | tr ' ' '\n' | sort -u | grep -c .)" 1
check "two ranks: speed-up is over the first" "$(column out speed_up | cut -d' ' -f1)" 1
summed=5312 # channels are padded to the processor's vectors
if "$train" devices | grep 'AVX-512' >/dev/null; then summed=10176; fi
check "two ranks: what is summed over ranks" "$(column out reduced_bytes_per_update)" "0 $summed $summed "
check "two ranks: computation alone was measured" "$(column out update_seconds_without_communication | wc -w)" 2
check "two ranks: all-reduces of two ranks" "$(grep -c '"latency_seconds":' out/bench.json) $(grep -c '^All-reduces of 8 bytes' two.txt)" "1 1"
check "two ranks: the page has the figures" "$(grep -c '"arrangement":"cpu x 2 weak"' out/bench.html)" 1
check "two ranks: no run was made" "$(ls -d runs out 2>/dev/null)" out
consistent "two ranks" out two.txt

ranks 4 60 "$train" bench tiny.ini --seconds 0.1 --repeats 1 --sweep ranks=4,1,2 --sweep loader=resident --quiet --run-dir four >four.txt 2>&1
check "four ranks: exit" $? 0
check "four ranks: arrangements" "$(names four)" "cpu x 4 loader=resident;cpu x 1 loader=resident;cpu x 2 loader=resident;"
check "four ranks: micro-batches" "$(column four micro_batch)" "8 32 16 "
check "four ranks: efficiency is over one rank, speed-up over the first row" \
    "$(column four efficiency | cut -d' ' -f2) $(column four speed_up | cut -d' ' -f1)" "1 1"
consistent "four ranks" four four.txt

plugin=${train%/*}/emulated/lockstep_cuda.so

if [ -e "$plugin" ]; then
    MPI_FLAGS="-x LOCKSTEP_CUDA_PLUGIN=$plugin -x LOCKSTEP_EMULATION=devices=2" ranks 2 100 "$train" bench tiny.ini --seconds 0.1 \
        --repeats 1 --sweep device.type=cpu,cuda --quiet --run-dir gpus >gpus.txt 2>&1
    check "CPU and GPUs: exit" $? 0
    check "CPU and GPUs: arrangements" "$(names gpus)" "cpu x 1;cpu x 2;cuda x 1;cuda x 2;"
    check "CPU and GPUs: cores and GPUs" "$(column gpus units)" "1 $(($(nproc) > 1 ? 2 : 1)) 1 2 "
    consistent "CPU and GPUs" gpus gpus.txt
else
    echo "skipped: CPU and GPUs: no emulated CUDA device was built"
fi

refused "a batch that does not divide" 2 "arrangement cpu x 2 micro_batch=32: " \
    ranks 2 20 "$train" bench tiny.ini --sweep micro_batch=16,32 --run-dir none
refused "more ranks than there are" 2 "start it with mpirun -np 4" \
    ranks 2 20 "$train" bench tiny.ini --sweep ranks=2,4 --run-dir none
refused "an unknown key" 2 "did you mean train.micro_batch?" "$train" bench tiny.ini --sweep micro_batsh=4 --run-dir none
# Weights that overflow after a few updates: a numerical failure, which all ranks of the arrangement decide alike.
ranks 2 60 "$train" bench tiny.ini --seconds 0.1 --repeats 2 --sweep lr=1e-4,1e3 --sweep ranks=2 --run-dir left --quiet \
    --set optimizer.weight_decay=1000 >left.txt 2>left.err
check "one arrangement fails: exit" $? 6
check "one arrangement fails: error lines" "$(grep -c 'error:' left.err)" 1
check "one arrangement fails: the other one is measured" "$(column left images_per_second | wc -w)" 1
check "one arrangement fails: the report says so" "$(grep -c '^left out: arrangement cpu x 2 lr=1e3: ' left.txt)" 1
finish
