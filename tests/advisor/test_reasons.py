import re

from advisor.decision import best_cell, decide
from advisor.prediction import price
from advisor.reasons import write_reasons
from advisor.record import Reason
from advisor.schedule import k_at
from advisor.situation import Situation
from tests.advisor.situations import cpu_situation, cpu_trial, gpu_situation

ENGINE = {"max_model_len": 8192, "gpu_memory_utilization": 0.45}


def reasons_of(situation: Situation) -> tuple[Reason, ...]:
    pricing = price(situation)
    return write_reasons(pricing, decide(pricing))


def sentence(reasons: tuple[Reason, ...], question: str) -> str:
    return " ".join(r.sentence for r in reasons if r.question == question)


def test_the_four_questions_prefill_and_the_step_are_always_answered() -> None:
    for situation in (
        gpu_situation(engine=ENGINE, concurrency=1, tasks="json"),
        gpu_situation(engine=ENGINE, concurrency=64, tasks="creative"),
        cpu_situation(cpu_trial(), concurrency=8, tasks="code"),
        gpu_situation(candidates=[{"method": "ngram"}]),
    ):
        asked = {r.question for r in reasons_of(situation)}
        assert {
            "predictable_text",
            "memory",
            "creative_or_hot",
            "concurrency",
            "prefill_share",
            "cost_of_step",
        } <= asked


def test_every_sentence_ends_and_carries_no_raw_value() -> None:
    for reason in reasons_of(gpu_situation(engine=ENGINE, concurrency=8)):
        assert reason.sentence.endswith(".")
        assert "None" not in reason.sentence
        assert "nan" not in reason.sentence.split()


def test_stories_and_heat_speak_against() -> None:
    reasons = reasons_of(gpu_situation(tasks="creative", sampling={"temperature": 1.0}))
    heat = next(r for r in reasons if r.question == "creative_or_hot")
    assert heat.for_or_against == "against"
    assert "creative writing" in heat.sentence
    assert "ampling at temperature 1" in heat.sentence


def test_prefill_that_takes_most_of_the_time_speaks_against() -> None:
    reasons = reasons_of(gpu_situation(concurrency=4, prompt_tokens=32_000, output_tokens=64))
    prefill = next(r for r in reasons if r.question == "prefill_share")
    assert prefill.for_or_against == "against"
    assert "end to end" in prefill.sentence


def test_what_prefill_loses_is_told_of_the_draft_as_well_as_of_the_target() -> None:
    own = sentence(reasons_of(gpu_situation(concurrency=4, prompt_tokens=3000, output_tokens=300)), "prefill_share")
    assert re.search(r"draft reads each prompt as well \([0-9.]+ ms beside the target's [0-9.]+ ms, modelled\)", own)
    end, without = (float(found) for found in re.findall(r"([0-9.]+)x (?:end to end|without the draft)", own))
    assert without > end
    lookup = gpu_situation(candidates=[{"method": "ngram"}], concurrency=4, prompt_tokens=3000, output_tokens=300)
    assert "the draft reads" not in sentence(reasons_of(lookup), "prefill_share")


def test_a_load_beyond_the_crossover_speaks_against() -> None:
    reasons = reasons_of(cpu_situation(cpu_trial(), concurrency=8, tasks="creative"))
    assert next(r for r in reasons if r.question == "concurrency").for_or_against == "against"


def test_a_busy_hour_that_loses_is_named() -> None:
    reasons = reasons_of(cpu_situation(cpu_trial(), concurrency=1, concurrency_p95=8, tasks="code"))
    assert "in the busy hour (8 running)" in sentence(reasons, "concurrency")


def test_the_memory_sentence_has_both_models_bytes() -> None:
    text = sentence(reasons_of(gpu_situation(engine=ENGINE)), "memory")
    assert "2.3 GiB" in text
    assert "32 KiB of KV a token (the target itself: 128 KiB)" in text


def test_a_lookup_says_how_often_it_finds_a_draft() -> None:
    assert "find a draft" in sentence(reasons_of(gpu_situation(candidates=[{"method": "ngram"}])), "predictable_text")


def test_a_draft_without_graphs_is_said() -> None:
    text = sentence(reasons_of(gpu_situation(engine={"runner": "v2"}, concurrency=1)), "cost_of_step")
    assert "without CUDA graphs" in text


def test_a_schedule_is_told_in_words() -> None:
    assert "k=5 up to" in sentence(reasons_of(cpu_situation(cpu_trial(), concurrency=1, tasks="code")), "concurrency")


def test_counts_read_as_words_do() -> None:
    lookup = sentence(reasons_of(gpu_situation(candidates=[{"method": "ngram"}])), "memory")
    assert lookup.startswith("N-gram lookup needs no weights and no KV of its own")
    engine = {"max_num_seqs": 1, "gpu_memory_utilization": 0.45}
    assert "enough for 1 request of this length" in sentence(reasons_of(gpu_situation(engine=engine)), "memory")
    lost = reasons_of(gpu_situation(concurrency=1, tasks="creative", engine={"runner": "v2"}))
    assert "no k gains at any load" in sentence(lost, "concurrency")


def test_a_schedule_that_cannot_be_written_still_says_where_to_turn_it_off() -> None:
    situation = cpu_situation(cpu_trial(), concurrency=1, tasks="creative", engine={"data_parallel_size": 2})
    decision = decide(price(situation)).decision
    assert decision.enable is True
    assert decision.schedule is None
    text = sentence(reasons_of(situation), "concurrency")
    assert f"for loads that stay at {decision.crossover_load} or more it should be off" in text


def test_a_schedule_that_keeps_another_k_than_would_be_chosen_at_a_load_says_why() -> None:
    pricing = price(gpu_situation(candidates=[{"method": "eagle3", "draft": "head", "k": "1-5"}], concurrency=4,
                                  engine={"max_num_seqs": 256}, tasks="code"))
    choice = decide(pricing)
    schedule, best = choice.decision.schedule, choice.best
    assert schedule is not None
    assert best is not None
    alone = {load: best_cell(pricing, load, (best.candidate,)) for load in pricing.loads}
    unlike = [(load, k_at(schedule, load), cell.k) for load, cell in alone.items()
              if cell is not None and k_at(schedule, load) not in (0, cell.k)]
    text = sentence(write_reasons(pricing, choice), "concurrency")
    assert unlike
    load, kept, chosen = unlike[0]
    assert f"at {load} it asks for k={kept}, where k={chosen} would be chosen" in text
    assert "better by more than noise (2 %)" in text
