"""Requests against one running server: streamed, timed at each chunk, bounded, and forgotten.

What an answer says is turned into a hash at once; lengths, times and the engine's own per-request counts are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from probes.trial.answers import Answer, BlockRun, Chunk
from probes.trial.prompts import Prompt
from profiles.errors import ProbeError
from profiles.workload import Sampling

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Kind = Literal["too_long", "no_template", "refused", "gone", "malformed", "silent", "out_of_time"]
_TOO_LONG = ("context length", "max_tokens", "too long", "max_model_len")
_LINE_BYTES = 8 * 2**20
"""No server sends a longer line on purpose."""


class RequestFailed(ProbeError):
    """A request that gave no usable answer. `kind` says what may be done about it.

    too_long: this prompt does not fit, others may. no_template: the model takes text only. out_of_time: the deadline
    given to the block passed. The rest are failures of the server or the way to it.
    """

    def __init__(self, kind: Kind, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        """Index of the prompt in its block."""


class EventLoop:
    """Runs coroutines from plain code. Whatever interrupts one (Ctrl-C too) cancels and awaits all it had started."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(work)
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            left = asyncio.all_tasks(self._loop)
            for one in left:
                one.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left))
            raise

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class LoadClient:
    """Sends blocks of prompts to one server's OpenAI endpoints."""

    def __init__(self, base_url: str, shown: str, model: str, *, token: str | None, timeout_s: float,
                 use_environment_proxy: bool) -> None:
        """`timeout_s` bounds each silence (connect, first token, between chunks); `shown` is the URL for errors."""
        self._base = base_url.rstrip("/")
        self._shown = shown
        self.model = model
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s
        self._proxy = use_environment_proxy
        self._client: httpx.AsyncClient | None = None
        self.text_only = False
        """Send the messages' text instead: the model has no chat template."""

    async def run(self, prompts: Sequence[Prompt], running: int, max_tokens: int, sampling: Sampling, seed: int,
                  salt: str | None, deadline_s: float) -> BlockRun:
        """Keep `running` of the prompts in flight until all are answered.

        `salt` keeps the prefix cache from answering for prompts that ran before. `deadline_s` is the most the block may
        take. Raises RequestFailed; the requests still in flight are then closed, which makes the server drop them.
        """
        begin = time.perf_counter()
        left = iter(enumerate(prompts))
        answers: list[Answer] = []

        async def work() -> None:
            for place, prompt in left:
                body = self._body(prompt, max_tokens, sampling, seed + place, salt)
                answers.append(await self._answer(place, prompt, body, begin))

        workers = [asyncio.ensure_future(work()) for _ in range(min(running, len(prompts)))]
        try:
            done, late = await asyncio.wait(workers, timeout=deadline_s, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
            if late:
                raise RequestFailed("out_of_time", f"{self._shown}: the block took longer than the {deadline_s:.0f} s "
                                    "that were left")
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        wall = time.perf_counter() - begin
        return BlockRun(wall, tuple(sorted(answers, key=lambda a: a.place)))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _http(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers, timeout=httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, 15.0)),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None), trust_env=self._proxy)
        return self._client

    def _chat(self, prompt: Prompt) -> bool:
        return prompt.messages is not None and not self.text_only

    def _body(self, prompt: Prompt, max_tokens: int, sampling: Sampling, seed: int, salt: str | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model, "max_tokens": max_tokens, "temperature": sampling.temperature, "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if self._chat(prompt):
            body["messages"] = prompt.as_messages()
        else:
            body["prompt"] = prompt.as_text()
        if sampling.temperature > 0:
            body.update(seed=seed, top_p=sampling.top_p)
            if sampling.top_k > 0:
                body["top_k"] = sampling.top_k
        if salt is not None:
            body["cache_salt"] = salt
        return body

    async def _answer(self, place: int, prompt: Prompt, body: dict[str, Any], begin: float) -> Answer:
        import httpx

        path = "/v1/chat/completions" if self._chat(prompt) else "/v1/completions"
        sent = time.perf_counter() - begin
        try:
            async with self._http().stream("POST", self._base + path, json=body) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise self._refusal(response, place, body)
                return await self._read(response, place, sent, begin)
        except httpx.TimeoutException:
            raise RequestFailed("silent", f"{self._shown} sent nothing for {self._timeout_s:g} s in the middle of a "
                                "request: check its load, or that it is not hanging", place) from None
        except httpx.ConnectError as error:
            cause = " ".join(str(error).split())[:100]
            raise RequestFailed("gone", f"{self._shown} does not accept connections ({cause}): check that the server "
                                "is still up", place) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise RequestFailed("gone", f"{self._shown} broke off in the middle of an answer ({type(error).__name__}): "
                                "check that the server is still up", place) from None

    async def _read(self, response: httpx.Response, place: int, sent: float, begin: float) -> Answer:
        digest = hashlib.sha256()
        chunks: list[Chunk] = []
        usage: dict[str, Any] = {}
        speculation: dict[str, Any] | None = None
        first = last = None
        done = False
        async for data in _events(response.aiter_bytes()):
            now = time.perf_counter() - begin
            if data == b"[DONE]":
                done = True
                continue
            event = self._event(data, place)
            usage = event.get("usage") or usage
            metrics = event.get("metrics")
            if isinstance(metrics, dict) and isinstance(metrics.get("speculative_decoding"), dict):
                speculation = metrics["speculative_decoding"]
            text, brought = _delta(event)
            digest.update(text.encode("utf-8", "surrogatepass"))
            if brought:
                first, last = first if first is not None else now, now
                if event.get("usage"):
                    chunks.append(Chunk(now, int(usage.get("completion_tokens") or 0), digest.digest()[:8]))
        count = usage.get("completion_tokens")
        if not done:
            raise RequestFailed("gone", f"{self._shown} closed the stream before its end: check that the server is "
                                "still up", place)
        if not isinstance(count, int) or first is None or last is None or count < 1:
            raise RequestFailed("malformed", f"{self._shown} ended a stream without any token or without `usage`: "
                                "expected the stream of a vLLM OpenAI server", place)
        return Answer(place, int(usage.get("prompt_tokens") or 0), count, sent, first, last,
                      tuple(chunks) or (Chunk(last, count, digest.digest()[:8]),), speculation)

    def _event(self, data: bytes, place: int) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise RequestFailed("malformed", f"{self._shown} sent a stream that is not JSON events: expected the "
                                "stream of a vLLM OpenAI server", place)
        if event.get("error") is not None:
            # The text of the error may quote the prompt, its type does not.
            kind = event["error"].get("type") if isinstance(event["error"], dict) else None
            raise RequestFailed("gone", f"{self._shown} ended a stream with an error of its own"
                                f"{f' ({kind})' if isinstance(kind, str) else ''}: read the server's log", place)
        return event

    def _refusal(self, response: httpx.Response, place: int, body: dict[str, Any]) -> RequestFailed:
        status = response.status_code
        text = response.text
        if status in (401, 403):
            return RequestFailed("refused", f"{self._shown} refuses access (HTTP {status}): put the key in an "
                                 "environment variable and name it with --token-env", place)
        lowered = text.lower()
        if status == 400 and "chat template" in lowered:
            return RequestFailed("no_template", f"{self._shown}: the model has no chat template", place)
        if status in (400, 413, 422) and any(sign in lowered for sign in _TOO_LONG):
            return RequestFailed("too_long", f"{self._shown}: prompt {place} and {body['max_tokens']} output tokens do "
                                 "not fit the server's max_model_len; use shorter prompts", place)
        hint = {404: "check that the model's name and the path are right", 429: "it limits requests: raise its limit",
                503: "check that the engine behind it is up"}.get(status, "read the server's log")
        return RequestFailed("refused", f"{self._shown} answers a request with HTTP {status}: {hint}", place)


async def _events(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`data:` lines of a server-sent-event stream. Cut at \\n only: U+2028 is a character of the text."""
    held = b""
    async for part in parts:
        *lines, held = (held + part).split(b"\n")
        if len(held) > _LINE_BYTES:
            yield b"(line too long)"
            return
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                yield line[5:].strip()


def _delta(event: dict[str, Any]) -> tuple[str, bool]:
    """Text of a chunk, and whether it brought tokens (a role announcement or the usage chunk brings none)."""
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "", False
    choice = choices[0]
    if "delta" in choice:
        delta = choice["delta"] if isinstance(choice["delta"], dict) else {}
        # `reasoning` and `reasoning_content` are what releases before and after 0.12 call a reasoning parser's part.
        text = "".join(str(delta[key]) for key in ("reasoning", "reasoning_content", "content") if delta.get(key))
        return text, bool(text) or (delta.get("role") is None and choice.get("finish_reason") is not None)
    text = str(choice.get("text") or "")
    return text, bool(text) or choice.get("finish_reason") is not None
