"""The evidence table: every number the advice rests on, with where it comes from, its interval and its sample size."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from advisor.record import AS_PAIRED, Record
from advisor.report.content import compared_words
from advisor.report.curves import Curve
from advisor.report.tables import Table
from advisor.report.wording import count, gib, number, percent, plain, span
from advisor.spoken_figures import source_said
from profiles.evidence import ArmEvidence, Evidence, GpuEvidence, ServerEvidence, TrialEvidence
from profiles.methods import full_settings, method
from profiles.recorded import AcceptanceCurve, RecordedAcceptance
from profiles.schema import Quantity
from profiles.traffic import RequestsEvidence

Row = tuple[str, str, str, str, str, str]
"""what, value, 80 % interval, n, source, where from."""


def evidence_table(record: Record, found: tuple[Curve, ...]) -> Table:
    """One row a number: the quantities behind the decision first, then each piece of evidence as it was collected."""
    rows: list[Row] = [*_behind_decision(record, found)]
    for evidence in record.evidence:
        rows += _one(evidence, record)
    columns = ("what", "value", "interval", "n", "source", "where from")
    return Table(
        columns, tuple((plain(r[0]), plain(r[1]), r[2], r[3], r[4], plain(r[5])) for r in rows), frozenset({1, 2, 3})
    )


def _row(what: str, q: Quantity, unit: str, where: str = "", from_trial: bool = False) -> Row:
    interval = "–" if q.low is None and q.high is None else span(q.low, q.high)
    return (
        what,
        f"{number(q.value)} {unit}".rstrip(),
        interval,
        "–" if q.n is None else count(q.n),
        source_said(q.source, from_trial),
        q.note or where,
    )


def _share(what: str, q: Quantity, where: str) -> Row:
    interval = "–" if q.low is None or q.high is None else f"{100 * q.low:.0f}–{100 * q.high:.0f} %"
    return (what, percent(q.value), interval, "–" if q.n is None else count(q.n), q.source.value, q.note or where)


def _behind_decision(record: Record, found: tuple[Curve, ...]) -> Iterator[Row]:
    decision = record.decision
    curve = found[0] if found else None
    cell = curve.headline if curve else None
    compared = compared_words(record)
    if decision.speedup is not None:
        yield (
            "speed-up decided on",
            f"{number(decision.speedup)}×",
            span(decision.speedup_low, decision.speedup_high),
            "–",
            source_said(decision.speedup_source, decision.speedup_from_trial),
            f"at {decision.running} running{f'; {compared}' if compared else ''}",
        )
    if cell is not None and curve is not None:
        name = f"{curve.label}, k={cell.k}, {cell.running} running"
        yield _row("acceptance length", cell.acceptance_length, "tokens", name)
        timed = next((f"; {note}" for note in cell.notes if note.startswith(AS_PAIRED)), "")
        yield _row("step time with speculation", cell.step_ms, "ms", name + timed, cell.from_trial)
        yield _row("step time without", cell.baseline_step_ms, "ms", f"{cell.running} running",
                   cell.from_trial)
        if cell.ttft_ms is not None:
            yield _row("time to first token", cell.ttft_ms, "ms", name, cell.from_trial)
    yield (
        "memory",
        "fits" if record.memory.fits else "does not fit" if record.memory.fits is False else "not known",
        "–",
        "–",
        record.memory.source.value,
        "weights, overhead and KV cache per GPU",
    )


def _one(evidence: Evidence, record: Record) -> list[Row]:
    rows: list[Row] = []
    if evidence.gpu is not None:
        rows += _gpu(evidence.gpu)
    if evidence.server is not None:
        rows += _server(evidence.server)
    if evidence.requests is not None:
        rows += _requests(evidence.requests)
    for recorded in (evidence.replay, evidence.scoring):
        if recorded is not None:
            rows += _recorded(recorded, record)
    if evidence.trial is not None:
        rows += _trial(evidence.trial, record)
    return rows


def _gpu(gpu: GpuEvidence) -> Iterator[Row]:
    for device in gpu.devices:
        where = f"NVML, device {device.index}" + (f", driver {gpu.driver}" if gpu.driver else "")
        total = "not said" if device.total_bytes is None else gib(device.total_bytes / 2**30)
        free = "" if device.free_bytes is None else f"; {gib(device.free_bytes / 2**30)} free"
        yield (f"GPU {device.name}", total, "–", "–", "measured", where + free)
        if device.utilization is not None:
            yield _share("time with a kernel running", device.utilization, where)


def _server(server: ServerEvidence) -> Iterator[Row]:
    where = f"/metrics over {number(server.window_s)} s"
    for what, q, unit in (
        ("requests running", server.running, ""),
        ("requests waiting", server.waiting, ""),
        ("requests per second", server.request_rate_rps, "1/s"),
        ("output tokens per second", server.generation_tokens_per_s, "1/s"),
        ("time to first token", server.ttft_ms, "ms"),
        ("time per output token", server.tpot_ms, "ms"),
    ):
        if q is not None:
            yield _row(what, q, unit, where)
    if server.kv_cache_usage is not None:
        yield _share("KV cache in use", server.kv_cache_usage, where)
    spec = server.speculation
    if spec is not None and spec.acceptance_length is not None:
        yield (
            "acceptance length on the server",
            number(spec.acceptance_length),
            "–",
            count(spec.drafts),
            "recorded",
            f"{where}; steps with a draft only, n counts drafts",
        )


def _requests(requests: RequestsEvidence) -> Iterator[Row]:
    n = count(requests.requests)
    if requests.arrival_rate_rps is not None:
        yield ("requests per second", number(requests.arrival_rate_rps), "–", n, "recorded", "request log")
    for what, lengths in (
        ("prompt tokens, mean", requests.prompt_tokens),
        ("output tokens, mean", requests.output_tokens),
    ):
        if lengths is not None:
            yield (what, number(lengths.mean), "–", n, "recorded", "request log")


def _recorded(found: RecordedAcceptance, record: Record) -> Iterator[Row]:
    """The longest acceptance of each method and draft; the settings behind it stay in the record."""
    best: dict[tuple[str, str | None], AcceptanceCurve] = {}
    for curve in found.curves:
        key = (curve.method, curve.draft)
        if curve.by_k and (
            key not in best or curve.by_k[-1].acceptance_length.value > best[key].by_k[-1].acceptance_length.value
        ):
            best[key] = curve
    bound = "; a lower bound, another model wrote these outputs" if found.lower_bound else ""
    for (name, draft), curve in best.items():
        point = curve.by_k[-1]
        what = f"acceptance length, {name}{f' {draft}' if draft else ''}, k={point.k}"
        said = ", ".join(f"{key}={value:g}" for key, value in sorted(curve.settings.items()))
        where = f"{found.tier} of {count(found.requests)} recorded requests{f' ({said})' if said else ''}{bound}"
        yield _row(what, point.acceptance_length.model_copy(update={"note": ""}), "tokens", where)
        if point.matched_share.value < 1.0:
            share = point.matched_share.model_copy(update={"note": ""})
            decided = _decided_share(found, curve, record)
            where = found.tier
            if decided is not None:
                share, where = share.model_copy(update={"value": decided, "low": None, "high": None}), (
                    f"{found.tier}, weighed by the workload's tasks")
            yield _share(f"steps that find a draft, {name}, k={point.k}", share, where)


def _decided_share(found: RecordedAcceptance, curve: AcceptanceCurve, record: Record) -> float | None:
    """The share of steps with a draft that the record decides by, where that comes from this curve and weighs its
    tasks; None where it does not."""
    settings = full_settings(curve.method, curve.settings)
    labels = {cell.label for cell in record.candidates if cell.candidate.method == curve.method
              and full_settings(curve.method, cell.candidate.settings) == settings}
    shares = [record.matched_shares[label] for label in labels
              if record.acceptance_tiers.get(label) == found.tier and label in record.matched_shares]
    return shares[0] if len(shares) == 1 and curve.by_task else None


def _trial(trial: TrialEvidence, record: Record) -> Iterator[Row]:
    where = f"trial on {trial.hardware}"
    prompts = ", ".join(f"{task.value} {n}" for task, n in trial.prompts.by_task.items())
    yield (
        "prompts run",
        count(trial.prompts.count),
        "–",
        "–",
        "measured",
        trial.prompts.source + (f": {prompts}" if prompts else ""),
    )
    for arm in trial.arms:
        steps = sum(len(sample.step_ms) for sample in arm.steps)
        said = arm.error or f"{trial.engine} {trial.engine_version or ''}".strip()
        yield (
            "arm without speculation" if arm.candidate.method == "none" else f"arm {arm.candidate.label}",
            arm.status.value.replace("_", " "),
            "–",
            count(steps) if steps else "–",
            "measured",
            f"{number(arm.engine_s)} engine seconds; {said}" + ("; n counts timed steps" if steps else ""),
        )
        yield from _accepted(arm, record)
    pairs = trial.comparison.pairs if trial.comparison else ()
    if trial.comparison is not None and pairs:
        ratios = [pair.speedup for pair in pairs]
        c = trial.comparison
        prompt = trial.prompts.mean_prompt_tokens
        lengths = f"{'' if prompt is None else f'{prompt:.0f} prompt and '}{trial.max_tokens}"
        spread = "" if c.within_run_spread is None else f"; spread within a start {percent(c.within_run_spread)}"
        spread += "" if c.between_run_spread is None else f", between starts {percent(c.between_run_spread)}"
        yield (
            f"paired blocks, {c.candidate.label}, k={c.k}",
            f"{number(statistics.median(ratios))}×",
            span(min(ratios), max(ratios)),
            count(len(pairs)),
            "measured",
            f"median, least to most, at {lengths} output tokens; {c.mode.replace('_', ' ')}, {c.running} running; "
            f"{c.stopped}{spread}",
        )
    budget = "" if trial.budget_s is None else f" of a budget of {number(trial.budget_s)} s"
    yield (
        "engine seconds of the trial",
        f"{number(trial.engine_s)} s",
        "–",
        "–",
        "measured",
        f"{where}{budget}; {trial.stopped}",
    )


def _accepted(arm: ArmEvidence, record: Record) -> Iterator[Row]:
    """How often an arm found a draft and how far its first token was accepted: the figures that the record decides by,
    which weigh the tasks as the workload does; the bare counts where it decides by none of this arm's."""
    label = arm.candidate.label
    drafts = sum(request.drafted[0] for request in arm.requests if request.drafted)
    made = sum(request.steps for request in arm.requests)
    if not made:
        return
    always, requests = method(arm.candidate.method).always_drafts, f"{count(len(arm.requests))} requests"
    found = drafts / made
    first = sum(request.accepted[0] for request in arm.requests if request.accepted) / max(1, drafts)
    positions = record.per_position.get(label)
    if record.acceptance_tiers.get(label) == "trial" and positions:
        found = 1.0 if always else record.matched_shares.get(label, found)
        first = min(1.0, positions[0].value / found) if found > 0 else 0.0
        requests += ", weighed by the workload's tasks"
    if not always:
        yield (f"steps that find a draft, {label}", percent(found), "–", count(made), "measured",
               f"{requests}; n counts steps")
    if drafts:
        what = "first position accepted" if always else "first token accepted in steps that find a draft"
        yield (f"{what}, {label}", percent(first), "–", count(drafts), "measured", f"{requests}; n counts drafts")
