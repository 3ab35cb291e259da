"""Scoring on real models: the acceptance of a live run, by both backends, and a lower bound where it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.replay.recordings import Recordings
from probes.replay.tokens import TokenRequest, TokenRequests
from probes.scoring import Plan, SampledAs, probe_scoring
from probes.trial.engine_process import EngineProcess
from probes.trial.prompts import load_prompts
from profiles.workload import Task

pytestmark = pytest.mark.engine

K = 3
ARGUMENTS = {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 512, "max_num_seqs": 4}


def token_requests(walked):
    requests = [TokenRequest(tuple(ids), prompt, Task.MIXED) for ids, prompt in walked]
    return TokenRequests(requests, Recordings(), ("live",), (), 0.0, [])


@pytest.fixture(scope="module")
def live(cpu_pair):
    """One block of the target with its draft: (per-request counts, [(prompt and output ids, prompt tokens)])."""
    config = {"method": "draft_model", "model": str(cpu_pair.draft), "num_speculative_tokens": K}
    arguments = {"model": str(cpu_pair.smaller_target), "speculative_config": config, **ARGUMENTS}
    with EngineProcess(arguments, env={"VLLM_CPU_KVCACHE_SPACE": "1"}) as process:
        process.start()
        prompts = [{"messages": p.as_messages()} for p in load_prompts(None, (Task.CODE, Task.CREATIVE))[:4]]
        ids = process.call("tokenize", prompts=prompts)["ids"]
        data = process.call("run_block", prompts=ids, running=4, k=None, max_tokens=40, ignore_eos=True,
                            temperature=0.0)
    requests = sorted(data["requests"], key=lambda r: r["place"])
    return requests, [(ids[r["place"]] + r["ids"], r["prompt_tokens"]) for r in requests]


def plan(cpu_pair, backend, **more):
    target, draft = Path(cpu_pair.smaller_target), Path(cpu_pair.draft)
    return Plan((draft.name,), {target.name: str(target), draft.name: str(draft)}, target.name, backend, most=K,
                arguments={"dtype": "bfloat16"}, **more)


def live_length(requests):
    return 1.0 + sum(sum(r["accepted"]) for r in requests) / sum(r["steps"] for r in requests)


@pytest.mark.parametrize("backend", ["vllm", "transformers"])
def test_scored_acceptance_is_that_of_a_live_run_within_five_percent(cpu_pair, live, backend):
    requests, walked = live
    found = probe_scoring(token_requests(walked), plan(cpu_pair, backend, check_target=False))
    predicted, measured = found.curves[0].by_k[K - 1].acceptance_length.value, live_length(requests)
    print(f"{backend}: scored {predicted:.3f}, live {measured:.3f}")
    assert 1.2 < measured < K + 1
    assert predicted == pytest.approx(measured, rel=0.05)


def test_the_target_knows_its_own_outputs_and_those_of_another_model(cpu_pair, live):
    _, walked = live
    own = probe_scoring(token_requests(walked[:2]), plan(cpu_pair, "transformers"))
    # The same outputs with every third token changed: nobody's greedy text.
    foreign = [([*ids[:prompt], *(t if i % 3 else 28 for i, t in enumerate(ids[prompt:]))], prompt)
               for ids, prompt in walked[:2]]
    other = probe_scoring(token_requests(foreign), plan(cpu_pair, "transformers"))
    assert (own.of_target, own.lower_bound) == (True, False)
    assert (other.of_target, other.lower_bound) == (False, True)
    assert other.curves[0].by_k[-1].acceptance_length.value < own.curves[0].by_k[-1].acceptance_length.value


def test_regenerated_outputs_are_the_targets_own(cpu_pair, live):
    _, walked = live
    cut = [(ids[: prompt + 12], prompt) for ids, prompt in walked[:2]]
    foreign = [([*ids[:prompt], *[28] * 12], prompt) for ids, prompt in cut]
    anew = probe_scoring(token_requests(foreign), plan(cpu_pair, "transformers", regenerate=True))
    same = probe_scoring(token_requests(cut), plan(cpu_pair, "transformers", check_target=False))
    assert anew.of_target is True
    assert anew.curves[0].by_k[0].acceptance_length.value == pytest.approx(
        same.curves[0].by_k[0].acceptance_length.value, rel=0.25)


def test_a_sampling_target_gives_probabilities_that_both_backends_agree_on(cpu_pair, live):
    _, walked = live
    short = [(ids[: prompt + 16], prompt) for ids, prompt in walked[:2]]
    lengths = [probe_scoring(token_requests(short), plan(cpu_pair, backend, sampled=SampledAs(0.7))).curves[0].by_k[0]
               .acceptance_length.value for backend in ("vllm", "transformers")]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.05)
    assert 1.0 < lengths[0] < 2.0
