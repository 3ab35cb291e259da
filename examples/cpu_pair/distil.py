"""Teach a truncated draft to say what its teacher says, on text that the teacher writes.

`python -m examples.cpu_pair.distil --out DIR`: the teacher answers prompts (greedily, on the real
engine), then the draft's own layers are trained on the answers by cross-entropy. The embeddings
stay as they are, so that draft and target keep sharing them.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import click

from examples.cpu_pair.folders import PairError, demand_packages, describe, is_whole, staged
from examples.cpu_pair.prompts import shuffled

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

NEEDS = ("torch", "transformers", "safetensors", "vllm")

GENERATE_MINUTES = 6.0
TRAIN_MINUTES = 9.0

ENGINE_BATCH = 48
ANSWER_TOKENS = 256
BATCH_TOKENS = 2048
LEARNING_RATE = 1.5e-3
HELD_OUT_SHARE = 0.05
# Beside the tokens that the text uses, each step contrasts with this many of the others, drawn
# anew: on a CPU the softmax over all 49,152 would take most of the training time.
CONTRAST_TOKENS = 4096


@dataclass(frozen=True)
class Answer:
    """One prompt and what the teacher answered, as token ids."""

    prompt: list[int]
    output: list[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.output)


def write_answers(teacher: Path, destination: Path, minutes: float, seed: int) -> int:
    """Let the teacher answer prompts until the time is over; returns the tokens written.

    Meant for a process of its own: the engine binds the threads of the process that it runs in,
    and would slow the training that follows.
    """
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    from vllm import LLM, SamplingParams

    engine = LLM(
        str(teacher),
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=1024,
        max_num_seqs=ENGINE_BATCH,
        seed=seed,
    )
    greedy = SamplingParams(temperature=0, max_tokens=ANSWER_TOKENS)
    prompts = shuffled(seed)
    written = 0
    started = time.monotonic()
    partial = destination.with_suffix(".part")
    with partial.open("w", encoding="utf-8") as lines:
        # Two engine batches a call, so that short answers make room for the next ones.
        for begin in range(0, len(prompts), 2 * ENGINE_BATCH):
            chunk = prompts[begin : begin + 2 * ENGINE_BATCH]
            results = engine.chat(
                [[{"role": "user", "content": prompt}] for prompt in chunk],
                greedy,
                use_tqdm=False,
            )
            for result in results:
                output = list(result.outputs[0].token_ids)
                written += len(output)
                answer = {"prompt": list(result.prompt_token_ids or ()), "output": output}
                lines.write(json.dumps(answer) + "\n")
            seconds = time.monotonic() - started
            click.echo(
                f"  {begin + len(chunk)} of {len(prompts)} prompts, {written} tokens, {written / seconds:.0f} tokens/s",
                err=True,
            )
            if seconds > minutes * 60:
                break
    partial.rename(destination)
    return written


def read_answers(path: Path) -> list[Answer]:
    with path.open(encoding="utf-8") as lines:
        return [Answer(**json.loads(line)) for line in lines]


def in_batches(answers: Sequence[Answer], tokens: int) -> list[list[Answer]]:
    """Answers of like length together, so that little of a batch is padding."""
    batches: list[list[Answer]] = []
    for answer in sorted(answers, key=len):
        # The newest answer is the longest: it sets the width of the padded batch.
        if batches and (len(batches[-1]) + 1) * len(answer) <= tokens:
            batches[-1].append(answer)
        else:
            batches.append([answer])
    return batches


def padded(batch: Sequence[Answer]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, and for each position the next token if the teacher chose it, else -100.

    Padding stands on the right, where a causal model's earlier positions never see it.
    """
    import torch

    width = max(len(answer) for answer in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    labels = torch.full((len(batch), width), -100, dtype=torch.long)
    for row, answer in enumerate(batch):
        ids[row, : len(answer)] = torch.tensor(answer.prompt + answer.output)
        first = len(answer.prompt) - 1
        labels[row, first : len(answer) - 1] = torch.tensor(answer.output)
    return ids, labels


def agreement(model: PreTrainedModel, answers: Sequence[Answer]) -> float:
    """Share of the teacher's tokens that are the draft's first choice, given the text before."""
    import torch

    right = total = 0
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for batch in in_batches(answers, BATCH_TOKENS):
            ids, labels = padded(batch)
            chosen = labels >= 0
            hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
            logits = model.get_output_embeddings()(hidden[chosen])
            right += int((logits.argmax(-1) == labels[chosen]).sum())
            total += int(chosen.sum())
    return right / max(total, 1)


def train(
    model: PreTrainedModel,
    answers: Sequence[Answer],
    held_out: Sequence[Answer],
    minutes: float,
    seed: int,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Train everything but the embeddings until the time is over; returns the tokens seen."""
    import torch

    torch.manual_seed(seed)
    order = random.Random(seed)
    head = model.get_output_embeddings().weight
    head.requires_grad_(False)
    model.get_input_embeddings().weight.requires_grad_(False)
    own = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(own, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.01)
    used = torch.tensor(sorted({token for answer in answers for token in answer.output}))
    place = torch.full((head.shape[0],), -1)
    place[used] = torch.arange(len(used))
    others = torch.nonzero(place < 0).flatten()
    head_used = head[used]

    seen = step = 0
    started = clock()
    report_at = 60.0
    while True:
        # Shuffled first: answers of one length change places, so that batches differ by the round.
        batches = in_batches(order.sample(list(answers), len(answers)), BATCH_TOKENS)
        order.shuffle(batches)
        for batch in batches:
            share = (clock() - started) / (minutes * 60)
            if share >= 1:
                return seen
            rate = min(1.0, (step + 1) / 20) * (0.05 + 0.475 * (1 + math.cos(math.pi * share)))
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * rate
            ids, labels = padded(batch)
            chosen = labels >= 0
            drawn = others[torch.randint(len(others), (CONTRAST_TOKENS,))]
            model.train()
            with torch.autocast("cpu", torch.bfloat16):
                hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
                logits = hidden[chosen] @ torch.cat([head_used, head[drawn]]).T
            loss = torch.nn.functional.cross_entropy(logits.float(), place[labels[chosen]])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(own, 1.0)
            optimizer.step()
            seen += sum(len(answer) for answer in batch)
            step += 1
            seconds = clock() - started
            if seconds > report_at:
                report_at += 60
                click.echo(
                    f"  {seconds / 60:.0f} min, step {step}, {seen / seconds:.0f} tokens/s, "
                    f"loss {loss.item():.2f}, agreement {agreement(model, held_out):.3f}",
                    err=True,
                )


def distil(
    teacher: Path,
    truncated: Path,
    final: Path,
    generate_minutes: float = GENERATE_MINUTES,
    train_minutes: float = TRAIN_MINUTES,
    seed: int = 0,
) -> None:
    """Make the folder `final`: the draft in `truncated`, taught on what `teacher` writes."""
    if is_whole(final):
        click.echo(f"{describe(final)} (already there)", err=True)
        return
    for needed in (teacher, truncated):
        if not is_whole(needed):
            raise PairError(f"{needed} is missing or not whole: run examples.cpu_pair.prepare")
    demand_packages(*NEEDS)
    text = final.parent / f"text-by-{teacher.name}.jsonl"
    if not text.is_file():
        click.echo(f"{teacher.name} writes for {generate_minutes:g} minutes ...", err=True)
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
                apart.submit(write_answers, teacher, text, generate_minutes, seed).result()
        except BrokenProcessPool as error:
            raise PairError(f"the engine ended before {teacher.name} had written: is there memory for it?") from error
    answers = read_answers(text)

    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM

    kept_back = max(1, round(len(answers) * HELD_OUT_SHARE))
    held_out, known = answers[:kept_back], answers[kept_back:]
    model = AutoModelForCausalLM.from_pretrained(truncated, dtype=torch.float32)
    before = agreement(model, held_out)
    click.echo(f"training for {train_minutes:g} minutes on {len(known)} answers ...", err=True)
    seen = train(model, known, held_out, train_minutes, seed)
    after = agreement(model, held_out)
    with staged(final, like=truncated) as folder:
        model.to(torch.bfloat16).save_pretrained(folder)
    click.echo(
        f"{describe(final)}: greedy agreement {before:.3f} -> {after:.3f} on {kept_back} unseen "
        f"answers, after {seen} tokens of training"
    )


@click.command(help=__doc__)
@click.option(
    "--out",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder with the teacher and the truncated draft; the distilled draft goes there too.",
)
@click.option("--teacher", default="smollm2-135m", show_default=True, help="The model that writes: a folder in --out.")
@click.option(
    "--truncated", default="draft-truncated", show_default=True, help="The draft to teach: a folder in --out."
)
@click.option("--name", default="draft-distilled", show_default=True, help="The folder in --out to make.")
@click.option(
    "--generate-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=GENERATE_MINUTES,
    show_default=True,
    help="Time for the teacher to write. Text that is there already is used again.",
)
@click.option(
    "--train-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=TRAIN_MINUTES,
    show_default=True,
    help="Time to train the draft.",
)
@click.option("--seed", default=0, show_default=True, help="Order of prompts and batches, and the tokens contrasted.")
def main(
    out: Path,
    teacher: str,
    truncated: str,
    name: str,
    generate_minutes: float,
    train_minutes: float,
    seed: int,
) -> None:
    try:
        distil(out / teacher, out / truncated, out / name, generate_minutes, train_minutes, seed)
    except PairError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write the draft: {error}") from error


if __name__ == "__main__":
    main()
