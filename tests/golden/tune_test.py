#!/usr/bin/env python3
"""hpplan tune, bench and compare from outside, with tests/support/fake_hprun.sh in hprun's place.

A tuner killed at random points loses no measurement that it had reported, and the same command goes on from there; a
layout that crashes or hangs is a failed measurement; plans measured elsewhere come back; a regression is found.
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE = str(ROOT / "tests/support/fake_hprun.sh")
KILLS = 50


def call(hpplan, *args, env=None, expect=0):
    run = subprocess.run([hpplan, *map(str, args)], capture_output=True, text=True, env={**os.environ, **(env or {})})
    if run.returncode != expect:
        sys.exit(f"hpplan {' '.join(map(str, args))}: exit {run.returncode}, expected {expect}\n{run.stdout}{run.stderr}")
    return run


def tune_args(folder, rounds, *more):
    return ["tune", "--model", "minimax-h3", "--topology", "hgx-h200", "--devices", "8", "--top", "4", "--runner", FAKE,
            "--rounds", rounds, "--iterations", "3", "-o", folder / "plan.yaml", "--budget", "5m", *more]


def journal(folder):
    lines = []
    for line in (folder / "plan.yaml.journal").read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            pass  # torn
    return lines


def killed_at_random(hpplan, folder):
    seed = int(time.time())
    print(f"seed {seed}")
    chance = random.Random(seed)
    log = folder / "log"
    # All layouts alike, so that nothing separates and every round is run.
    env = {**os.environ, "FAKE_LOG": str(log), "FAKE_SLEEP": "0.05"}
    reported, kills = 0, 0
    for attempt in range(400):
        child = subprocess.Popen([hpplan, *map(str, tune_args(folder, 40))], stderr=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, text=True, env=env)
        killer = chance.uniform(0, 0.6)
        try:
            child.wait(killer)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        said = child.stderr.read()
        child.wait()
        reported += len(re.findall(r"\] measured ", said))
        kept = len(journal(folder)) if (folder / "plan.yaml.journal").exists() else 0
        if kept < reported:
            sys.exit(f"kill {kills}: {reported} measurements were reported, {kept} are in the journal\n{said}")
        if child.returncode == -signal.SIGKILL:
            kills += 1
        elif child.returncode == 0:
            (folder / "plan.yaml.journal").unlink()
            reported = 0
        else:
            sys.exit(f"exit {child.returncode}\n{said}")
        if kills == KILLS:
            break
    else:
        sys.exit(f"only {kills} of {KILLS} kills met a running tuner")
    # No process of a killed tuner is left.
    time.sleep(0.5)
    left = [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if FAKE.encode() in cmdline(p)]
    if left:
        sys.exit(f"still running: {left}")
    # What the journal has is not run again.
    before = len(journal(folder)) if (folder / "plan.yaml.journal").exists() else 0
    log.write_text("")
    run = call(hpplan, *tune_args(folder, 40), env={"FAKE_LOG": str(log)})
    done = log.read_text().count("done ")
    if before + done != len(journal(folder)):
        sys.exit(f"{before} runs were kept and {done} made, but the journal has {len(journal(folder))}\n{run.stderr}")
    print(f"{kills} kills, nothing lost")


def cmdline(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def crash_and_hang(hpplan, folder):
    call(hpplan, *tune_args(folder, 2, "--timeout", "1s"),
         env={"FAKE_CRASH": "tp: {degree: 2", "FAKE_HANG": "ulysses: {degree: 8"})
    plan = yaml.safe_load((folder / "plan.yaml").read_text())
    errors = [c["measured"]["error"] for c in plan["runners_up"] if c.get("measured") and "error" in c["measured"]]
    for expected in ("exit code 3: rank 1: bad weather", "no result within 1 s"):
        if expected not in errors:
            sys.exit(f"{expected!r} is not in {errors}")
    if plan["measured"] is None or "step_s" not in plan["measured"]:
        sys.exit("the plan has no measurement")
    # Every layout fails: no plan, exit 1.
    (folder / "plan.yaml.journal").unlink()
    (folder / "plan.yaml").unlink()
    call(hpplan, *tune_args(folder, 6), env={"FAKE_CRASH": "mesh"}, expect=1)
    if (folder / "plan.yaml").exists():
        sys.exit("a plan was written though nothing was measured")


def emit_and_collect(hpplan, folder):
    runs = folder / "runs"
    call(hpplan, "tune", "--model", "minimax-h3", "--topology", "hgx-h200", "--devices", 8, "--top", 3, "--emit", runs)
    # The model's second choice turns out fastest.
    plans = sorted(p for p in runs.glob("*.yaml"))
    env = {**os.environ, "HPRUN": FAKE, "FAKE_SLOW": "ulysses: {degree: 8", "FAKE_CRASH": "tp: {degree: 4"}
    for _ in range(2):  # the second time there is nothing left to do
        done = subprocess.run([str(runs / "run.sh")], env=env, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"run.sh: exit {done.returncode}\n{done.stderr}")
    measured = sorted(runs.glob("*.measured.yaml"))
    if len(measured) != 2 * len(plans):
        sys.exit(f"{len(plans)} plans, {len(measured)} measurements")
    call(hpplan, "tune", "--collect", runs, "-o", folder / "collected.yaml")
    plan = yaml.safe_load((folder / "collected.yaml").read_text())
    if plan["axes"]["ulysses"]["degree"] == 8 or plan["measured"] is None:
        sys.exit(f"collected: {plan['axes']} {plan['measured']}")
    # Other flags give other plans: the measurements are of none of them.
    call(hpplan, "tune", "--collect", runs, "--model", "wan2.1-14b", "--topology", "hgx-h200", "--devices", 8, expect=2)


def bench_and_compare(hpplan, folder):
    plan = folder / "p.yaml"
    call(hpplan, "--model", "minimax-h3", "--topology", "hgx-h200", "--devices", 8, "-o", plan)
    base, now = folder / "base.json", folder / "now.json"
    call(hpplan, "bench", plan, "--runner", FAKE, "--repetitions", 6, "-o", base)
    rows = json.loads(base.read_text())["benchmarks"]
    if len([r for r in rows if r["run_type"] == "iteration"]) != 6:
        sys.exit(f"6 repetitions, got {rows}")
    call(hpplan, "compare", base, base)
    call(hpplan, "bench", plan, "--runner", FAKE, "--repetitions", 6, "-o", now, env={"FAKE_SLOW": "hpplan"})
    slower = call(hpplan, "compare", base, now, "--format", "json", expect=1)
    verdict = json.loads(slower.stdout)["benchmarks"][0]
    if verdict["verdict"] != "slower" or abs(verdict["change"] - 9) > 1e-6 or verdict["effect"] != 1:
        sys.exit(f"ten times slower: {verdict}")
    faster = json.loads(call(hpplan, "compare", now, base, "--format", "json").stdout)["benchmarks"][0]
    if faster["verdict"] != "faster":
        sys.exit(f"ten times faster: {faster}")
    call(hpplan, "bench", plan, "--runner", FAKE, "--repetitions", 3, "-o", now, env={"FAKE_CRASH": "hpplan"}, expect=1)
    call(hpplan, "compare", base, now, expect=1)
    call(hpplan, "compare", base, plan, expect=2)


def main(hpplan):
    for check in (crash_and_hang, emit_and_collect, bench_and_compare, killed_at_random):
        with tempfile.TemporaryDirectory() as folder:
            check(hpplan, pathlib.Path(folder))
        print(f"{check.__name__}: good")


if __name__ == "__main__":
    main(sys.argv[1])
