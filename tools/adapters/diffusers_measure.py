#!/usr/bin/env python3
"""Runs a plan of hpplan with diffusers and writes a measurement file: hprun's place, taken by another engine.

The device mesh is built from the plan's explicit rank grid, the transformer is run as diffusers runs it
(ContextParallelConfig or TensorParallelConfig over that mesh), steps are timed on every rank and the slowest counts.
One process a rank: from torchrun, srun or mpirun, or started here with --nproc.

  hpplan tune --model wan2.1-14b --topology hgx-h200 --engine diffusers --emit runs     # writes this beside the plans
  LAUNCH='torchrun --no-python --nproc-per-node 8' runs/run.sh
  hpplan tune --model minimax-h3-tiny --topology local --devices 2 --engine diffusers --runner 'python3 diffusers_measure.py'
  python3 diffusers_measure.py plan.yaml --nproc 2 --model h3/transformer --measure now.yaml

--model names a diffusers transformer folder; without weights in it they are random, which times alike. Without --model
a MiniMaxH3Transformer3DModel of the plan's dimensions is made; another class needs its folder. --inputs is a
safetensors file with the arguments of the model's forward(); without it MiniMax-H3 gets a random request of the plan's
rows, another class needs the file.

Runs where torch does: CUDA, AMD, Neuron (torch_neuronx), CPU. Needs torch, diffusers and PyYAML. What diffusers cannot
run (tensor parallel on a CPU, tensor and context parallel at once) is a measurement with an error text, exit code 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import time

import yaml


def duration(text):
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text.removesuffix("s"))


def write_measurement(path, fields):
    """YAML (JSON is), whole or not at all."""
    part = pathlib.Path(f"{path}.{os.getpid()}.part")
    part.write_text(json.dumps({"hpplan_measurement": 1, **fields}) + "\n")
    part.rename(path)


# --- one rank

def rank_environment():
    for rank, world, local in (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
                               ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")):
        if rank in os.environ and world in os.environ:
            return int(os.environ[rank]), int(os.environ[world]), int(os.environ.get(local, os.environ[rank]))
    return None


def device_of(local_rank, world):
    """The device type of this machine, and its backend."""
    import torch

    if not torch.accelerator.is_available():
        try:
            import torch_neuronx  # noqa: F401  (registers the device type)
        except ImportError:
            # diffusers divides the rank by the number of accelerators; a CPU has one for each rank.
            torch.accelerator.device_count = lambda: world
            return torch.device("cpu"), "gloo"
    kind = torch.accelerator.current_accelerator().type
    torch.accelerator.set_device_index(local_rank % torch.accelerator.device_count())
    return torch.device(kind, local_rank % torch.accelerator.device_count()), {"cuda": "nccl"}.get(kind, kind)


def make_model(plan, folder, dtype):
    import diffusers

    spec = plan["model"]
    if folder is None:
        if spec["class"] != "MiniMaxH3Transformer3DModel":
            raise ValueError(f"--model is needed: the plan does not hold all dimensions of a {spec['class']}")
        blocks = spec["blocks"]
        return diffusers.MiniMaxH3Transformer3DModel(
            num_attention_heads=spec["heads"], attention_head_dim=spec["head_dim"], hidden_size=spec["hidden"],
            num_layers=sum(b["count"] for b in blocks), ffn_dim=blocks[0]["mlp_width"], text_dim=spec["hidden"],
            time_embed_dim=blocks[0]["adaln_in"], time_embed_hidden_dim=2 * blocks[0]["adaln_in"],
            rope_freq_dim=max(1, spec["head_dim"] // 8))
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    kind = getattr(diffusers, config["_class_name"])
    if any(folder.glob("*.safetensors")):
        return kind.from_pretrained(folder, torch_dtype=dtype)
    return kind.from_config(config)


def cast(model, dtype):
    """As from_pretrained(torch_dtype=...) does: what the class keeps in fp32 stays there."""
    import torch

    keep = set(model._keep_in_fp32_modules or [])
    for name, parameter in model.named_parameters():
        parameter.data = parameter.data.to(torch.float32 if keep & set(name.split(".")) else dtype)
    return model


def random_request(plan, model):
    """forward()'s arguments for MiniMax-H3: text, audio and video rows in one sequence, two noise levels."""
    import torch

    if type(model).__name__ != "MiniMaxH3Transformer3DModel":
        raise ValueError(f"--inputs is needed: a safetensors file with the arguments of {type(model).__name__}.forward()")
    rows = {s["name"]: s["rows"] for s in plan["workload"]["streams"]}
    text, audio = rows["text"], rows["audio"]
    video = plan["workload"]["rows"] - text - audio  # reference rows are video-like
    total, batch, c = text + audio + video, plan["workload"]["batch"], model.config
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(batch, *shape, generator=generator)
    tags, level, position = torch.zeros(total, dtype=torch.long), torch.zeros(total, dtype=torch.long), torch.zeros(total, 3)
    tags[:text], tags[text:text + audio], level[text:text + audio] = 1, 2, 1
    position[:, 0] = torch.arange(total)
    patch = c.patch_size[0] * c.patch_size[1] * c.patch_size[2]
    return dict(
        hidden_states=draw(video, c.in_channels * patch), audio_hidden_states=draw(audio, c.audio_in_channels),
        encoder_hidden_states=draw(text, c.text_dim), timestep=torch.tensor([0.3, 0.6]), timestep_indices=level,
        token_tags=tags, position_ids=position, text_indices=torch.arange(text),
        audio_indices=torch.arange(text, text + audio), video_indices=torch.arange(text + audio, total))


def parallel_config(plan, mesh):
    """What enable_parallelism takes, None for one rank."""
    from diffusers import ContextParallelConfig
    from diffusers.models._modeling_parallel import ParallelConfig, TensorParallelConfig

    degree = {name: axis["degree"] for name, axis in plan["axes"].items()}
    for axis in set(degree) - {"tp", "ring", "ulysses"}:
        if degree[axis] > 1:
            raise ValueError(f"diffusers has no {axis} axis: plan with --{axis} 1")
    ring, ulysses = degree["ring"], degree["ulysses"]
    context = tensor = None
    if ring * ulysses > 1:
        uneven = plan["workload"]["rows"] % (ring * ulysses) != 0
        padded = plan["axes"]["ulysses"].get("heads", "exact") != "exact"
        context = ContextParallelConfig(ring_degree=ring, ulysses_degree=ulysses, mesh=mesh,
                                        ulysses_anything=ulysses > 1 and (uneven or padded),
                                        ring_anything=ulysses == 1 and uneven)
    if degree["tp"] > 1:
        tensor = TensorParallelConfig(tp_degree=degree["tp"], mesh=mesh["tp"])
    return ParallelConfig(context_parallel_config=context, tensor_parallel_config=tensor) if context or tensor else None


def measure(args, plan, rank, device):
    """Seconds of every timed step of the slowest rank, and the peak of memory in bytes."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    if plan["mesh"]["devices"] != sorted(plan["mesh"]["devices"]):
        raise ValueError("the plan numbers its devices out of order, and launchers do not")
    mesh = DeviceMesh(device.type, torch.tensor(plan["mesh"]["ranks"]), mesh_dim_names=tuple(plan["mesh"]["dims"]))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}.get(plan["workload"]["dtype"])
    if dtype is None:
        raise ValueError(f"no weights of {plan['workload']['dtype']} here: f32, bf16 or f16")
    torch.manual_seed(1)  # the same weights on every rank
    model = cast(make_model(plan, args.model, dtype), dtype).eval().to(device)
    if args.inputs:
        from safetensors.torch import load_file
        inputs = load_file(args.inputs)
    else:
        inputs = random_request(plan, model)
    inputs = {k: v.to(device, dtype if v.is_floating_point() and k != "position_ids" else v.dtype) for k, v in inputs.items()}
    config = parallel_config(plan, mesh)
    if config is not None:
        model.enable_parallelism(config=config)

    wait = (lambda: None) if device.type == "cpu" else torch.accelerator.synchronize
    seconds = []
    with torch.inference_mode():
        for _ in range(args.warmup + args.iterations):
            wait()
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(plan["workload"]["branches"]):
                model(**inputs, return_dict=False)
            wait()
            seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if device.type != "cpu":
        peak = torch.accelerator.max_memory_allocated()
    slowest = torch.tensor([*seconds[args.warmup:], float(peak)], dtype=torch.float32 if device.type != "cpu" else torch.float64,
                           device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    *steps, peak = slowest.tolist()
    return steps, int(peak)


def run_rank(args, rank, world, local):
    import diffusers
    import torch
    import torch.distributed as dist

    device, backend = device_of(local, world)
    if device.type == "cpu":
        local_world = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        torch.set_num_threads(args.threads or max(1, os.cpu_count() // local_world))
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=args.timeout))
    software = {"diffusers": diffusers.__version__, "torch": torch.__version__, "device": device.type}
    for path, out in zip(args.plans, args.measure):
        plan = yaml.safe_load(pathlib.Path(path).read_text())
        about = {"plan_hash": plan["hash"], "software": software, "host": socket.gethostname()}
        size = len(plan["mesh"]["devices"])
        try:
            if size != world:
                raise ValueError(f"the plan has {size} ranks, {world} were started")
            steps, peak = measure(args, plan, rank, device)
        except Exception as error:
            # Other ranks may wait inside a collective: this one says what happened and all of them end.
            message = f"rank {rank}: {type(error).__name__}: {error}".splitlines()[0]
            print(message, file=sys.stderr, flush=True)
            if not pathlib.Path(out).exists():
                write_measurement(out, {"error": message, **about})
            os._exit(1)
        if rank == 0:
            middle = statistics.median(steps)
            write_measurement(out, {
                "step_s": middle, "step_min_s": min(steps), "step_max_s": max(steps),
                "step_spread_s": statistics.median(abs(s - middle) for s in steps), "iterations": args.iterations,
                "warmup": args.warmup, "peak_bytes": peak, "steps_s": steps, **about})
            print(f"step {middle:.6g} s (median of {len(steps)}), written to {out}", file=sys.stderr, flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


# --- local ranks

def start_ranks(args):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    for rank in range(args.nproc):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(args.nproc), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                   LOCAL_WORLD_SIZE=str(args.nproc), MASTER_PORT=str(port))
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
    code = 0
    try:
        while any(r.poll() is None for r in ranks):
            code = code or next((r.returncode for r in ranks if r.returncode), 0)
            if code:
                break
            time.sleep(0.02)
        code = code or next((r.returncode for r in ranks if r.returncode), 0)
    finally:
        for r in ranks:
            if r.poll() is None:
                r.kill()
            r.wait()
    return 1 if code else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", metavar="PLAN", help="plans of hpplan, of one world size")
    parser.add_argument("--measure", nargs="+", action="extend", required=True, metavar="FILE", help="measurement to write, one a plan")
    parser.add_argument("--nproc", type=int, help="start so many local ranks")
    parser.add_argument("--warmup", type=int, default=2, help="steps that are not counted (default 2)")
    parser.add_argument("--iterations", type=int, default=5, help="steps that are (default 5)")
    parser.add_argument("--timeout", type=duration, default=120, help="longest wait for another rank (default 120s)")
    parser.add_argument("--threads", type=int, help="of one CPU rank (default: cores of the host / its ranks)")
    parser.add_argument("--model", metavar="FOLDER", help="diffusers transformer folder (config.json, safetensors or none)")
    parser.add_argument("--inputs", metavar="FILE", help="safetensors with the arguments of forward()")
    if sys.argv[1:] == ["--version"]:
        import diffusers
        import torch
        print(f"diffusers_measure: diffusers {diffusers.__version__}, torch {torch.__version__}")
        return 0
    args = parser.parse_args()
    if len(args.measure) != len(args.plans):
        parser.error(f"{len(args.plans)} plans need {len(args.plans)} files after --measure")
    here = rank_environment()
    if here is not None:
        return run_rank(args, *here)
    if args.nproc is None:
        args.nproc = len(yaml.safe_load(pathlib.Path(args.plans[0]).read_text())["mesh"]["devices"])
    return start_ranks(args)


if __name__ == "__main__":
    sys.exit(main())
