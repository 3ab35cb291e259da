"""The log of a vLLM server: access lines, request lines, throughput lines, SpecDecoding lines, and engine starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from probes.requests.clock import moment
from probes.requests.shapes import Found, Head, Note, RecordFormat, Row, Total, number
from probes.requests.speculation import speculation

_COLOUR = re.compile(r"\x1b\[[0-9;]*m|\[[0-9;]+m(?=[\s(])|\[0;0m")
_STAMP = re.compile(r"\b(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (?:\d{4}-)?(\d\d-\d\d \d\d:\d\d:\d\d)\b")
_WRAPPED_STAMP = re.compile(r"\b\d{4}-(\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
"""Of what passes a log on (containers, journals), where the engine writes no time of its own."""
_POST = re.compile(r'"POST (/v1/(?:chat/completions|completions|responses|messages)|/generate)[^"]*" (\d{3})')
_NUMBER, _COUNT = r"(\d{1,15}(?:\.\d{1,15})?)", r"(\d{1,15})"
_SPEED = re.compile(
    rf"(?:Engine (\d{{1,9}}): )?Avg prompt throughput: {_NUMBER} tokens/s, Avg generation throughput: {_NUMBER} "
    rf"tokens/s, Running: {_COUNT} reqs, (?:[A-Z]\w+: \d+ reqs, )*?(?:Waiting|Pending): {_COUNT} reqs"
    rf"(?:.*?KV cache usage: {_NUMBER}%)?(?:.*?Prefix cache hit rate: {_NUMBER}%)?")
_SPEC = re.compile(rf"SpecDecoding metrics: (.*?)Accepted: {_COUNT} tokens, Drafted: {_COUNT} tokens"
                   r"(?:, Per-position acceptance rate: ([\d., ]*\d))?")
_SPEC_LENGTH = re.compile(rf"Mean acceptance length: {_NUMBER}")
_SPEC_V0 = re.compile(rf"Speculative metrics: .*?Number of speculative tokens: {_COUNT}, Number of accepted tokens: "
                      rf"{_COUNT}, Number of draft tokens: {_COUNT}, Number of emitted tokens: {_COUNT}")
_INIT = re.compile(r"Initializing (?:a|an) (?:V1 )?LLM engine \(v?([^)\s]+)\) with config: (.*)")
_API = re.compile(r"vLLM API server version ([0-9][\w.+]*)")
_BANNER = re.compile(r"[▀▄█].*\bversion ([0-9][\w.+]*)")
_CONFIG_MODEL = re.compile(r"\bmodel='([^']+)'")
_SPEC_CONFIG = re.compile(r"speculative_config=(None|SpeculativeConfig\(.*?\)|\{.*?\})(?=, |$)")
_REQUEST = re.compile(r"Received request ([\w-]+):.*?SamplingParams\((.*?)\)"
                      r"(?:.*?prompt_token_ids: (\[[\d, ]*\]|None))?")
_TEMPERATURE = re.compile(rf"\btemperature={_NUMBER}")
_SIZES = {
    "kv_cache_tokens": re.compile(r"GPU KV cache size: (\d[\d,]{0,18}) tokens"),
    "model_loading_gib": re.compile(rf"[Mm]odel loading took {_NUMBER} Gi?B"),
    "available_kv_gib": re.compile(r"Available KV cache memory: (-?\d{1,15}(?:\.\d{1,15})?) GiB"),
    "max_concurrency": re.compile(rf"Maximum concurrency for [\d,]+ tokens per request: {_NUMBER}x"),
}
"""What an engine says of its memory at each start."""
_NO_SPECULATION = "extract_hidden_states"
INTERVAL_S = 10.0
"""Seconds between two throughput lines (vLLM's VLLM_LOG_STATS_INTERVAL)."""
_ONE_INTERVAL_S = 2.0
"""Seconds within which the engines of one server write what they did in an interval."""


@dataclass(frozen=True)
class Speed:
    """One throughput line, or those of all engines in one interval."""

    engine: int
    time: float | None
    prompt: float
    generated: float
    running: int
    waiting: int


@dataclass
class _Log:
    posts: int = 0
    failed: int = 0
    requests: int = 0
    starts: int = 0
    versions: dict[str, None] = field(default_factory=dict)
    models: dict[str, None] = field(default_factory=dict)
    configs: dict[str, None] = field(default_factory=dict)
    speeds: list[Speed] = field(default_factory=list)
    hits: float | None = None
    accepted: int = 0
    drafted: int = 0
    spec_lines: int = 0
    drafts_only: float = 0.0
    """Drafts of lines without rates by position."""
    without_drafts: bool = False
    """Whether some line leaves its drafts unknown."""
    ks: dict[int, list[float]] = field(default_factory=dict)
    """k to [drafts, drafts times acceptance at position 0, 1, ...]."""
    sums_v0: dict[str, int] | None = None
    sizes: dict[str, list[float]] = field(default_factory=dict)


def _seconds(line: str) -> float | None:
    if found := _STAMP.search(line):
        stamp = found[1]
    elif found := _WRAPPED_STAMP.search(line[:80]):
        stamp = f"{found[1]} {found[2]}"
    else:
        return None
    try:
        # The log has no year; a leap year lets 29 February be.
        return datetime.strptime(f"2024-{stamp}+0000", "%Y-%m-%d %H:%M:%S%z").timestamp()
    except ValueError:
        return None


def _line(log: _Log, line: str) -> Iterator[Found]:
    if (found := _SPEED.search(line)) is not None:
        log.speeds.append(
            Speed(int(found[1] or 0), _seconds(line), float(found[2]), float(found[3]), int(found[4]), int(found[5])))
        log.hits = float(found[7]) / 100 if found[7] else log.hits
    elif (found := _SPEC.search(line)) is not None:
        rates = [number(one) for one in (found[4] or "").split(",")]
        shares = [] if None in rates else [rate for rate in rates if rate is not None]
        length = _SPEC_LENGTH.search(found[1])
        _spec(log, int(found[2]), int(found[3]), shares, number(length[1]) if length else None)
    elif (found := _SPEC_V0.search(line)) is not None:
        # Running sums of an engine before V1, not of an interval: the last line holds all.
        log.sums_v0 = {"k": int(found[1]), "accepted_tokens": int(found[2]), "draft_tokens": int(found[3]),
                       "emitted_tokens": int(found[4])}
    elif (found := _POST.search(line)) is not None:
        log.posts += found[2].startswith("2")
        log.failed += not found[2].startswith("2")
    elif (found := _INIT.search(line)) is not None:
        log.starts += 1
        log.versions[found[1]] = None
        if model := _CONFIG_MODEL.search(found[2]):
            log.models[model[1]] = None
        if config := _SPEC_CONFIG.search(found[2]):
            log.configs[config[1]] = None
    elif (found := _API.search(line) or _BANNER.search(line)) is not None:
        log.versions[found[1]] = None
    elif " GiB" in line or " GB" in line or "KV cache size" in line or "Maximum concurrency" in line:
        for name, pattern in _SIZES.items():
            if (found := pattern.search(line)) is not None:
                log.sizes.setdefault(name, []).append(float(found[1].replace(",", "")))
    elif (found := _REQUEST.search(line)) is not None:
        log.requests += 1
        ids = found[3]
        heat = _TEMPERATURE.search(found[2])
        prompt = float(ids.count(",") + 1) if ids and ids not in ("None", "[]") else None
        yield Row(arrival=_seconds(line), prompt=prompt, temperature=float(heat[1]) if heat else None, id=found[1],
                  model=next(reversed(log.models), None))


def _spec(log: _Log, accepted: int, drafted: int, shares: list[float], length: float | None) -> None:
    log.spec_lines += 1
    log.accepted += accepted
    log.drafted += drafted
    k = len(shares)
    if not k:
        # The first releases with this line gave no rates by position, and their drafts follow from the length alone.
        log.drafts_only += min(accepted / (length - 1), drafted) if length is not None and length > 1 else 0.0
        log.without_drafts |= length is None or (length <= 1 and drafted > 0)
        return
    sums = log.ks.setdefault(k, [0.0] * (k + 1))
    drafts = drafted / k
    sums[0] += drafts
    for i, share in enumerate(shares, 1):
        sums[i] += drafts * share


def _speculation(log: _Log) -> dict[str, Any] | None:
    if not log.spec_lines:
        return None
    by_position = sum(sums[0] for sums in log.ks.values())
    width = max(log.ks, default=0)
    positions = [sum(sums[i] for k, sums in log.ks.items() if i <= k) for i in range(1, width + 1)]
    return speculation(
        drafts=None if log.without_drafts else by_position + log.drafts_only, draft_tokens=log.drafted,
        accepted_tokens=log.accepted, lines=log.spec_lines, k=sorted(log.ks),
        per_position=[round(one / by_position, 4) if by_position else 0.0 for one in positions])


def _engine(log: _Log) -> dict[str, Any]:
    together = _together(log)
    speeds = [one.generated for one in together]
    busy = [one.generated for one in together if one.running > 0]
    return {
        "versions": list(log.versions), "starts": log.starts, "throughput_lines": len(log.speeds),
        "running_max": max((one.running for one in together), default=None),
        "waiting_max": max((one.waiting for one in together), default=None),
        "generation_tokens_per_s": {"max": max(speeds), "mean_where_running": sum(busy) / len(busy) if busy else 0.0}
        if speeds else None,
        "prefix_cache_hit_rate_last": log.hits, "speculative_configs": list(log.configs),
        "speculation": _speculation(log), "speculation_v0": log.sums_v0, **log.sizes,
    }


def _steps(lines: list[Speed]) -> list[float]:
    """Seconds that each line stands for."""
    return [min(INTERVAL_S, later.time - now.time) if now.time is not None and later.time is not None
            and later.time > now.time else INTERVAL_S for now, later in pairwise(lines)] + [INTERVAL_S]


def _together(log: _Log) -> list[Speed]:
    """The lines of one interval as one: with data parallelism every engine that works writes its own."""
    groups: list[dict[int, Speed]] = []
    for one in log.speeds:
        last = groups[-1] if groups else {one.engine: one}
        begun = next(iter(last.values())).time
        apart = begun is not None and one.time is not None and not 0 <= one.time - begun <= _ONE_INTERVAL_S
        if one.engine in last or apart:
            groups.append({one.engine: one})
        else:
            last[one.engine] = one
    return [Speed(min(group), next(iter(group.values())).time, *(
        sum(getattr(one, what) for one in group.values()) for what in ("prompt", "generated", "running", "waiting")))
        for group in groups]


def _total(log: _Log) -> Total:
    together = _together(log)
    steps = _steps(together)
    duration = sum(steps) if together else None
    # The lines of a busy server only: an idle one says nothing of the load when it works.
    busy = sorted(one.running for one in together if one.running > 0)
    tokens = [sum(getattr(one, what) * step for one, step in zip(together, steps, strict=False))
              for what in ("prompt", "generated")]
    done = 0 if log.requests else log.posts
    notes = []
    if not log.requests and not done and not log.speeds and not log.spec_lines:
        notes.append("this server answered no request while it logged")
    engines = len({one.engine for one in log.speeds})
    if engines > 1:
        notes.append(f"{engines} engines (data parallelism) are in this log: their running requests and throughput are "
                     "added up")
    if log.starts > 1:
        versions = f" (releases {', '.join(log.versions)})" if len(log.versions) > 1 else ""
        notes.append(f"{log.starts} engine starts are in this log and are taken together{versions}")
    if len(log.configs) > 1:
        notes.append(f"{len(log.configs)} speculative configurations are in this log, and their counts are taken "
                     "together: cut it at the engine's starts to tell them apart")
    if any(_NO_SPECULATION in one for one in log.configs):
        notes.append("extract_hidden_states in its speculative_config is not speculation")
    return Total(
        requests=done, failed=log.failed, duration=duration,
        rate=log.posts / duration if duration and log.posts else None,
        prompt={"mean": tokens[0] / done} if done and tokens[0] else {},
        output={"mean": tokens[1] / done} if done and tokens[1] else {},
        concurrency={"mean": sum(busy) / len(busy), "p95": busy[min(len(busy) - 1, int(0.95 * len(busy)))],
                     "max": busy[-1]} if busy else {},
        concurrency_basis="running requests of the throughput lines in which any ran" if busy else "",
        lengths_note="lengths are throughput times time over the number of requests answered: means only",
        models=tuple(log.models), engine=_engine(log), notes=tuple(notes),
    )


def _read(lines: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    log = _Log()
    for _, line in lines:
        yield from _line(log, _COLOUR.sub("", line))
    yield _total(log)


_SURE = ("SpecDecoding metrics:", "Speculative metrics:", "Avg prompt throughput:", "vLLM API server version",
         "LLM engine (v", "Received request ")
_LIKELY = ("[core.py:", "[api_server.py:", "(APIServer pid=", "(EngineCore", "[utils.py:", "[metrics.py:", "vllm serve",
           "from vllm", "vllm/")


def _any_of(marks: tuple[str, ...]) -> Callable[[Head], bool]:
    return lambda head: head.container == "text" and any(mark in line for line in head.lines for mark in marks)


# --- access lines alone ----------------------------------------------------------------------------------------------
_ACCESS = re.compile(r'"(?:GET|POST|PUT|HEAD|DELETE|OPTIONS) (/[^ "?]*)[^"]*" (\d{3})')
_CLOCK = re.compile(r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]")
"""The time of the common log format, which proxies write."""


def _read_access(lines: Iterator[tuple[int, Any]]) -> Iterator[Found]:
    paths: dict[str, int] = {}
    failed = untimed = 0
    for _, line in lines:
        found = _ACCESS.search(line)
        if found is None or '"POST ' not in line:
            continue
        if found[2].startswith("2"):
            paths[found[1]] = paths.get(found[1], 0) + 1
            if when := _CLOCK.search(line):
                yield Row(arrival=moment(when[1]))
            else:
                untimed += 1
        else:
            failed += 1
    yield Total(requests=untimed, failed=failed)
    yield Note("access lines count requests (POST, answered 2xx) and hold neither tokens nor lengths: "
               + ", ".join(f"{path} {count}" for path, count in sorted(paths.items(), key=lambda p: -p[1])[:5]))


FORMATS = (
    # Logs of whole scripts may hold a benchmark's console too: what the server says is surer.
    RecordFormat(name="vllm_log", title="vLLM server log", recognises=_any_of(_SURE), read=_read, text=True, rank=24),
    RecordFormat(name="vllm_output", title="output of a vLLM server", recognises=_any_of(_LIKELY), read=_read,
                 text=True, rank=34),
    RecordFormat(name="access_log", title="access log", read=_read_access, text=True, rank=35,
                 recognises=lambda head: head.container == "text" and any(_ACCESS.search(one) for one in head.lines)),
)
