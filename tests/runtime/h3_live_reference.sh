#!/usr/bin/env bash
# Makes a reference now, with other numbers than the stored ones, and holds the runtime against it; then
# makes the stored ones again and compares. Installs diffusers where no Python has it (tools/torch_setup
# --python, some minutes the first time; HPPLAN_PYTHON names one of yours) and fails where that fails: nothing
# is skipped.
#   h3_live_reference.sh PARITY_TEST_BINARY SCRATCH_FOLDER
set -euo pipefail
parity=$(realpath "$1")
scratch=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python_with_diffusers() {
  local candidate
  for candidate in "${HPPLAN_PYTHON:-}" .deps/venv/bin/python "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" python3; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import torch, diffusers, safetensors' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}
python=$(python_with_diffusers)
if [ -z "$python" ]; then
  tools/torch_setup --python
  python=$(python_with_diffusers)
fi
if [ -z "$python" ]; then
  echo "no Python with torch, diffusers and safetensors, and tools/torch_setup --python did not make one" >&2
  exit 1
fi

rm -rf "$scratch"
mkdir -p "$scratch"
"$python" tools/make_references.py --out "$scratch" --seed 424242
HPPLAN_H3_DATA="$scratch" "$parity" --gtest_filter='H3Parity.OneRank:H3Parity.Tp2Ulysses4:H3Parity.Bf16IsAs*:H3Parity.DenoiseLoop'
"$python" tools/make_references.py --check tests/data/h3
