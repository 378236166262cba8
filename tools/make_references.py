#!/usr/bin/env python3
"""Reference tensors for the runtime's MiniMax-H3, made by the public diffusers class.

Each configuration becomes one folder:

    config.json                            as diffusers writes it
    diffusion_pytorch_model*.safetensors   seeded random weights, every one of them (norms and biases too)
    reference.safetensors                  inputs and outputs of one forward pass (batch 2, several noise
                                           levels, odd row counts; outputs in fp32 and with the block stack in
                                           bf16) and of a short denoise loop (batch 1)

The forward pass is MiniMaxH3Transformer3DModel.forward on the CPU in fp32, the loop is MiniMaxH3Scheduler
with shift 12 for video and 3 for audio. The configurations are tiny, but keep what makes the model
awkward: more head channels than hidden channels, rotary embedding on a part of the head, rows that no
number of ranks divides, modalities interleaved in pieces, conditioning rows at their own noise level.

  tools/make_references.py --list                       the configurations
  tools/make_references.py --out tests/data/h3          write all of them
  tools/make_references.py --out /tmp/h3 --config h8    one of them
  tools/make_references.py --out /tmp/h3 --config h8 --seed 7     the same dimensions, other numbers
  tools/make_references.py --check tests/data/h3        make them again and compare with what is there
  tools/make_references.py --layout tests/data/h3/layout.safetensors      the packed rows of a request, as the
                                                        pipeline lays them out (this one needs transformers too)

Needs torch, diffusers (0.42 or newer) and safetensors; `tools/torch_setup --python` installs them.
"""

import argparse
import pathlib
import sys
import tempfile

# Heads decide which meshes are legal: 8 for 2, 4 and 8 ranks; 6 for 3 and 6; 7 for 7; 14 for heads that
# ulysses pads (tp 2 leaves 7 heads). `shards` cuts the checkpoint into several files with an index.
COMMON = dict(
    attention_head_dim=16, hidden_size=48, num_layers=2, num_refiner_layers=1, ffn_dim=96, in_channels=4,
    audio_in_channels=6, patch_size=(1, 2, 2), text_dim=20, freq_dim=32, time_embed_hidden_dim=40,
    time_embed_dim=24, rope_freq_dim=2, rope_theta=100.0,
)
CONFIGS = {
    "h8": dict(COMMON, num_attention_heads=8),
    "h6": dict(COMMON, num_attention_heads=6, num_refiner_layers=2, shards="200KB"),
    "h7": dict(COMMON, num_attention_heads=7, ffn_dim=112),
    "h14": dict(COMMON, num_attention_heads=14, attention_head_dim=8, rope_freq_dim=1, hidden_size=40, ffn_dim=112),
}
SEED = 20260
TEXT_ROWS, CONDITION_ROWS, AUDIO_LATENTS, FRAMES, FRAME_ROWS = 7, 3, 5, 4, 6
LOOP_STEPS = 5  # grid points of the schedules, so four evaluations


def fill(model, seed):
    """Random values for every parameter, drawn in the order of their names."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() == 2:
                p.copy_(noise / p.shape[1] ** 0.5)
            elif "norm" in name and name.endswith(".weight"):
                p.copy_(1 + 0.2 * noise)
            else:
                p.copy_(0.3 * noise)


def layout():
    """Packed rows: text, a conditioning image, audio (channel by channel), video; 7 + 3 + 10 + 24 - 1 = 43."""
    import torch

    audio_rows = 2 * AUDIO_LATENTS
    video_rows = FRAMES * FRAME_ROWS - 1
    condition = torch.arange(TEXT_ROWS, TEXT_ROWS + CONDITION_ROWS)
    audio = torch.arange(audio_rows) + TEXT_ROWS + CONDITION_ROWS
    video = torch.arange(video_rows) + TEXT_ROWS + CONDITION_ROWS + audio_rows
    rows = TEXT_ROWS + CONDITION_ROWS + audio_rows + video_rows

    position = torch.zeros(rows, 3, dtype=torch.float64)
    position[:TEXT_ROWS, 0] = torch.arange(TEXT_ROWS)
    position[condition, 0] = float(TEXT_ROWS)
    position[condition, 2] = 10.5 * torch.arange(CONDITION_ROWS, dtype=torch.float64)
    position[audio, 0] = TEXT_ROWS + torch.arange(AUDIO_LATENTS, dtype=torch.float64).repeat(2)
    position[audio[AUDIO_LATENTS:], 2] = 21.0
    index = torch.arange(video_rows, dtype=torch.float64)
    position[video, 0] = TEXT_ROWS + 5.0 / 3.0 * torch.div(index, FRAME_ROWS, rounding_mode="floor")
    position[video, 1] = 13.25 * torch.div(index % FRAME_ROWS, 3, rounding_mode="floor")
    position[video, 2] = 10.5 * (index % 3)

    tags = torch.zeros(rows, dtype=torch.long)
    tags[:TEXT_ROWS] = 1
    tags[2] = 0  # a row of the text stream that stands for a picture carries the video tag
    tags[audio] = 2
    return dict(
        position_ids=position, token_tags=tags, video_indices=torch.cat([condition, video]), audio_indices=audio,
        text_indices=torch.arange(TEXT_ROWS),
    )


def row_timesteps(rows, video_t, audio_t, condition_t):
    import torch

    t = torch.full((rows["token_tags"].numel(),), video_t, dtype=torch.float32)
    t[rows["video_indices"][:CONDITION_ROWS]] = condition_t
    t[rows["audio_indices"]] = audio_t
    return torch.unique(t, sorted=True, return_inverse=True)


def pipeline_layout():
    """What the pipeline packs for 7 text rows, 2 x 11 audio rows and 7 latent frames of 3 x 5 rows."""
    import torch
    from diffusers.modular_pipelines.minimax_h3.before_denoise import MiniMaxH3PrepareLayoutStep

    names = ("position_ids", "token_tags", "video_indices", "audio_indices", "text_indices")
    packed = MiniMaxH3PrepareLayoutStep.build_packed_sequence(
        text_token_tags=torch.ones(7, dtype=torch.long), num_latent_frames=7, latent_height=6, latent_width=10,
        num_audio_latents=11, patch_size=(1, 2, 2), audio_channels=2, audio_tag=2, video_tag=0)
    return {name: tensor.contiguous() for name, tensor in zip(names, packed)}


def build(config, seed):
    """The model and its reference tensors."""
    import torch
    from diffusers import MiniMaxH3Scheduler, MiniMaxH3Transformer3DModel

    torch.set_num_threads(1)  # the order of sums, so the bytes, do not depend on the machine's cores
    model = MiniMaxH3Transformer3DModel(**{k: v for k, v in config.items() if k != "shards"}).eval()
    fill(model, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    draw = lambda *shape: torch.randn(*shape, generator=generator)

    rows = layout()
    video_rows, audio_rows = rows["video_indices"].numel(), rows["audio_indices"].numel()
    video_dim = config["in_channels"] * 4
    tensors = dict(rows)
    tensors["timestep"], tensors["timestep_indices"] = row_timesteps(rows, 0.3, 0.65, 0.97)
    tensors["video"] = draw(2, video_rows, video_dim)
    tensors["audio"] = draw(2, audio_rows, config["audio_in_channels"])
    tensors["text"] = draw(2, TEXT_ROWS, config["text_dim"])
    forward = lambda video, audio, text, t, t_index: model(
        hidden_states=video, audio_hidden_states=audio, encoder_hidden_states=text, timestep=t,
        timestep_indices=t_index, return_dict=False, **rows)
    with torch.no_grad():
        tensors["video_velocity"], tensors["audio_velocity"] = forward(
            tensors["video"], tensors["audio"], tensors["text"], tensors["timestep"], tensors["timestep_indices"])

        # The loop: conditioning rows keep their value and their noise level, the others step down.
        video, audio, text = draw(video_rows, video_dim), draw(audio_rows, config["audio_in_channels"]), draw(
            1, TEXT_ROWS, config["text_dim"])
        tensors["loop.video_in"], tensors["loop.audio_in"], tensors["loop.text"] = video.clone(), audio.clone(), text
        schedules = [MiniMaxH3Scheduler(shift=12.0), MiniMaxH3Scheduler(shift=3.0)]
        for s in schedules:
            s.set_timesteps(LOOP_STEPS)
        tensors["loop.video_sigmas"], tensors["loop.audio_sigmas"] = schedules[0].sigmas, schedules[1].sigmas
        for tv, ta in zip(schedules[0].timesteps, schedules[1].timesteps):
            t, t_index = row_timesteps(rows, float(tv), float(ta), max(float(tv), 0.97))
            v, a = forward(video[None], audio[None], text, t, t_index)
            video[CONDITION_ROWS:] = schedules[0].step(v[0, CONDITION_ROWS:], tv, video[CONDITION_ROWS:])[0]
            audio = schedules[1].step(a[0], ta, audio)[0]
        tensors["loop.video_out"], tensors["loop.audio_out"] = video, audio
    return model, forward, tensors


def write(folder, config, seed):
    import diffusers
    import torch
    from safetensors.torch import save_file

    model, forward, tensors = build(config, seed)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors*"):
        old.unlink()
    model.save_pretrained(folder, max_shard_size=config.get("shards", "1GB"))
    mixed_precision(model)
    with torch.no_grad():
        tensors["bf16.video_velocity"], tensors["bf16.audio_velocity"] = forward(
            tensors["video"], tensors["audio"], tensors["text"], tensors["timestep"], tensors["timestep_indices"])
    tensors = {k: v.contiguous() for k, v in tensors.items()}
    save_file(tensors, folder / "reference.safetensors", metadata={
        "made_by": f"diffusers {diffusers.__version__}, torch {torch.__version__.split('+')[0]}", "seed": str(seed),
        "condition_rows": str(CONDITION_ROWS), "loop_steps": str(LOOP_STEPS), "condition_timestep": "0.97"})


def mixed_precision(model):
    """The model as a bf16 checkpoint of it is loaded: fp32 where the class keeps it, bf16 elsewhere."""
    import torch

    for name, p in model.named_parameters():
        if not any(kept in name for kept in model._keep_in_fp32_modules):
            p.data = p.data.to(torch.bfloat16)
    return model


def load_folder(folder):
    from safetensors.torch import load_file

    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        prefix = "reference:" if file.name == "reference.safetensors" else "weight:"
        found.update({prefix + k: v for k, v in load_file(file).items()})
    return found


def check(folder, names):
    """Makes the references again; weights and inputs must be equal, outputs within what fp32 sums may differ."""
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            write(pathlib.Path(scratch) / name, CONFIGS[name], SEED)
            old, new = load_folder(folder / name), load_folder(pathlib.Path(scratch) / name)
            if sorted(old) != sorted(new):
                print(f"{name}: tensors differ: {sorted(set(old) ^ set(new))}")
                bad += 1
                continue
            difference = {
                k: float((new[k].double() - old[k].double()).norm() / old[k].double().norm().clamp_min(1e-30)) for k in old}
            # What bf16 rounds away depends on the machine's kernels; it only sets a scale.
            worst = max((d, k) for k, d in difference.items() if "bf16." not in k)
            ok = worst[0] <= 1e-6 and all(d <= 0.05 for d in difference.values())
            bad += not ok
            print(f"{name}: {len(old)} tensors, largest relative L2 difference {worst[0]:.1e} ({worst[1]}):",
                  "same" if ok else "NOT the same")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="write DIR/NAME for each configuration")
    parser.add_argument("--check", type=pathlib.Path, metavar="DIR", help="compare DIR/NAME with newly made ones")
    parser.add_argument("--layout", type=pathlib.Path, metavar="FILE", help="write the pipeline's packed layout")
    parser.add_argument("--config", action="append", choices=sorted(CONFIGS), help="only this one (repeatable)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of weights and inputs (default {SEED})")
    parser.add_argument("--list", action="store_true", help="print the configurations and stop")
    args = parser.parse_args()
    names = args.config or list(CONFIGS)
    if args.list:
        for name in names:
            print(name, CONFIGS[name])
        return 0
    if sum(x is not None for x in (args.out, args.check, args.layout)) != 1:
        parser.error("one of --out, --check, --layout or --list is needed")
    try:
        import diffusers  # noqa: F401
        import safetensors.torch  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(f"make_references: {error.name} is missing; `tools/torch_setup --python` installs what is needed",
              file=sys.stderr)
        return 2
    if args.layout:
        safetensors.torch.save_file(pipeline_layout(), args.layout)
        return 0
    if args.check:
        return 1 if check(args.check, names) else 0
    for name in names:
        write(args.out / name, CONFIGS[name], args.seed)
        size = sum(f.stat().st_size for f in (args.out / name).iterdir())
        print(f"{args.out / name}: {size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
