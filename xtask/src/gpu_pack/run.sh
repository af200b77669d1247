#!/usr/bin/env bash
# What Adamant does on this machine's NVIDIA card, in stages with a limit each. Written by `cargo xtask gpu-pack`; needs no network.
#
#   bash run.sh [--device cuda:0] [--results DIR] [--only STAGE,STAGE] [--emulated[=sm_90]] [--factor N]
#
# Figures are lines `NAME figure unit target passed|FAILED|not run (why)`; the last lines judge them. --emulated: a card is played, all is
# small, and what only a card can show is not run. --factor: limits are so many times as long (20 with --emulated, else 1).
# Exit codes: 0 all passed, 1 something failed, 2 usage, 9 device absent, 11 something was not run.
set -u
export LC_ALL=C
stages="@STAGES@"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=cuda:0 results="" only="" card="" factor="" stage=""
while [ $# -gt 0 ]; do
  case $1 in
    --device) device=${2-}; shift ;;
    --results) results=${2-}; shift ;;
    --only) only=${2-}; shift ;;
    --factor) factor=${2-}; shift ;;
    --stage) stage=${2-}; shift ;;
    --emulated) card=sm_90 ;;
    --emulated=*) card=${1#*=} ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift || { echo "an option is without its value" >&2; exit 2; }
done
[ -n "$factor" ] || { [ -n "$card" ] && factor=20 || factor=1; }
case $factor in ''|*[!0-9]*|0) echo "--factor counts from 1" >&2; exit 2 ;; esac
[ -n "$results" ] || results=$here/results
mkdir -p "$results/bin" || exit 6
results=$(cd "$results" && pwd)
bin=$results/bin
small="" emulated="" of_gpt2=""
[ -z "$card" ] || { small=--small emulated=--emulated=$card of_gpt2=--emulated=$card; }
export ADAMANT_CACHE_DIR=$results/cache

x() { "$bin/xtask" $emulated "$@"; }
# What goes wrong is kept for the end of the stage; what was not run says so itself.
worst=0
try() { "$@" || { local code=$?; [ $code = 11 ] || [ $worst != 0 ] || worst=$code; }; }
# The workloads of a stage: all programs in turn on a card; on an emulated one ours, small.
workloads() { # group globs peers
  local lines=$results/$stage.lines
  if [ -n "$small" ]; then
    x bench run --small --json --group "$1" --only "$2" --budget 0 --device "$device" >"$lines"
  else
    "$bin/xtask" bench peers --json --dir "$here/peers" --python python3 --peers "$3" --group "$1" --only "$2" --device "$device" --threads 4 \
      --rounds 1 --budget 1.5 --settle 1 --record "$results/records.jsonl" >"$lines"
  fi
  # A result that is wrong is told by its figure.
  local code=$?
  [ $code -le 1 ] || return $code
  x gpu-pack figures "$stage" --lines "$lines" --copy "$results/elementwise.lines" $small
}
tiny="--layers 2 --heads 2 --features 32 --context 32 --vocabulary 256 --batch 2 --lr 3e-3"
gpt2() { # file options
  local file=$1; shift
  "$bin/gpt2" $of_gpt2 --synthetic --device "$device" --json "$@" | tee "$file" >&2
  return "${PIPESTATUS[0]}"
}

stage_first() {
  try x gpu-pack probe --device "$device"
  try x gpu-pack kernels --device "$device"
  if [ -n "$small" ]; then
    try gpt2 "$results/first.json" $tiny --steps 10 --warmup 2 --log-every 1
  else
    try gpt2 "$results/first.json" --batch 8 --steps 10 --warmup 2 --log-every 1
  fi
  try x gpu-pack figures first --run "$results/first.json"
}
stage_gemm() { try workloads large 'gemm_*' torch; }
stage_elementwise() { try workloads large 'copy_*,add_*,gelu_*,sum_*,softmax_*,layernorm_*,xent_*' torch; }
stage_attention() { try workloads large 'attention_bf16_b16*,attention_bf16_b4*' torch,torch-cudnn; }
stage_gpt2() {
  local theirs=()
  if [ -n "$small" ]; then
    try gpt2 "$results/gpt2.0.json" $tiny --accumulate 2 --steps 8 --warmup 2 --log-every 1
    try x gpu-pack figures gpt2 --run "$results/gpt2.0.json" $small
    return
  fi
  try gpt2 "$results/gpt2.0.json" --batch 32 --steps 24 --warmup 4 --log-every 24
  [ $torch = no ] || { python3 "$here/peers/gpu_torch.py" gpt2 --batch 32 --steps 24 --device "$device" >"$results/gpt2.torch.json" && theirs=(--theirs "$results/gpt2.torch.json"); }
  try gpt2 "$results/gpt2.1.json" --batch 32 --steps 24 --warmup 4 --log-every 24
  try x gpu-pack figures gpt2 --run "$results/gpt2.0.json" --run "$results/gpt2.1.json" "${theirs[@]}"
}
stage_small() { try workloads main 'train_mlp_b128,train_lenet_b128,train_chargpt_b8' torch-graphs; }
stage_decode() { try workloads main gpt2_decode64_bf16 torch; }
stage_copies() {
  local bus=()
  [ -n "$small" ] || [ $torch = no ] || { python3 "$here/peers/gpu_torch.py" pinned --device "$device" >"$results/bus.json" && bus=(--bus "$results/bus.json"); }
  try x gpu-pack copies --device "$device" "${bus[@]}" $small
}
stage_tf32() { try x gpu-pack tf32 --device "$device"; }
stage_sanitizer() {
  local tool line errors sanitizer
  sanitizer=$(command -v compute-sanitizer || { [ -x /usr/local/cuda/bin/compute-sanitizer ] && echo /usr/local/cuda/bin/compute-sanitizer; })
  for tool in memcheck racecheck; do
    if [ -n "$small" ]; then
      try x gpu-pack say sanitizer_$tool --not-run emulated
    elif [ -z "$sanitizer" ]; then
      try x gpu-pack say sanitizer_$tool --not-run "compute-sanitizer is not installed"
    else
      # Each tensor in memory of its own, so that what lies beyond one is nobody's.
      line=$(ADAMANT_CUDA_POOL=off timeout 14 "$sanitizer" --tool $tool "$bin/xtask" gpu-pack kernels --device "$device" 2>&1 | tee -a "$results/sanitizer.$tool" | grep -E "(ERROR|RACECHECK) SUMMARY:")
      errors=$(printf '%s\n' "$line" | sed -nE 's/.*SUMMARY: ([0-9]+) (error|hazard).*/\1/p' | head -n 1)
      try x gpu-pack say sanitizer_$tool ${errors:+--figure $errors}
    fi
  done
}
stage_emulator() {
  local played=$results/emulator.safetensors
  if [ -n "$small" ]; then
    # Another card that is played: shows that answers are written and compared.
    try "$bin/xtask" --emulated=sm_80 gpu-pack kernels --device "$device" --write "$played" >/dev/null
    try x gpu-pack kernels --device "$device" --against "$played" >&2
    try x gpu-pack say kernels_emulator --not-run emulated
    return
  fi
  try "$bin/xtask" --emulated gpu-pack kernels --device cuda:0 --write "$played" >/dev/null
  try x gpu-pack kernels --device "$device" --against "$played"
}
stage_records() {
  if [ -n "$small" ]; then
    try x gpu-pack say records --not-run emulated
  elif [ -s "$results/records.jsonl" ] && x bench merge "$results/records.jsonl" >&2; then
    try x gpu-pack say records --figure "$(wc -l <"$results/records.jsonl")"
  else
    try x gpu-pack say records --failed "bench merge does not read them"
  fi
}

if [ -n "$stage" ]; then
  torch=${ADAMANT_PACK_TORCH-no}
  "stage_$stage"
  exit $worst
fi

# Programs, and where the compiler is.
for name in xtask gpt2; do
  gzip -dc "$here/bin/$name.gz" >"$bin/$name" && chmod +x "$bin/$name" || { echo "$here/bin/$name.gz cannot be unpacked into $bin" >&2; exit 4; }
done
if [ -z "${ADAMANT_CUDA_PATH-}" ]; then
  packages=$(python3 -c 'import nvidia; print("\n".join(nvidia.__path__))' 2>/dev/null)
  for place in "$here/nvrtc" /usr/local/cuda $(for p in $packages; do echo "$p/cu13" "$p/cuda_nvrtc"; done); do
    for part in lib lib64; do
      if [ -z "${ADAMANT_CUDA_PATH-}" ] && compgen -G "$place/$part/libnvrtc.so.13*" >/dev/null; then export ADAMANT_CUDA_PATH=$place; fi
    done
  done
  # Products by the library, where it lies elsewhere.
  for place in $(for p in $packages; do echo "$p/cu13" "$p/cublas"; done); do
    if [ -z "${CUDA_HOME-}" ] && compgen -G "$place/lib/libcublasLt.so.13*" >/dev/null; then export CUDA_HOME=$place; fi
  done
fi
torch=no
[ -n "$card" ] || ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || torch=yes
export ADAMANT_PACK_TORCH=$torch

out=$results/results.txt
begun=$(date +%s%N)
since() { awk -v a="$1" -v b="$(date +%s%N)" 'BEGIN { printf "%.1f", (b - a) / 1e9 }'; }
rm -f "$results"/*.lines "$results"/*.json "$results"/*.jsonl "$results"/*.safetensors "$results"/sanitizer.*
echo "== pack ${card:+emulated }on $device${card:+ ($card)}; PyTorch: $torch" | tee "$out"
x gpu-pack probe --device "$device" >/dev/null 2>"$results/probe.log"
code=$?
cat "$results/probe.log" >&2
if [ $code = 9 ]; then
  echo "there is no device to look at: what is missing stands above. The compiler: pip install nvidia-cuda-nvrtc==13.0.88, or cargo xtask gpu-pack --with-nvrtc DIR" >&2
  x gpu-pack judge "$out"
  exit 9
fi
for entry in $stages; do
  name=${entry%%:*} limit=$((${entry##*:} * factor))
  case ",$only," in ,, | *",$name,"*) ;; *) continue ;; esac
  echo "== stage $name begins, limit $limit s" | tee -a "$out"
  at=$(date +%s%N)
  timeout -k 2 "$limit" bash "${BASH_SOURCE[0]}" --stage "$name" --device "$device" --results "$results" ${card:+--emulated=$card} --factor "$factor" \
    2>"$results/$name.log" >"$results/$name.out" &
  pid=$!
  wait $pid
  code=$?
  # What is left of it: it is the group that `timeout` leads.
  kill -KILL -- -$pid 2>/dev/null
  cat "$results/$name.out" | tee -a "$out"
  # A line that was cut is ended.
  printf '\n== stage %s ends, code %s, after %s s\n' "$name" "$code" "$(since "$at")" | tee -a "$out"
  [ $code = 0 ] || tail -n 5 "$results/$name.log" >&2
done
echo "== whole ends, after $(since "$begun") s" | tee -a "$out"
x gpu-pack judge "$out"
