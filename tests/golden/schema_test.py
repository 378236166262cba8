#!/usr/bin/env python3
"""Plans that hpplan writes fit tools/plan.schema.json, as JSON and as YAML, and the two are the same document."""
import json
import pathlib
import subprocess
import sys

import jsonschema
import yaml

CALLS = [
    "--model minimax-h3 --topology trn2.48xl --fabric-rules compiled",
    "--model minimax-h3 --topology hgx-h200 --engine sglang --explain",
    "--model wan2.1-14b --topology hgx-h100 --engine xdit --guidance 2 --explain",
    "--model flux.1-dev --topology l20-x8 --engine diffusers --pareto",
    "--model minimax-h3-tiny --topology local --devices 4",
]


def main(hpplan: str) -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    schema = json.loads((root / "tools/plan.schema.json").read_text())
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    bad = 0
    for call in CALLS:
        documents = {}
        for form in ("json", "yaml"):
            run = subprocess.run([hpplan, *call.split(), "--format", form], capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"hpplan {call}: exit {run.returncode}\n{run.stderr}")
            documents[form] = json.loads(run.stdout) if form == "json" else yaml.safe_load(run.stdout)
            for error in checker.iter_errors(documents[form]):
                bad += 1
                where = "/".join(map(str, error.absolute_path))
                print(f"hpplan {call} --format {form}: {where}: {error.message[:300]}")
        documents["json"].pop("pareto", None)
        if documents["json"] != documents["yaml"]:
            bad += 1
            print(f"hpplan {call}: the JSON and the YAML are not the same document")
    # The schema must be able to refuse: a plan without its mesh is none.
    documents["json"].pop("mesh")
    if checker.is_valid(documents["json"]):
        bad += 1
        print("a plan without a mesh passes the schema")
    print(f"{len(CALLS)} calls, {bad} mistakes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
