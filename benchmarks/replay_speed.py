"""How much faster the replay walks a conversation than vLLM's own n-gram proposer, in one run, on the same steps.

    python -m benchmarks.replay_speed [--tokens 8192] [--output-share 0.5] [--lookup 2-4] [--k 3] [--rounds 7]

Both give the same drafts for one conversation and one setting, at every step of the walk, and both are compiled by
numba and warmed up before. vLLM's proposer is called once a step, as its engine calls it; the replay builds its index
from nothing in every round and gives the tally of the whole conversation. The conversation is synthetic: sentences
drawn again and again from a small stock with a few words changed, so that part of the steps has a draft. Prints the
fastest and the median time of each, the ratios of both (other work on the machine disturbs the fastest least), and the
smallest ratio of a round. Needs the engine in this environment.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from probes.replay.compiled import loops
from probes.replay.ngram import Corpus
from probes.replay.walk import Ints


def conversation(tokens: int, seed: int = 0) -> list[int]:
    """Token ids of text that repeats itself about as much as code does."""
    drawn = random.Random(seed)
    stock = [[drawn.randrange(49_000) for _ in range(drawn.randint(6, 24))] for _ in range(tokens // 40)]
    ids: list[int] = []
    while len(ids) < tokens:
        sentence = [token if drawn.random() > 0.08 else drawn.randrange(49_000) for token in drawn.choice(stock)]
        ids += sentence
    return ids[:tokens]


def proposer(shortest: int, longest: int, k: int, max_model_len: int) -> Any:
    """vLLM's own, with the few settings it reads."""
    from vllm.v1.spec_decode.ngram_proposer import NgramProposer

    return NgramProposer(SimpleNamespace(
        speculative_config=SimpleNamespace(prompt_lookup_min=shortest, prompt_lookup_max=longest,
                                           num_speculative_tokens=k),
        model_config=SimpleNamespace(max_model_len=max_model_len), scheduler_config=SimpleNamespace(max_num_seqs=1),
        parallel_config=SimpleNamespace(tensor_parallel_size=1)))


def walk_with_vllm(theirs: Any, ids: Ints, prompt: int, k: int) -> tuple[int, int]:
    """(steps, accepted tokens) of the walk, every draft from vLLM's proposer."""
    table = ids.astype(np.int32)[None, :].copy()
    end, steps, accepted = len(ids) - 1, 0, 0
    at, recorded = prompt, ids.tolist()
    while at < end:
        (draft,) = theirs.propose(k, [[recorded[at]]], np.array([at + 1], dtype=np.int32), table)
        taken = 0
        while taken < len(draft) and at + 1 + taken <= end and draft[taken] == recorded[at + 1 + taken]:
            taken += 1
        steps, accepted, at = steps + 1, accepted + taken, at + taken + 1
    return steps, accepted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--output-share", type=float, default=0.5)
    parser.add_argument("--lookup", default="2-4")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    shortest, longest = (int(part) for part in options.lookup.split("-"))
    ids = np.array(conversation(options.tokens), dtype=np.int64)
    prompt = int(len(ids) * (1 - options.output_share))
    theirs = proposer(shortest, longest, options.k, len(ids) + 1)
    walk_with_vllm(theirs, ids[:256], 128, options.k)
    by = loops()
    Corpus.of([(ids[:256], 128)], by).replay(shortest, longest, [options.k])
    times: dict[str, list[float]] = {"vllm": [], "replay": []}
    for _ in range(options.rounds):
        begin = time.perf_counter()
        seen = walk_with_vllm(theirs, ids, prompt, options.k)
        middle = time.perf_counter()
        (tally,) = Corpus.of([(ids, prompt)], by).replay(shortest, longest, [options.k])
        times["replay"].append(time.perf_counter() - middle)
        times["vllm"].append(middle - begin)
        assert seen == (int(tally.steps[0]), int(tally.accepted[0].sum())), "the two disagree"
    ratios = [a / b for a, b in zip(times["vllm"], times["replay"], strict=True)]
    print(json.dumps({
        "tokens": len(ids), "output_tokens": len(ids) - prompt, "lookup": options.lookup, "k": options.k,
        "steps": seen[0], "accepted": seen[1],
        "vllm_ms": round(1e3 * statistics.median(times["vllm"]), 2),
        "replay_ms": round(1e3 * statistics.median(times["replay"]), 3),
        "vllm_fastest_ms": round(1e3 * min(times["vllm"]), 2),
        "replay_fastest_ms": round(1e3 * min(times["replay"]), 3),
        "ratio_of_fastest": round(min(times["vllm"]) / min(times["replay"]), 1),
        "ratio": round(statistics.median(times["vllm"]) / statistics.median(times["replay"]), 1),
        "smallest_ratio": round(min(ratios), 1)}))


if __name__ == "__main__":
    main()
