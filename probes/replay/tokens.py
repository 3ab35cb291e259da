"""Recordings as token ids, with what evidence may say of them: shared by replay and scoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.replay.recordings import Recording, Recordings, read_recordings
from probes.replay.tokenizing import TargetTokenizer, load_tokenizer
from profiles.errors import InputError
from profiles.reading import file_key
from profiles.schema import MAX_TEMPERATURE, counted
from profiles.traffic import pooled
from profiles.workload import Lengths, Task


@dataclass(frozen=True)
class TokenRequest:
    """One recorded request in the target's tokens."""

    ids: tuple[int, ...]
    """Prompt and output."""
    prompt_tokens: int
    task: Task


@dataclass
class TokenRequests:
    """All usable requests in arrival order, and the facts of the record."""

    requests: list[TokenRequest]
    recordings: Recordings
    files: tuple[str, ...]
    models: tuple[str, ...]
    temperature: float | None
    notes: list[str]

    @property
    def tasks(self) -> list[Task]:
        return [r.task for r in self.requests]

    @property
    def alike(self) -> list[tuple[int, tuple[int, ...]]]:
        """For each request a key that copies of it share."""
        return [(r.prompt_tokens, r.ids) for r in self.requests]

    def summary(self) -> dict[str, Any]:
        """Fields of `RecordedAcceptance` that say what was read."""
        counts = {task: self.tasks.count(task) for task in dict.fromkeys(self.tasks)}
        return {
            "files": self.files, "requests": len(self.requests), "distinct": len(set(self.alike)),
            "skipped": dict(self.recordings.skipped),
            "skipped_lines": {reason: tuple(lines) for reason, lines in self.recordings.lines.items()},
            "tasks": {} if list(counts) == [Task.MIXED] else counts, "models": self.models,
            "temperature": self.temperature,
            "prompt_tokens": _lengths([r.prompt_tokens for r in self.requests]),
            "output_tokens": _lengths([len(r.ids) - r.prompt_tokens for r in self.requests]),
        }


def token_requests(paths: Sequence[Path], target: str | None, *, base: Path, task: Task | None = None,
                   limit: int | None = None, lenient: bool = False, offline: bool = False) -> TokenRequests:
    """The requests of all files in the target's tokens.

    Args:
        target: whose tokenizer cuts recorded texts; needed unless every record holds token ids.
        task: the family of records that name none.
        limit: at most so many requests, the first ones.

    Raises InputError: unreadable files, texts without a target, no request with two output tokens.
    """
    once: dict[object, Path] = {}
    for path in paths:
        once.setdefault(file_key(path), path)
    found = read_recordings(list(once.values()), lenient)
    if limit is not None:
        found.requests = found.requests[:limit]
    texts = any(_is_text(r) for r in found.requests)
    if texts and target is None:
        raise InputError("the records hold text, and whose tokens to count is not said: name the target with --target "
                         "(its folder, or its id on the hub)")
    tokenizer = load_tokenizer(target, base, offline) if texts and target is not None else TargetTokenizer(None)
    requests = []
    for recording in found.requests:
        try:
            ids, prompt = tokenizer.ids(recording)
        except ValueError as error:
            found.skip(str(error), recording.where)
            continue
        if prompt == 0:
            found.skip("the prompt is empty", recording.where)
        elif len(ids) - prompt < 2:
            # The first token comes with the prompt: one of them makes no decode step.
            found.skip("fewer than two output tokens", recording.where)
        else:
            requests.append(TokenRequest(tuple(ids), prompt, recording.task or task or Task.MIXED))
    if not requests:
        reasons = ", ".join(f"{reason} ({n})" for reason, n in found.skipped.items())
        raise InputError(f"no record of {', '.join(p.name for p in paths)} can be walked: {reasons}; expected outputs "
                         "of two tokens and more")
    temperatures = {r.temperature for r in found.requests}
    notes = sorted(tokenizer.notes)
    if len(once) < len(paths):
        notes.append(f"{counted(len(paths) - len(once), 'name')} led to a file that was named already: each is read "
                     "once")
    if len(temperatures - {None}) > 1:
        notes.append("the records were drawn at several temperatures: acceptance is that of the mix")
    odd = sum(r.odd_temperature for r in found.requests)
    if odd:
        notes.append(f"{counted(odd, 'temperature')} outside of 0 to {MAX_TEMPERATURE} not used; the requests count")
    models = Counter(r.model for r in found.requests if r.model)
    if len(models) > 1:
        notes.append(f"{pooled(models)}: acceptance is that of the mix; give the records of one model alone")
    different = len({(r.prompt_tokens, r.ids) for r in requests})
    if different < len(requests):
        notes.append(f"{len(requests)} records hold {different} distinct requests: intervals take all copies of one as "
                     "one observation")
    return TokenRequests(
        requests, found, tuple(p.name for p in once.values()),
        tuple(models),
        next(iter(temperatures)) if len(temperatures) == 1 else None, notes)


def _is_text(recording: Recording) -> bool:
    prompt = recording.prompt
    return isinstance(recording.output, str) or isinstance(prompt, str) or not isinstance(prompt[0], int)


def _lengths(counts: Sequence[int]) -> Lengths:
    import numpy as np

    p50, p90, p95, p99 = (float(v) for v in np.percentile(counts, [50, 90, 95, 99]))
    return Lengths(mean=sum(counts) / len(counts), p50=p50, p90=p90, p95=p95, p99=p99, max=max(counts))
