"""Replay on the engine's own terms: the same drafts as vLLM's proposers, the same acceptance as a live run."""

from __future__ import annotations

import random
import re
from types import SimpleNamespace

import numpy as np
import pytest

from probes.replay.compiled import loops
from probes.replay.estimate import curve
from probes.replay.ngram import Corpus, NgramIndex, windows
from probes.replay.suffix import replay_suffix
from probes.trial.engine_process import EngineProcess
from probes.trial.prompts import built_in_passages, load_prompts
from profiles.methods import full_settings
from profiles.workload import Task

pytestmark = pytest.mark.engine

CONVERSATIONS = 200
ROWS = 64
PROMPT_TASKS = (Task.CODE, Task.JSON_SQL)


def conversations():
    """Questions on the built-in passages, answered by copying sentences of them with words changed: words as tokens."""
    drawn = random.Random(5)
    prompts = [p.as_text() for p in load_prompts(None, (Task.CHAT, Task.CODE, Task.SUMMARIZATION))]
    passages = list(built_in_passages().values())
    words: dict[str, int] = {}

    def ids(text):
        return [words.setdefault(word, len(words) + 11) for word in re.findall(r"\w+|\W", text)]

    for number in range(CONVERSATIONS):
        passage = drawn.choice(passages)
        question = prompts[number % len(prompts)] + "\n\n" + passage[: drawn.randint(100, 1500)]
        sentences = [drawn.choice(passage.split(". ")) for _ in range(drawn.randint(1, 8))]
        answer = [token if drawn.random() > 0.05 else drawn.choice((3, 5, 7)) for s in sentences for token in ids(s)]
        yield ids(question), [*answer, 2, 3]


@pytest.fixture(scope="module")
def proposer(engine):
    def make(shortest, longest, k, max_model_len):
        from vllm.v1.spec_decode.ngram_proposer import NgramProposer

        return NgramProposer(SimpleNamespace(
            speculative_config=SimpleNamespace(prompt_lookup_min=shortest, prompt_lookup_max=longest,
                                               num_speculative_tokens=k),
            model_config=SimpleNamespace(max_model_len=max_model_len),
            scheduler_config=SimpleNamespace(max_num_seqs=ROWS),
            parallel_config=SimpleNamespace(tensor_parallel_size=1)))

    return make


def their_drafts(proposer, ids, places, k):
    """vLLM's draft for the context that ends at each place."""
    found = []
    for begin in range(0, len(places), ROWS):
        part = places[begin : begin + ROWS]
        lengths = np.array([place + 1 for place in part], dtype=np.int32)
        table = np.tile(np.array(ids, dtype=np.int32), (len(part), 1))
        found += proposer.propose(k, [[ids[place]] for place in part], lengths, table)
    return found


def test_drafts_equal_those_of_vllms_ngram_proposer_token_for_token(proposer):
    settings = [(w["prompt_lookup_min"], w["prompt_lookup_max"]) for w in windows(4)] + [(5, 5), (3, 7), (2, 9)]
    proposers = {setting: proposer(*setting, 6, 4096) for setting in settings}
    compared = with_draft = 0
    for number, (prompt, answer) in enumerate(conversations()):
        ids = prompt + answer
        index = NgramIndex(ids)
        places = list(range(len(prompt), len(ids) - 1))
        # Every setting meets every kind of conversation; all of them for each would compare the same again and again.
        for setting in (settings[number % len(settings)], settings[(number * 7 + 3) % len(settings)]):
            k = 1 + number % 6
            theirs = their_drafts(proposers[setting], ids, places, k)
            sources = index.sources(*setting, len(prompt))
            assert index.sources(*setting, len(prompt), loops()).tolist() == sources.tolist()
            ours = [ids[s : min(s + k, place + 1)] if s >= 0 else []
                    for s, place in zip(sources.tolist(), places, strict=False)]
            assert ours == theirs
            assert index.draft(places[0], *setting, k) == theirs[0]
            compared += len(theirs)
            with_draft += sum(bool(draft) for draft in theirs)
    assert number == CONVERSATIONS - 1
    assert compared > 10_000
    assert 0.2 < with_draft / compared < 0.95


def test_drafts_stop_where_vllms_do_at_the_end_of_the_context(proposer):
    ids = [1, 2, 3, 4] * 8
    theirs = proposer(2, 3, 5, 30)
    places = list(range(16, 29))
    index = NgramIndex(ids)
    assert their_drafts(theirs, ids, places, 5) == [index.draft(p, 2, 3, 5, max_model_len=30) for p in places]


def live_run(cpu_pair, config, running=3):
    """Requests of one block on the real engine with speculation, as the trial's child reports them."""
    arguments = {"model": str(cpu_pair.draft), "dtype": "bfloat16", "enforce_eager": True, "max_model_len": 1024,
                 "max_num_seqs": 4, "speculative_config": config}
    with EngineProcess(arguments, env={"VLLM_CPU_KVCACHE_SPACE": "1"}) as process:
        process.start()
        prompts = [{"messages": p.as_messages()} for p in load_prompts(None, PROMPT_TASKS)[:6]]
        ids = process.call("tokenize", prompts=prompts)["ids"]
        data = process.call("run_block", prompts=ids, running=running, k=None, max_tokens=96, ignore_eos=True,
                            temperature=0.0)
    requests = sorted(data["requests"], key=lambda r: r["place"])
    walked = [(ids[r["place"]] + r["ids"], r["prompt_tokens"]) for r in requests]
    return requests, walked


def live_length(requests):
    return 1.0 + sum(sum(r["accepted"]) for r in requests) / sum(r["steps"] for r in requests)


def test_ngram_acceptance_is_that_of_a_live_run_within_three_percent(cpu_pair):
    config = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    requests, walked = live_run(cpu_pair, config)
    tallies = Corpus.of(walked).replay(2, 4, [4])
    predicted = curve("ngram", None, {}, tallies, [Task.MIXED] * len(walked)).by_k[0].acceptance_length.value
    live = live_length(requests)
    print(f"ngram: predicted {predicted:.3f}, live {live:.3f}")
    assert live > 1.05
    assert predicted == pytest.approx(live, rel=0.03)
    # But for the last step, whose draft reaches past the record, the counts are the same ones.
    assert [int(n) for n in tallies[0].steps] == [r["steps"] for r in requests]


def test_suffix_acceptance_is_that_of_a_live_run_within_three_percent(cpu_pair):
    requests, walked = live_run(cpu_pair, {"method": "suffix", "num_speculative_tokens": 6})
    tallies = replay_suffix(walked, full_settings("suffix", {}), 6, running=3)
    predicted = curve("suffix", None, {}, [tallies], [Task.MIXED] * len(walked)).by_k[0].acceptance_length.value
    live = live_length(requests)
    print(f"suffix: predicted {predicted:.3f}, live {live:.3f}")
    assert live > 1.05
    assert predicted == pytest.approx(live, rel=0.03)
