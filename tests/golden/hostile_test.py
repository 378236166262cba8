#!/usr/bin/env python3
"""Input that is wrong on purpose gives one clear error and exit 2, in bounded time and memory, whichever flag reads it.

Files too large or too odd to lie in a repository are made here. Every call runs under 512 MB of address space, but
with --sanitized, as address sanitizers map terabytes.
"""
import pathlib
import resource
import subprocess
import sys
import tempfile

SECONDS = 10
MEMORY = 512 << 20


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def make_files(folder):
    """name -> path"""
    def write(name, data):
        (folder / name).write_bytes(data)
        return folder / name

    big = folder / "hundred_megabytes.yaml"
    with big.open("wb") as out:
        for _ in range(100):
            out.write(b"a: 1\n" * 209715)
    bomb = b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n".encode() for i in range(12))
    return {
        "missing": folder / "nowhere.yaml",
        "folder": folder,
        "empty": write("empty.yaml", b""),
        "large": big,
        "bomb": write("bomb.yaml", bomb),
        "deep": write("deep.yaml", b"[" * 100000),
        "not utf-8": write("latin.yaml", b"name: caf\xe9\n"),
        "nul": write("nul.yaml", b"name: a\0b\n"),
        "binary": write("binary.yaml", bytes(range(256)) * 64),
        "scalar": write("scalar.yaml", b"42\n"),
        "list": write("list.yaml", b"- a\n- b\n"),
        "two documents": write("two.yaml", b"name: a\n---\nname: b\n"),
        "doubled key": write("doubled.yaml", b"name: a\nname: b\n"),
        "tag": write("tag.yaml", b"name: !!python/object/apply:os.system [ls]\n"),
        "device": pathlib.Path("/dev/zero"),
        "json": write("config.json", b'{"_class_name": "WanTransformer3DModel", "num_layers": 1e99}'),
        "json cut": write("cut.json", b'{"_class_name": "WanTransformer3DModel",'),
        "json nested": write("nested.json", b'{"a":' * 20000),
    }


NUMBERS = ["0", "-1", "1e9", "1000000000", "99999999999999999999", "nan", "inf", "", "3.5", "one", "8 "]
COUNT_FLAGS = ["--devices", "--nodes", "--tp", "--ring", "--ulysses", "--frames", "--text-tokens", "--batch", "--steps",
               "--seq-len", "--guidance", "--lnc"]
# What a flag may be although it is in NUMBERS.
ALLOWED = {("--text-tokens", "0"), ("--seq-len", "1000000000")}


def main(hpplan, sanitized=False):
    checked, wrong = 0, []

    def refused(*args, why=""):
        nonlocal checked
        checked += 1
        try:
            run = subprocess.run([hpplan, *map(str, args)], capture_output=True, timeout=SECONDS,
                                 preexec_fn=None if sanitized else limit,
                                 stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            wrong.append(f"{why} {args}: still running after {SECONDS} s")
            return
        said = run.stderr.decode("utf-8", "replace")
        if run.returncode != 2:
            wrong.append(f"{why} {args}: exit {run.returncode}, {said[:200]!r}")
        elif not said.startswith("hpplan: ") or len(said) > 2000 or not said.isprintable() and "\n" not in said:
            wrong.append(f"{why} {args}: said {said[:300]!r}")
        elif run.stdout:
            wrong.append(f"{why} {args}: printed {run.stdout[:200]!r}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for why, path in make_files(folder).items():
            refused("--model", path, "--topology", "hgx-h200", why=f"model, {why}")
            refused("--model", "minimax-h3", "--topology", path, why=f"topology, {why}")
            refused("--model", "minimax-h3", "--topology", "hgx-h200", "--engine", path, why=f"engine, {why}")
            refused("check", path, why=f"plan, {why}")
            refused("check", "--model", "minimax-h3", "--topology", "hgx-h200", "--tp", 8, "--ranks", path,
                    why=f"ranks, {why}")
            refused("compare", path, path, why=f"benchmark, {why}")
            refused("validate", "--against", path, why=f"measurements, {why}")
            refused("calibrate", "--device", "h200", path, why=f"calibration, {why}")
        base = ["--model", "minimax-h3", "--topology", "hgx-h200"]
        for flag in COUNT_FLAGS:
            for number in NUMBERS:
                if (flag, number) not in ALLOWED:
                    refused(*base, f"{flag}={number}", why="number")
        for flag in ("--max-memory", "--latency-budget"):
            for text in ("", "60", "nan", "nanGiB", "-1GiB", "-1s", "1e999GiB", "1e999s", "GiB", "s", "1 2GiB"):
                refused(*base, f"{flag}={text}", why="quantity")
        for size in ("", "x", "0x0", "1344", "1344x", "x768", "-32x32", "1344x768x2", "1e9x1e9", "99999999999x32"):
            refused(*base, f"--size={size}", why="size")
        refused(*base, "-o", folder / "no" / "such" / "folder.yaml", why="output")
        refused(*base, "-o", folder, why="output")
        refused(*base, "--data-dir", folder / "nowhere", why="data folder")
        refused("show", "A" * 100000, why="long name")
        refused("--model", "caf\udce9", "--topology", "hgx-h200", why="name, not utf-8")
    for line in wrong:
        print(line)
    print(f"{checked} calls, {len(wrong)} not refused as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--sanitized" in sys.argv))
