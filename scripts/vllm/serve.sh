#!/bin/bash
# Serves the tiny model on a real vLLM: scripts/vllm/serve.sh PORT [more vllm flags]
# KV=GiB of KV cache (default 2), LOADKIT_VLLM_DIR as in install.sh. Ready when http://127.0.0.1:PORT/health answers 200 (40 to 80 s).
set -euo pipefail
DIR=${LOADKIT_VLLM_DIR:-$HOME/.cache/loadkit-vllm}
PORT=$1; shift
export HF_HUB_OFFLINE=1 VLLM_CPU_KVCACHE_SPACE=${KV:-2} VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_OMP_THREADS_BIND=nobind
export PATH="$DIR/venv/bin:$PATH"
exec vllm serve "$DIR/model" --served-model-name qwen-tiny --load-format dummy --host 127.0.0.1 --port "$PORT" \
  --max-model-len 131072 --enable-prefix-caching --enable-prompt-tokens-details \
  --enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3 --enforce-eager "$@"
