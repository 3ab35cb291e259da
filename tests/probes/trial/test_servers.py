"""Two servers compared, against synthetic ones on loopback: what is measured, and what comes of what goes wrong."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from probes.trial import server_counters, servers
from probes.trial.load_client import EventLoop, LoadClient
from probes.trial.prompts import Message, Prompt
from probes.trial.servers import compare_servers
from profiles.deployment import Candidate
from profiles.errors import InputError, ProbeError
from profiles.evidence import ArmStatus, PairedBlock, TrialEvidence
from profiles.workload import Sampling, Task
from tests.probes.trial.synthetic_server import SyntheticServer

DRAFT = Candidate(method="draft_model", draft="tiny", k=(3,))
NGRAM = Candidate(method="ngram", k=(3,))


class Told:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []

    def update(self, stage: str, done_s: float, left_s: float) -> None:
        assert done_s >= 0
        assert left_s >= 0
        self.stages.append(stage)

    def note(self, text: str) -> None:
        self.notes.append(text)


def prompts(count: int = 12, chat: bool = True) -> list[Prompt]:
    texts = [f"prompt number {i} about secret-{i}" for i in range(count)]
    return [Prompt(Task.CODE, f"p{i}", messages=(Message("user", t),)) if chat else Prompt(Task.CODE, f"p{i}", text=t)
            for i, t in enumerate(texts)]


def after(pairs: int) -> Callable[[Sequence[PairedBlock]], str | None]:
    return lambda seen: "enough" if len(seen) >= pairs else None


def compared(baseline: SyntheticServer, speculative: SyntheticServer, **changes: Any) -> TrialEvidence:
    options: dict[str, Any] = {"prompts": prompts(), "running": 2, "stop": after(2), "max_tokens": 12,
                               "budget_s": 300.0, "progress": Told(), "candidate": DRAFT, "timeout_s": 60.0, **changes}
    return compare_servers(baseline.url, speculative.url, **options)


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_IDLE_PATIENCE_S", 0.5)
    monkeypatch.setattr(server_counters, "_SETTLE_S", 0.5)


@pytest.fixture
def pair() -> Iterator[tuple[SyntheticServer, SyntheticServer]]:
    with SyntheticServer() as baseline, SyntheticServer(k=3, tokens_per_chunk=3) as speculative:
        yield baseline, speculative


Pair = tuple[SyntheticServer, SyntheticServer]
Act = Callable[[SyntheticServer, Any], None]


# --- what is measured ------------------------------------------------------------------------------------------------
def test_pairs_alternate_their_order_and_count_the_servers_own_tokens(pair: Pair) -> None:
    evidence = compared(*pair, stop=after(3))
    comparison = evidence.comparison
    assert comparison is not None
    assert [p.order for p in comparison.pairs] == ["baseline_first", "speculative_first", "baseline_first"]
    assert all(p.baseline_tokens == p.speculative_tokens == 24 for p in comparison.pairs)
    assert (comparison.stopped, comparison.mode, comparison.k) == ("enough", "two_servers", 3)
    assert comparison.within_run_spread is not None
    assert all(p.baseline_s > 0 and p.speculative_s > 0 for p in comparison.pairs)
    assert set(comparison.ttft_ms) == set(comparison.tpot_ms) == {"baseline", "speculative"}


def test_both_servers_get_the_same_prompts_in_each_pair(pair: Pair) -> None:
    compared(*pair)
    asked = [[body["messages"][-1]["content"] for body in server.served[2:]] for server in pair]
    assert [sorted(asked[0][i:i + 2]) for i in (0, 2)] == [sorted(asked[1][i:i + 2]) for i in (0, 2)]


def test_warm_up_uses_prompts_that_are_not_measured(pair: Pair) -> None:
    compared(*pair)
    for server in pair:
        texts = [body["messages"][-1]["content"] for body in server.served]
        assert not set(texts[:2]) & set(texts[2:])


@pytest.mark.parametrize("per_request", [False, True])
def test_acceptance_comes_from_the_answers_or_else_from_the_counters(per_request: bool) -> None:
    with SyntheticServer() as one, SyntheticServer(k=3, tokens_per_chunk=3, per_request=per_request) as two:
        evidence = compared(one, two, max_tokens=13)
    rows = evidence.arms[1].requests
    assert len(rows) == (4 if per_request else 2), "one row a request where the server tells, else one a block"
    assert sum(r.steps for r in rows) == 4 * 4
    assert [sum(r.drafted[i] for r in rows) for i in range(3)] == [16, 16, 16]
    assert [sum(r.accepted[i] for r in rows) for i in range(3)] == [16, 16, 0]
    assert not evidence.arms[0].requests


def test_no_more_than_the_stated_load_runs_at_once_and_it_is_reached(pair: Pair) -> None:
    compared(*pair, running=4, requests_per_block=8, stop=after(1), prompts=prompts(20))
    assert pair[0].most_in_flight == pair[1].most_in_flight == 4


def test_chat_prompts_go_to_chat_and_texts_to_completions(pair: Pair) -> None:
    compared(*pair, prompts=prompts(chat=False))
    assert set(pair[0].paths) == {"/v1/completions"}


def test_a_model_without_chat_template_gets_the_text_on_both_servers() -> None:
    def no_template(server: SyntheticServer, number: int, handler: Any) -> bool:
        if handler.path != "/v1/chat/completions":
            return False
        server.reply(handler, 400, '{"error":{"message":"no chat template is defined"}}')
        return True

    with SyntheticServer(fault=no_template) as one, SyntheticServer(k=3, fault=no_template) as two:
        evidence = compared(one, two)
    assert evidence.comparison is not None
    assert {"/v1/completions"} == set(one.paths[-4:]) == set(two.paths[-4:])


def test_sampled_requests_carry_the_same_seeds_and_greedy_ones_none(pair: Pair) -> None:
    compared(*pair, sampling=Sampling(temperature=0.7, top_p=0.9), seed=11)
    seeds = [sorted(body["seed"] for body in server.served[2:4]) for server in pair]
    assert seeds == [[11, 12], [11, 12]]
    assert all("min_p" not in body for body in pair[1].served), "a speculating server refuses min_p"


def test_evidence_holds_no_prompt_no_answer_and_no_key() -> None:
    with SyntheticServer(token="tell-nobody") as one, SyntheticServer(k=3, token="tell-nobody") as two:
        told = Told()
        evidence = compared(one, two, token="tell-nobody", progress=told)
    text = evidence.model_dump_json() + json.dumps(told.stages + told.notes)
    assert "secret-" not in text
    assert "w1" not in text
    assert "tell-nobody" not in text


def test_prompts_repeat_under_another_cache_salt_where_the_draft_is_a_model(pair: Pair) -> None:
    compared(*pair, prompts=prompts(4), stop=after(4))
    salts = [body.get("cache_salt") for body in pair[0].served[2:]]
    assert salts[:4] == [None] * 4
    assert None not in salts[4:]


def test_prompts_never_repeat_where_drafts_are_looked_up_in_earlier_text(pair: Pair) -> None:
    evidence = compared(*pair, prompts=prompts(6), stop=after(10), candidate=NGRAM)
    assert evidence.stopped == "prompts ran out"
    assert evidence.comparison is not None
    assert len(evidence.comparison.pairs) == 3


def test_the_budget_ends_it_and_keeps_the_pairs(pair: Pair) -> None:
    for server in pair:
        server.chunk_s = 0.03
    evidence = compared(*pair, stop=lambda _: None, budget_s=4.0)
    assert evidence.stopped == "budget"
    assert evidence.comparison is not None
    assert evidence.comparison.pairs


# --- what a correct engine can't show --------------------------------------------------------------------------------
def test_equal_greedy_answers_raise_no_finding_although_chunks_differ(pair: Pair) -> None:
    assert compared(*pair).implausible == ()


def test_greedy_answers_that_part_everywhere_are_said() -> None:
    with SyntheticServer() as one, SyntheticServer(k=3, words=lambda prompt, i: f"x{i} ") as two:
        evidence = compared(one, two, stop=after(6))
    assert [i.code for i in evidence.implausible if i.severity == "error"] == ["greedy_output_differs"]


def test_a_first_position_without_any_later_one_is_said() -> None:
    def first_only(steps: int, k: int) -> list[int]:
        return [steps, 0, 0]

    with SyntheticServer() as one, SyntheticServer(k=3, accepted_by_position=first_only) as two:
        evidence = compared(one, two, stop=after(4), max_tokens=24)
    assert "later_positions_never_accepted" in {i.code for i in evidence.implausible}


def test_counters_that_stand_still_are_said() -> None:
    with SyntheticServer() as one, SyntheticServer(k=3, silent_counters=True) as two:
        evidence = compared(one, two)
    assert "counters_did_not_move" in {i.code for i in evidence.implausible}


# --- others' traffic -------------------------------------------------------------------------------------------------
def test_a_pair_with_requests_of_others_is_dropped_and_said() -> None:
    def another(server: SyntheticServer, number: int, handler: Any) -> bool:
        if number == 3:
            server.finished += 5
        return False

    with SyntheticServer() as one, SyntheticServer(k=3, fault=another) as two:
        told = Told()
        evidence = compared(one, two, progress=told)
    assert [i.code for i in evidence.implausible] == ["other_traffic"]
    assert any("dropped" in note for note in told.notes)
    assert evidence.comparison is not None
    assert len(evidence.comparison.pairs) == 2, "dropped pairs are made up for"


def test_work_on_the_other_server_during_a_block_spoils_the_pair() -> None:
    with SyntheticServer() as one, SyntheticServer(k=3) as two:
        def busy(server: SyntheticServer, number: int, handler: Any) -> bool:
            if number == 3:
                two.generated += 40
            return False

        one.fault = busy
        evidence = compared(one, two)
    assert "the speculative server served others" in evidence.implausible[0].message


def test_a_server_that_is_busy_from_the_start_is_refused(pair: Pair) -> None:
    pair[0].idle["waiting"] = 3.0
    with pytest.raises(ProbeError, match=r"baseline server .* has 3 requests of others"):
        compared(*pair)


def test_traffic_in_every_pair_ends_in_one_sentence() -> None:
    def always(server: SyntheticServer, number: int, handler: Any) -> bool:
        server.finished += 1
        return False

    with SyntheticServer(fault=always) as one, SyntheticServer(k=3) as two, \
            pytest.raises(ProbeError, match="other traffic in 3 pairs in a row"):
        compared(one, two)


# --- wrong servers ---------------------------------------------------------------------------------------------------
def test_swapped_urls_are_noticed(pair: Pair) -> None:
    with pytest.raises(InputError, match=r"speculates itself.*swap"):
        compared(pair[1], pair[0])


def test_a_second_server_without_speculation_is_noticed() -> None:
    with SyntheticServer() as one, SyntheticServer() as two, pytest.raises(InputError, match="no speculation counters"):
        compared(one, two)


def test_the_same_server_twice_is_refused(pair: Pair) -> None:
    with pytest.raises(InputError, match="both servers are"):
        compared(pair[1], pair[1])


def test_no_prompts_are_refused(pair: Pair) -> None:
    with pytest.raises(InputError, match="no prompts"):
        compared(*pair, prompts=[])


@pytest.mark.parametrize("token", [None, "wrong-key"])
def test_a_refused_key_is_said_without_the_key(token: str | None) -> None:
    with SyntheticServer(token="right") as one, SyntheticServer(k=3, token="right") as two:
        with pytest.raises(ProbeError, match=r"refuses access .HTTP 401.*--token-env") as caught:
            compared(one, two, token=token)
        assert "wrong-key" not in str(caught.value)


def test_a_server_that_is_not_there_is_one_sentence(pair: Pair) -> None:
    pair[0].die()
    with pytest.raises(ProbeError, match="cannot be reached"):
        compared(*pair)


# --- servers that fail on the way ------------------------------------------------------------------------------------
def from_request(first: int, act: Act) -> Callable[[SyntheticServer, int, Any], bool]:
    def fault(server: SyntheticServer, number: int, handler: Any) -> bool:
        if number < first:
            return False
        act(server, handler)
        return True
    return fault


def break_off(server: SyntheticServer, handler: Any) -> None:
    server.begin_stream(handler)
    server.event(handler, {"choices": [{"index": 0, "delta": {"content": "w0 "}}], "usage": {"completion_tokens": 1}})
    handler.close_connection = True
    handler.connection.close()


def end_early(server: SyntheticServer, handler: Any) -> None:
    server.begin_stream(handler)
    server.event(handler, {"choices": [{"index": 0, "delta": {"content": "w0 "}}], "usage": {"completion_tokens": 1}})
    server.chunk(handler, b"")


def not_json(server: SyntheticServer, handler: Any) -> None:
    server.begin_stream(handler)
    server.chunk(handler, b"data: {oops\n\n")
    server.chunk(handler, b"")


def no_usage(server: SyntheticServer, handler: Any) -> None:
    server.begin_stream(handler)
    server.event(handler, {"choices": [{"index": 0, "delta": {"content": "w0 "}}]})
    server.chunk(handler, b"data: [DONE]\n\n")
    server.chunk(handler, b"")


def error_event(server: SyntheticServer, handler: Any) -> None:
    server.begin_stream(handler)
    server.event(handler, {"error": {"message": "about secret-1", "type": "InternalServerError"}})
    server.chunk(handler, b"")


def hang(server: SyntheticServer, handler: Any) -> None:
    server.begin_stream(handler)
    time.sleep(8)


def http_500(server: SyntheticServer, handler: Any) -> None:
    server.reply(handler, 500, '{"error":{"message":"about secret-1"}}')


@pytest.mark.parametrize(("act", "said"), [
    (break_off, "broke off in the middle"), (end_early, "closed the stream before its end"),
    (not_json, "not JSON events"), (no_usage, "without `usage`"), (error_event, "of its own .InternalServerError"),
    (hang, "sent nothing for 4 s"), (http_500, "HTTP 500"),
])
def test_a_failure_before_any_pair_is_one_sentence(act: Act, said: str) -> None:
    with SyntheticServer() as one, SyntheticServer(k=3, fault=from_request(2, act)) as two:
        with pytest.raises(ProbeError, match=said) as caught:
            compared(one, two, timeout_s=4.0 if act is hang else 60.0)
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_server_that_dies_later_keeps_the_pairs_before_and_marks_its_arm() -> None:
    with SyntheticServer() as one, SyntheticServer(k=3, fault=from_request(6, break_off)) as two:
        evidence = compared(one, two, stop=lambda _: None)
    assert evidence.stopped == "a server failed"
    assert evidence.comparison is not None
    assert len(evidence.comparison.pairs) == 2
    assert [arm.status for arm in evidence.arms] == [ArmStatus.DONE, ArmStatus.CRASHED]
    assert evidence.arms[1].error is not None
    assert "broke off" in evidence.arms[1].error


def test_a_server_that_is_gone_between_two_blocks_is_the_one_marked() -> None:
    """It is noticed while it should be idle, in the other one's turn."""
    class Ending(Told):
        def update(self, stage: str, done_s: float, left_s: float) -> None:
            if stage.startswith("pair 2"):
                two.die()

    with SyntheticServer() as one, SyntheticServer(k=3) as two:
        evidence = compared(one, two, stop=lambda _: None, progress=Ending())
    assert [arm.status for arm in evidence.arms] == [ArmStatus.DONE, ArmStatus.CRASHED]


def test_a_restart_in_between_is_noticed_by_counters_that_run_backwards() -> None:
    def restart(server: SyntheticServer, number: int, handler: Any) -> bool:
        if number == 6:
            server.generated = server.finished = 0.0
        return False

    with SyntheticServer(fault=restart) as one, SyntheticServer(k=3) as two:
        evidence = compared(one, two, stop=lambda _: None)
    assert evidence.stopped == "a server failed"
    assert "ran backwards" in str(evidence.arms[0].error)


def test_a_prompt_that_does_not_fit_is_left_out_and_the_pair_repeated() -> None:
    def too_long(server: SyntheticServer, number: int, handler: Any) -> bool:
        if server.served[number]["messages"][-1]["content"].split()[-1] != "secret-1":
            return False
        server.reply(handler, 400, '{"error":{"message":"maximum context length is 2048 tokens"}}')
        return True

    with SyntheticServer(fault=too_long) as one, SyntheticServer(k=3, fault=too_long) as two:
        told = Told()
        evidence = compared(one, two, progress=told)
    assert any("does not fit" in note for note in told.notes)
    assert evidence.comparison is not None
    assert len(evidence.comparison.pairs) == 2


def test_an_interrupt_keeps_the_pairs_measured_before(pair: Pair) -> None:
    class Interrupting(Told):
        def update(self, stage: str, done_s: float, left_s: float) -> None:
            super().update(stage, done_s, left_s)
            if stage.startswith("pair 2"):
                raise KeyboardInterrupt

    evidence = compared(*pair, stop=lambda _: None, progress=Interrupting())
    assert evidence.stopped == "interrupted"
    assert evidence.comparison is not None
    assert len(evidence.comparison.pairs) == 2


def test_an_interrupt_before_the_first_pair_is_not_swallowed(pair: Pair) -> None:
    class Interrupting(Told):
        def update(self, stage: str, done_s: float, left_s: float) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(*pair, progress=Interrupting())


def test_an_interrupt_closes_the_requests_in_flight(pair: Pair) -> None:
    server = pair[0]
    server.chunk_s = 0.05
    loop = EventLoop()
    client = LoadClient(server.url, "shown", "synthetic", token=None, timeout_s=20.0, use_environment_proxy=False)

    async def interrupted() -> None:
        asyncio.get_running_loop().call_later(0.5, raise_interrupt)
        await client.run(prompts(4), 4, 400, Sampling(), 0, None, 60.0)

    def raise_interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupted())
    loop.run(client.close())
    loop.close()
    end = time.monotonic() + 20
    while server.in_flight and time.monotonic() < end:
        time.sleep(0.05)
    assert server.in_flight == 0
    assert server.finished == 0
