#!/usr/bin/env bash
# A plan of engine diffusers, measured by diffusers itself: emitted with its script, run, collected; and by `hpplan tune`
# directly. Two Gloo ranks of tiny MiniMax-H3, Ulysses 2. Layouts that diffusers cannot run come back as failed. Installs
# diffusers where no Python has it (tools/torch_setup --python); nothing is skipped.
#   diffusers_measure_test.sh HPPLAN SCRATCH_FOLDER
set -euo pipefail
hpplan=$(realpath "$1")
scratch=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/support/python_with_diffusers.sh
. tests/support/python_with_diffusers.sh
python=$(python_with_diffusers)
rm -rf "$scratch"
mkdir -p "$scratch"
die() { echo "$*" >&2; exit 1; }

request=(--model minimax-h3-tiny --topology local --devices 2 --engine diffusers --text-tokens 30)
"$hpplan" tune "${request[@]}" --warmup 1 --iterations 3 --emit "$scratch/runs"
PYTHON="$python" ROUNDS=1 "$scratch/runs/run.sh"
"$hpplan" tune --collect "$scratch/runs" -o "$scratch/collected.yaml"
grep -q 'ulysses: {degree: 2' "$scratch/collected.yaml" || die "another layout than Ulysses 2 was chosen"
grep -q 'measured:' "$scratch/collected.yaml" || die "the plan has no measurement"
grep -q 'diffusers: ' "$scratch/collected.yaml" || die "the measurement does not say which diffusers ran"
# Tensor parallel of this class is beyond diffusers 0.42, and is said to be.
grep -q '_tp_plan' "$scratch/collected.yaml" || die "the layout that diffusers refuses has no error text"

"$hpplan" tune "${request[@]}" --tp 1 --ring 1 --ulysses 2 --rounds 1 --warmup 1 --iterations 2 \
  --runner "$python tools/adapters/diffusers_measure.py" -o "$scratch/tuned.yaml"
grep -q 'step_s' <(sed -n '/^measured:/,/^[a-z]/p' "$scratch/tuned.yaml") || die "tune with the adapter as its runner measured nothing"
