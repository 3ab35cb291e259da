"""A trial's evidence as text: what ran, what was accepted, what a step costs, how the pairs came out."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from advisor.cli.trial_progress import clock
from advisor.spoken_figures import drafts_found, resume_said
from profiles.deployment import spoken
from profiles.evidence import ArmEvidence, ArmStatus, PairedComparison, TrialEvidence
from profiles.methods import method


def trial_text(trial: TrialEvidence) -> str:
    """Plain lines, widest about 110 characters."""
    return "\n".join(_lines(trial)) + "\n"


def _lines(trial: TrialEvidence) -> Iterator[str]:
    version = f" {trial.engine_version}" if trial.engine_version else ""
    yield f"Trial of {trial.target} on {trial.engine}{version}, {trial.hardware}"
    tasks = ", ".join(f"{count} {task.value}" for task, count in trial.prompts.by_task.items())
    yield (f"{trial.prompts.count} prompts ({trial.prompts.source}: {tasks}), {trial.max_tokens} output tokens, "
           f"temperature {trial.temperature:g}; {clock(trial.engine_s)} of engine time; {trial.stopped}")
    if resume := resume_said(trial):
        yield resume
    if trial.repairs:
        yield f"Repairs applied to the engine under trial: {', '.join(trial.repairs)}"
    for arm in trial.arms:
        yield ""
        yield from _arm(arm)
    if trial.comparison is not None:
        yield ""
        yield from _comparison(trial.comparison)
    for finding in trial.implausible:
        yield ""
        yield f"{finding.severity.upper()} {spoken(finding.arm)}: {finding.message}"


def _arm(arm: ArmEvidence) -> Iterator[str]:
    start = f", started in {arm.start_s:.0f} s" if arm.start_s is not None else ""
    status = "" if arm.status is ArmStatus.DONE else f" - {arm.status.value.replace('_', ' ')}"
    yield f"{spoken(arm.candidate.label)}{status}{start}" + (f": {arm.error}" if arm.error else "")
    steps = sum(request.steps for request in arm.requests)
    if steps:
        width = max(len(request.drafted) for request in arm.requests)
        drafted = [sum(r.drafted[i] for r in arm.requests if i < len(r.drafted)) for i in range(width)]
        accepted = [sum(r.accepted[i] for r in arm.requests if i < len(r.accepted)) for i in range(width)]
        shares = "  ".join(f"{a / d:.2f}" if d else "-" for a, d in zip(accepted, drafted, strict=True))
        drafts = drafted[0] if drafted else 0
        if not method(arm.candidate.method).always_drafts:
            yield f"  {drafts_found(drafts / steps, accepted[0] / steps if accepted else 0.0)}"
        yield f"  accepted by position: {shares}  (of {drafts} drafts, {len(arm.requests)} requests)"
    cells: dict[tuple[int, int], list[float]] = {}
    draft_ms: dict[tuple[int, int], list[float]] = {}
    for sample in arm.steps:
        if sample.context_tokens < _LONG_CONTEXT:
            cells.setdefault((sample.running, sample.k), []).extend(sample.step_ms)
            draft_ms.setdefault((sample.running, sample.k), []).extend(sample.draft_ms)
    timed = sorted(cell for cell, values in cells.items() if len(values) >= _FEWEST_STEPS)
    for running in sorted({running for running, _ in timed}):
        parts = []
        for _, k in (cell for cell in timed if cell[0] == running):
            share = f" (draft {statistics.median(draft_ms[running, k]):.0f})" if k and draft_ms[running, k] else ""
            parts.append(f"k={k} {statistics.median(cells[running, k]):.0f}{share}" if arm.requests or k
                         else f"{statistics.median(cells[running, k]):.0f}")
        yield f"  step at {running} running, ms: {'   '.join(parts)}"


_LONG_CONTEXT = 512
_FEWEST_STEPS = 3


def _comparison(found: PairedComparison) -> Iterator[str]:
    yield (f"{found.candidate.label} at k={found.k} against no speculation, {found.running} running, "
           f"{found.mode.replace('_', ' ')}")
    if found.pairs:
        speedups = [pair.speedup for pair in found.pairs]
        yield f"  speed-up by pair: {'  '.join(f'{s:.2f}' for s in speedups)}  (mean {statistics.fmean(speedups):.2f})"
    spreads = [f"{name} {100 * value:.1f} %" for name, value in
               (("within a start", found.within_run_spread), ("between starts", found.between_run_spread))
               if value is not None]
    if spreads:
        yield f"  spread: {', '.join(spreads)}"
    yield f"  {found.stopped or 'not finished'}"
