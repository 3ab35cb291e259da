"""One running server during a paired comparison: its counters at a moment, and whether anyone else is using it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from probes.server.reading import Scrape, read_metrics
from probes.server.scraping import Fetcher, server_address
from profiles.errors import InputError, ProbeError
from profiles.evidence import RequestAcceptance
from profiles.workload import Task

if TYPE_CHECKING:
    import httpx

    from probes.trial.answers import Answer

_SETTLE_S = 3.0
"""Counters are written when the server gets to it, shortly after the last byte of an answer."""


@dataclass(frozen=True)
class Moment:
    """Sums over all engines and models of a server: traffic to another model of it disturbs just as much."""

    running: float
    waiting: float
    finished: float
    generated: float
    drafts: float
    draft_tokens: float
    accepted: float
    per_position: tuple[float, ...]
    """Accepted tokens by position; empty where the server doesn't speculate."""

    @property
    def busy(self) -> float:
        return self.running + self.waiting

    def since(self, earlier: Moment) -> Moment:
        """Differences of the counters; gauges as they are now. ProbeError when one ran backwards (a restart)."""
        def less(now: float, before: float) -> float:
            if now < before:
                raise ProbeError("the server's counters ran backwards: it was restarted during the comparison; run "
                                 "again once it stays up")
            return now - before

        old = earlier.per_position or (0.0,) * len(self.per_position)
        return Moment(
            self.running, self.waiting, less(self.finished, earlier.finished), less(self.generated, earlier.generated),
            less(self.drafts, earlier.drafts), less(self.draft_tokens, earlier.draft_tokens),
            less(self.accepted, earlier.accepted),
            tuple(less(now, before) for now, before in zip(self.per_position, old, strict=False)))


def read_moment(page: Scrape) -> Moment:
    """What a page says, all engines and models together."""
    names = page.names

    def total(alternatives: tuple[str, ...]) -> float:
        return sum(series.value for series in page.named(alternatives))

    positions: dict[int, float] = {}
    for series in page.named(names.accepted_per_position):
        label = series.label("position")
        if label is not None and label.isdigit():
            positions[int(label)] = positions.get(int(label), 0.0) + series.value
    return Moment(total(names.running), total(names.waiting), total(names.finished), total(names.generation_total),
                  total(names.drafts), total(names.draft_tokens), total(names.accepted_tokens),
                  tuple(positions.get(i, 0.0) for i in range(max(positions, default=-1) + 1)))


class WatchedServer:
    """A running server: where it is, what its counters say, and whether it is idle."""

    def __init__(self, arm: str, url: str, token: str | None, timeout_s: float) -> None:
        """`arm` (baseline, speculative) is how messages name it. InputError for an address or key of no use."""
        self.arm = arm
        self.address = server_address(url)
        self._fetcher = Fetcher(token, {}, timeout_s)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s
        self._client: httpx.Client | None = None
        self.model = ""
        self.max_model_len: int | None = None

    @property
    def shown(self) -> str:
        """The base URL as it may be printed."""
        return self.address.display.removesuffix("/metrics")

    def moment(self) -> Moment:
        return read_moment(self._page())

    def _page(self) -> Scrape:
        """One metrics page over a kept connection: a comparison takes hundreds, and time between blocks is lost."""
        import httpx

        if self._client is None:
            self._client = httpx.Client(timeout=self._timeout_s, trust_env=not self.loopback, headers=self._headers)
        try:
            answer = self._client.get(self.address.metrics_url, headers={"Accept": "text/plain"})
        except httpx.HTTPError:
            answer = None
        if answer is None or answer.status_code != 200:
            # The patient way: follows redirects, and has a sentence for everything that can be wrong.
            return self._fetcher.page(self.address)
        return read_metrics(answer.text, self.address.display)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def version(self) -> str | None:
        return self._fetcher.version(self.address, "vllm")

    def kv_cache_tokens(self) -> int | None:
        """KV tokens the engine said it has room for."""
        page = self._page()
        for series in page.named(("cache_config_info",)):
            size = series.label("kv_cache_size_tokens")
            if size is not None and size.isdigit():
                return int(size)
        return None

    def find_model(self) -> None:
        """Ask /v1/models which model to name in requests. ProbeError with one sentence."""
        import httpx

        url = self.address.base_url.rstrip("/") + "/v1/models"
        try:
            with httpx.Client(timeout=self._timeout_s, trust_env=not self.loopback, headers=self._headers) as client:
                answer = client.get(url)
            if answer.status_code in (401, 403):
                raise ProbeError(f"{self.shown} refuses access (HTTP {answer.status_code}): put the key in an "
                                 "environment variable and name it with --token-env")
            models = answer.json()["data"] if answer.status_code == 200 else []
            own = next((m for m in models if not m.get("parent")), None)
            if own is None:
                raise ProbeError(f"{self.shown}/v1/models names no model (HTTP {answer.status_code}): expected a vLLM "
                                 "OpenAI server; check host, port and path")
            self.model = str(own["id"])
            length = own.get("max_model_len")
            self.max_model_len = length if isinstance(length, int) else None
        except httpx.HTTPError as error:
            raise ProbeError(f"{self.shown} cannot be reached ({type(error).__name__}): check host and port, and that "
                             "the server has started") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProbeError(f"{self.shown}/v1/models is not the answer of an OpenAI server: check host, port and "
                             "path") from None

    @property
    def loopback(self) -> bool:
        from urllib.parse import urlsplit

        return (urlsplit(self.address.base_url).hostname or "") in ("127.0.0.1", "localhost", "::1")

    def wait_idle(self, patience_s: float) -> Moment:
        """The counters, once nothing runs or waits. ProbeError when that doesn't happen in time."""
        end = time.monotonic() + patience_s
        while True:
            now = self.moment()
            if not now.busy:
                return now
            if time.monotonic() > end:
                raise ProbeError(f"the {self.arm} server {self.shown} has {now.busy:.0f} requests of others running or "
                                 "waiting: speed and acceptance would be theirs too; run again while it is idle")
            time.sleep(0.25)

    def after(self, before: Moment, ours: int) -> Moment:
        """Differences since `before`, as soon as they hold `ours` finished requests (or after a short while)."""
        end = time.monotonic() + _SETTLE_S
        while True:
            moved = self.moment().since(before)
            if (moved.finished >= ours and not moved.busy) or time.monotonic() > end:
                return moved
            time.sleep(0.1)


def check_roles(baseline: Moment, speculative: Moment, urls: tuple[str, str]) -> None:
    """InputError when the wrong server speculates."""
    if baseline.per_position or baseline.drafts:
        raise InputError(f"the baseline server {urls[0]} speculates itself: start it without a speculative config, or "
                         "swap --baseline-url and --speculative-url")
    if not speculative.per_position:
        raise InputError(f"the speculative server {urls[1]} shows no speculation counters: start it with a speculative "
                         "config and with its statistics on, or swap --baseline-url and --speculative-url")


def acceptance_of(answers: Iterable[Answer], moved: Moment, tasks: list[Task], k: int) -> tuple[RequestAcceptance, ...]:
    """Acceptance of a block: by request where the server tells, else one row for the whole block from its counters.

    A row from counters has steps of all its requests; intervals over such rows are over blocks.
    """
    answers = list(answers)
    if answers and all(a.speculation is not None for a in answers):
        return tuple(_of_request(a, tasks[a.place], k) for a in answers)
    tokens = sum(a.output_tokens for a in answers)
    task = tasks[0] if len(set(tasks)) == 1 else Task.MIXED
    accepted = tuple(round(v) for v in moved.per_position[:k])
    # The first token of an answer comes from the prefill, not from a decode step.
    steps = max(round(moved.drafts), tokens - len(answers) - round(moved.accepted))
    return (RequestAcceptance(
        task=task, prompt_tokens=sum(a.prompt_tokens for a in answers), output_tokens=tokens, steps=steps, k=k,
        drafted=_spread(round(moved.drafts), round(moved.draft_tokens), accepted), accepted=accepted),)


def _of_request(answer: Answer, task: Task, k: int) -> RequestAcceptance:
    told = answer.speculation or {}
    histogram = [int(v) for v in told.get("acceptance_histogram") or ()]
    accepted = tuple(sum(histogram[i + 1:]) for i in range(k))
    lengths = told.get("per_step_drafted")
    if isinstance(lengths, list):
        drafted = tuple(sum(int(n) > i for n in lengths) for i in range(k))
    else:
        drafted = _spread(int(told.get("num_spec_steps") or 0), int(told.get("num_draft_tokens") or 0), accepted)
    steps = max(drafted[0] if drafted else 0, answer.output_tokens - 1 - sum(accepted))
    return RequestAcceptance(task=task, prompt_tokens=answer.prompt_tokens, output_tokens=answer.output_tokens,
                             steps=steps, drafted=drafted, accepted=accepted, k=k)


def _spread(drafts: int, draft_tokens: int, accepted: tuple[int, ...]) -> tuple[int, ...]:
    """Drafts that reached each position. Exact when all have the same length; else the tokens beyond the first position
    are spread evenly over the others, never below what was accepted there, since the counters don't tell."""
    k = len(accepted)
    if k == 0:
        return ()
    later = max(draft_tokens - drafts, 0)
    rest = [later // (k - 1) + (i < later % (k - 1)) for i in range(k - 1)] if k > 1 else []
    return tuple(max(n, a) for n, a in zip([drafts, *(min(n, drafts) for n in rest)], accepted, strict=True))
