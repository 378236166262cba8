#!/bin/sh
# Stands in for hprun in tests of what starts it: takes the same arguments and "measures" each plan as what the plan
# predicts. A plan that a pattern of the environment is found in makes trouble instead:
#   FAKE_CRASH=PATTERN  exit code 3, with a last word        FAKE_HANG=PATTERN   sleeps, with a child that sleeps too
#   FAKE_OTHER=PATTERN  measures another plan                FAKE_TORN=PATTERN   half a measurement file
#   FAKE_SLOW=PATTERN   ten times the predicted step         FAKE_SLEEP=S        seconds each plan takes
# FAKE_LOG=FILE gets a line a start and a line a measurement.
[ "$1" = --version ] && { echo "fake 1.0"; exit 0; }
plans= files= iterations=5
while [ $# -gt 0 ]; do
  case "$1" in
    --measure) files="$files $2"; shift ;;
    --iterations) iterations=$2; shift ;;
    --nproc | --timeout | --warmup) shift ;;
    *) plans="$plans $1" ;;
  esac
  shift
done
say() { [ -z "${FAKE_LOG:-}" ] || echo "$*" >>"$FAKE_LOG"; }
has() { [ -n "$1" ] && grep -q -e "$1" "$2"; }
say "start$plans"
set -- $files
for plan in $plans; do
  out=$1
  shift
  if has "${FAKE_CRASH:-}" "$plan"; then echo "rank 1: bad weather" >&2; exit 3; fi
  if has "${FAKE_HANG:-}" "$plan"; then
    sleep 1000 &
    say "child $!"
    wait
  fi
  [ -z "${FAKE_SLEEP:-}" ] || sleep "$FAKE_SLEEP"
  hash=$(sed -n 's/^hash: //p' "$plan")
  has "${FAKE_OTHER:-}" "$plan" && hash=sha256:0
  # The first step_s is the prediction's.
  step=$(sed -n 's/.*step_s: \([0-9.e+-]*\).*/\1/p' "$plan" | head -n 1)
  scale=1
  has "${FAKE_SLOW:-}" "$plan" && scale=10
  if has "${FAKE_TORN:-}" "$plan"; then echo 'step_s: [' >"$out"; continue; fi
  awk -v s="$step" -v k="$scale" -v n="$iterations" -v h="$hash" 'BEGIN {
    s *= k
    printf "hpplan_measurement: 1\nstep_s: %.9g\nstep_min_s: %.9g\nstep_max_s: %.9g\n", s, s * 0.99, s * 1.01
    printf "step_spread_s: %.9g\niterations: %d\nwarmup: 2\npeak_bytes: 1000\nsteps_s: [", s * 0.005, n
    for (i = 0; i < n; i++) printf "%s%.9g", i ? ", " : "", s * (1 + 0.01 * (n > 1 ? 2 * i / (n - 1) - 1 : 0))
    printf "]\nplan_hash: %s\nsoftware: {fake: v1}\n", h }' >"$out.part"
  mv "$out.part" "$out"
  say "done $hash"
done
