#!/usr/bin/env python3
"""hprun against diffusers' own context-parallel run: same machine, torch build, weights, rows and threads.

For every shape and Ulysses degree one plan is made with hpplan, run with `hprun --measure`, and the same
model class with the same weights and rows is run by diffusers over Gloo with ContextParallelConfig. The two
take turns (--rounds: A B, B A, ...), so that a busy moment meets both. Printed: median step of each and their
ratio. Both run their prepared request: diffusers refines the text rows in every step, hprun once a request.

  tools/compare_diffusers.py                                   two shapes, Ulysses 2 and 4
  tools/compare_diffusers.py --shape small --ulysses 2         one of them
  tools/compare_diffusers.py --max-ratio 0.8                   exit 1 when a ratio is above that
  tools/compare_diffusers.py --json figures.json               the figures as data too

Needs torch, diffusers and what they bring (tools/torch_setup --python) and a built hpplan and hprun. diffusers
0.42 counts accelerators where it should count ranks; on a CPU this script answers for it.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Dimensions of the class, and the request. Rows are text + audio + 7 latent frames x height/32 x width/32; the
# text makes them divide by 4, because diffusers' mode for other numbers of rows asks for a GPU.
SHAPES = {
    "small": (dict(num_attention_heads=8, attention_head_dim=32, hidden_size=128, num_layers=2,
                   num_refiner_layers=2, ffn_dim=352, text_dim=128, freq_dim=256, time_embed_hidden_dim=128,
                   time_embed_dim=64, rope_freq_dim=4),
              dict(width=512, height=384, frames=22, text=34)),
    "wide": (dict(num_attention_heads=8, attention_head_dim=64, hidden_size=384, num_layers=4,
                  num_refiner_layers=2, ffn_dim=1024, text_dim=384, freq_dim=256, time_embed_hidden_dim=384,
                  time_embed_dim=192, rope_freq_dim=8),
             dict(width=640, height=384, frames=22, text=66)),
}


def make_model(folder, dimensions):
    """A diffusers folder with seeded random weights."""
    from diffusers import MiniMaxH3Transformer3DModel
    from make_references import fill

    model = MiniMaxH3Transformer3DModel(**dimensions)
    fill(model, 1)
    model.save_pretrained(folder)


def make_plan(args, folder, request, ulysses):
    """The plan file, and the rows of its streams."""
    plan = folder / f"ulysses{ulysses}.yaml"
    command = [args.hpplan, "--model", folder / "config.json", "--topology", "local", "--devices", ulysses, "--tp", 1,
               "--ring", 1, "--ulysses", ulysses, "--size", f"{request['width']}x{request['height']}", "--frames",
               request["frames"], "--text-tokens", request["text"], "--dtype", "f32"]
    text = subprocess.run([*map(str, command), "--format", "json"], check=True, capture_output=True, text=True).stdout
    subprocess.run([*map(str, command), "-o", str(plan)], check=True, capture_output=True)
    streams = json.loads(text)["workload"]["streams"]
    return plan, {s["name"]: s["rows"] for s in streams}


def run_hprun(args, folder, plan, ulysses):
    """Seconds of every timed step."""
    import yaml

    out = folder / "measured.yaml"
    command = [args.hprun, plan, "--nproc", ulysses, "--checkpoint", folder, "--threads", args.threads,
               "--warmup", args.warmup, "--iterations", args.steps, "--measure", out]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr}")
    return yaml.safe_load(out.read_text())["steps_s"]


def diffusers_rank(rank, world, port, threads, folder, rows, warmup, steps, out):
    import torch
    import torch.distributed as dist
    from diffusers import ContextParallelConfig, MiniMaxH3Transformer3DModel
    from safetensors.torch import load_file

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.accelerator.device_count = lambda: world
    model = MiniMaxH3Transformer3DModel.from_config(MiniMaxH3Transformer3DModel.load_config(folder)).eval()
    model.load_state_dict(load_file(pathlib.Path(folder) / "diffusion_pytorch_model.safetensors"))
    text, audio, video = rows["text"], rows["audio"], rows["video"]
    total = text + audio + video
    model.enable_parallelism(config=ContextParallelConfig(ulysses_degree=world))
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    c = model.config
    tags = torch.zeros(total, dtype=torch.long)
    tags[:text], tags[text:text + audio] = 1, 2
    level = torch.zeros(total, dtype=torch.long)
    level[text:text + audio] = 1
    position = torch.zeros(total, 3)
    position[:, 0] = torch.arange(total)
    inputs = dict(
        hidden_states=draw(1, video, c.in_channels * 4), audio_hidden_states=draw(1, audio, c.audio_in_channels),
        encoder_hidden_states=draw(1, text, c.text_dim), timestep=torch.tensor([0.3, 0.6]), timestep_indices=level,
        token_tags=tags, position_ids=position, text_indices=torch.arange(text),
        audio_indices=torch.arange(text, text + audio), video_indices=torch.arange(text + audio, total))
    seconds = []
    with torch.inference_mode():
        for _ in range(warmup + steps):
            dist.barrier()
            begin = time.perf_counter()
            model(**inputs, return_dict=False)
            seconds.append(time.perf_counter() - begin)
    # A step takes as long as its slowest rank.
    slowest = torch.tensor(seconds[warmup:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        pathlib.Path(out).write_text(json.dumps(slowest.tolist()))
    dist.destroy_process_group()


def run_diffusers(args, folder, rows, ulysses):
    """Seconds of every timed step of the slowest rank."""
    import torch.multiprocessing as mp

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = folder / "diffusers.json"
    mp.spawn(diffusers_rank, nprocs=ulysses, args=(ulysses, port, args.threads, str(folder), rows, args.warmup, args.steps, str(out)))
    return json.loads(out.read_text())


def compare(args, shape, ulysses, folder):
    plan, rows = make_plan(args, folder, SHAPES[shape][1], ulysses)
    if sum(rows.values()) % ulysses != 0:
        sys.exit(f"compare_diffusers: {sum(rows.values())} rows do not divide by ulysses {ulysses}, and diffusers needs a GPU then")
    ours, theirs = [], []
    for turn in range(args.rounds):
        # A B, then B A, so that what drifts meets both alike.
        if turn % 2 == 0:
            ours += run_hprun(args, folder, plan, ulysses)
        theirs += run_diffusers(args, folder, rows, ulysses)
        if turn % 2 == 1:
            ours += run_hprun(args, folder, plan, ulysses)
    a, b = statistics.median(ours), statistics.median(theirs)
    return dict(shape=shape, ulysses=ulysses, rows=sum(rows.values()), hprun_s=a, diffusers_s=b, ratio=a / b,
                best_ratio=min(ours) / min(theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=sorted(SHAPES), help="only this one (repeatable)")
    parser.add_argument("--ulysses", action="append", type=int, help="degree (repeatable; default 2 and 4)")
    parser.add_argument("--threads", type=int, default=1, help="of one rank (default 1)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones (default 2)")
    parser.add_argument("--steps", type=int, default=8, help="timed steps a round (default 8)")
    parser.add_argument("--rounds", type=int, default=4, help="how often the two take turns (default 4)")
    parser.add_argument("--hpplan", default=ROOT / "build/bin/hpplan", help="default build/bin/hpplan")
    parser.add_argument("--hprun", default=ROOT / "build/bin/hprun", help="default build/bin/hprun")
    parser.add_argument("--max-ratio", type=float, help="exit 1 when hprun / diffusers is above it anywhere")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures there")
    args = parser.parse_args()
    try:
        import diffusers
        import torch
    except ImportError as error:
        print(f"compare_diffusers: {error.name} is missing; `tools/torch_setup --python` installs what is needed",
              file=sys.stderr)
        return 2
    print(f"torch {torch.__version__}, diffusers {diffusers.__version__}, {os.cpu_count()} cores, "
          f"{args.threads} thread(s) a rank, fp32, Gloo over loopback")
    print(f"{'shape':8} {'rows':>5} {'ulysses':>7} {'hprun':>11} {'diffusers':>11} {'ratio':>6} {'of the fastest steps':>21}")
    figures = []
    with tempfile.TemporaryDirectory() as scratch:
        for shape in args.shape or SHAPES:
            folder = pathlib.Path(scratch) / shape
            make_model(folder, SHAPES[shape][0])
            for ulysses in args.ulysses or [2, 4]:
                f = compare(args, shape, ulysses, folder)
                figures.append(f)
                print(f"{shape:8} {f['rows']:5} {ulysses:7} {f['hprun_s'] * 1e3:8.1f} ms {f['diffusers_s'] * 1e3:8.1f} ms "
                      f"{f['ratio']:6.2f} {f['best_ratio']:21.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    worst = max(f["ratio"] for f in figures)
    if args.max_ratio is not None and worst > args.max_ratio:
        print(f"the largest ratio {worst:.2f} is above {args.max_ratio}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
