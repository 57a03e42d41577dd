#!/bin/sh
# Checks and measures Kiln on a GPU: `run.sh BINARIES CASES RESULTS`.
#
#   BINARIES  a folder with `kiln` and `kiln-gpu`, built for release without LLVM and stripped
#   CASES     a folder with `kernels.jsonl` and `graphs.jsonl`, from testkit's `export_gpu_cases`
#   RESULTS   a folder for what is found
#
# The machine needs the driver, NVRTC and, for products, cuBLASLt; compute-sanitizer and Python with numpy and torch are
# used where they are there. Every part has a time limit; all of it takes under five minutes.
set -u
binaries=$1 cases=$2 results=$3
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$results"
KILN_CACHE_DIR=$(mktemp -d)
export KILN_CACHE_DIR

# part NAME SECONDS COMMAND...: runs a command, keeps its output, shows the end of it.
part() {
    name=$1 limit=$2
    shift 2
    begin=$(date +%s)
    timeout "$limit" "$@" >"$results/$name.txt" 2>&1
    status=$?
    echo "== $name: status $status, $(($(date +%s) - begin)) s"
    tail -n "${lines:-3}" "$results/$name.txt" | cut -c1-400
}

part probe 60 "$binaries/kiln-gpu" probe
part doctor 60 "$binaries/kiln" doctor
part kernels 150 "$binaries/kiln-gpu" kernels "$cases/kernels.jsonl"
part graphs 120 "$binaries/kiln-gpu" graphs "$cases/graphs.jsonl"
lines=4 part builtins 60 "$binaries/kiln-gpu" builtins
lines=9 part lose 60 "$binaries/kiln-gpu" lose
lines=12 part products 60 "$binaries/kiln-gpu" products
lines=60 part measure 100 "$binaries/kiln-gpu" measure
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        part "sanitizer-$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 \
            "$binaries/kiln-gpu" kernels "$cases/kernels.jsonl" reductions/
    done
fi
if python3 -c "import torch, numpy" 2>/dev/null; then
    lines=12 part torch 60 python3 "$here/peers.py" floors
    model=$(mktemp -d)
    part sentences 60 python3 "$here/peers.py" sentences "$root/testdata/minilm/model.onnx" "$model"
    lines=6 part minilm-compare 90 "$binaries/kiln" compare "$model/model.onnx" --device cuda \
        --cases "$model/small" --repro off
    lines=6 part minilm-bench 60 "$binaries/kiln" bench "$model/model.onnx" --device cuda \
        --cases "$model/large"
    rm -rf "$model"
fi
rm -rf "$KILN_CACHE_DIR"
