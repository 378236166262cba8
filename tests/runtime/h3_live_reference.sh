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

# shellcheck source=tests/support/python_with_diffusers.sh
. tests/support/python_with_diffusers.sh
python=$(python_with_diffusers)

rm -rf "$scratch"
mkdir -p "$scratch"
"$python" tools/make_references.py --out "$scratch" --seed 424242
HPPLAN_H3_DATA="$scratch" "$parity" --gtest_filter='H3Parity.OneRank:H3Parity.Tp2Ulysses4:H3Parity.Bf16IsAs*:H3Parity.DenoiseLoop'
"$python" tools/make_references.py --check tests/data/h3
