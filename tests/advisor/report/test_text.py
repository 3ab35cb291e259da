"""The terminal report: the decision first, within its width, no escape sequence that was not asked for."""

from __future__ import annotations

import re

import pytest

from advisor.cli.trial_text import trial_text
from advisor.record import Record
from advisor.report import render
from advisor.report.curves import curves
from advisor.report.renderers.text import bar
from advisor.report.tables import load_details, step_table
from advisor.report.wording import plain
from profiles.evidence import ArmStatus
from tests.advisor.report import synthetic_record as synthetic

ESCAPE = "\x1b"


def lines_outside_config(text: str, record: Record) -> list[str]:
    config = set(plain(record.emitted.vllm_yaml, lines=True).splitlines())
    return [line for line in text.splitlines() if line not in config]


@pytest.mark.parametrize("make", [synthetic.enabled, synthetic.off, synthetic.abstained, synthetic.hostile])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_asked_but_the_config_is_never_wrapped(make, width):
    record = make()
    text = render(record, "text", width=width)
    assert max(len(line) for line in lines_outside_config(text, record)) <= width
    if make is not synthetic.hostile:
        assert record.emitted.vllm_yaml in text


def test_enabling_report_says_what_to_do_how_much_it_gains_and_how_sure_that_is():
    text = render(synthetic.enabled(), "text")
    card = text[: text.index("╰")]
    assert "TURN SPECULATION ON  draft model Draft-1B-Instruct, k = 3" in card
    assert "58 % faster" in card
    assert "1.58× (1.50–1.66)" in card
    assert "measured on your engine" in card
    assert "97 %" in card
    assert "4 running requests" in card
    assert "1–8: k=3; 9–32: k=1; 33–256: k=0, idle but loaded" in " ".join(card.replace("│", " ").split())


def test_reasons_stand_under_their_side_with_the_question_they_answer():
    text = render(synthetic.enabled(), "text", width=120)
    for_it, against = text.index("What speaks for it"), text.index("What speaks against it")
    assert for_it < text.index("Is the text predictable?") < against
    assert for_it < text.index("Is there memory?") < against
    assert for_it < text.index("Is it creative or hot?") < against
    assert against < text.index("Is concurrency high?")


def test_off_report_says_off_and_shows_what_each_candidate_lost_by():
    text = render(synthetic.off(), "text")
    assert "LEAVE SPECULATION OFF" in text
    assert "slower" in text[: text.index("╰")]
    assert "loses: verifying the extra tokens is no longer cheap at this load" in text
    assert "Implausible: later positions never accepted" in text
    assert text.index("Implausible") < text.index("Candidates at")


def test_abstaining_report_says_what_would_settle_it():
    text = render(synthetic.abstained(), "text")
    assert "NOT DECIDED" in text
    assert "What would settle it: Run `specadvise trial" in text
    assert "modelled from published facts, not measured" in " ".join(text.replace("│", " ").split())


def test_best_k_of_each_load_is_starred_once():
    text = render(synthetic.enabled(), "text")
    table = text[text.index("Speed-up against load") : text.index("Crossover:")]
    rows = [line for line in table.splitlines() if line.lstrip().split(" ")[0].isdigit()]
    assert [row.count("*") for row in rows[:7]] == [1] * 7


def test_without_colour_there_is_no_escape_sequence_even_when_a_name_carries_one():
    for make in (synthetic.enabled, synthetic.hostile):
        assert ESCAPE not in render(make(), "text")
    assert "\u202e" not in render(synthetic.hostile(), "text")


def test_colour_changes_nothing_but_escape_sequences():
    import re

    record = synthetic.enabled()
    coloured = render(record, "text", color=True)
    assert ESCAPE in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == render(record, "text").splitlines()


def test_markup_in_a_name_is_printed_as_it_is():
    assert "[bold]" in render(synthetic.hostile(), "text", width=120)


def test_what_looks_like_a_secret_is_named_but_not_shown():
    text = render(synthetic.hostile(), "text")
    assert "export VLLM_API_KEY=..." in text
    assert "sk-hidden" not in text


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, ""), (1, "████"), (0.5, "██"), (0.53125, "██▏"), (7, "████"), (-1, "")]
)
def test_bar_is_drawn_in_eighths_and_stays_inside_its_width(share, drawn):
    assert bar(share, 4) == drawn


def test_what_was_decided_on_is_stated_for_its_cell_even_where_it_was_priced_differently():
    base = synthetic.enabled()
    decision = base.decision.model_copy(update={"speedup": 1.47, "speedup_low": 1.44, "speedup_high": 1.5})
    text = render(base.model_copy(update={"decision": decision}), "text")
    row = next(line for line in text.splitlines() if line.startswith("draft_model Draft-1B-Instruct  "))
    assert row.split()[3:6] == ["1.47×", "1.44–1.50", "97"]


def test_words_for_one_for_none_and_for_two_kinds_of_time_a_token():
    base = synthetic.enabled()
    alone = base.model_copy(update={
        "workload": None, "workload_sources": {},
        "deployment": base.deployment.model_copy(update={
            "workload": base.deployment.workload.model_copy(update={"concurrency": 1.0})}),
        "memory": base.memory.model_copy(update={"draft_weights_gib": 0.0, "kv_bytes_per_token_draft": 0.0})})
    text = " ".join(render(alone, "text", width=200).split())
    assert re.search(r"\b1 running request\b", text)
    assert "1 running requests" not in text
    assert "draft weights – none" in text
    assert "▓ draft weights" not in text
    assert "step ms per token" in text


def test_the_trial_without_speculation_is_not_called_the_arm_none():
    base = synthetic.enabled()
    evidence = next(e for e in base.evidence if e.trial is not None)
    arm = evidence.trial.arms[0].model_copy(update={"status": ArmStatus.INTERRUPTED})
    trial = evidence.trial.model_copy(update={"arms": (arm,)})
    cut = base.model_copy(update={"evidence": (evidence.model_copy(update={"trial": trial}),)})
    text = " ".join(render(cut, "text", width=200).split())
    assert "The trial without speculation was cut short" in text
    assert "arm none" not in text
    assert trial_text(trial).count("no speculation - interrupted") == 1


def test_the_time_of_a_token_with_waits_and_that_of_its_step_alone_have_two_names():
    record = synthetic.enabled()
    curve = curves(record)[0]
    loads, steps = load_details(record, curve).columns, step_table(curve).columns
    assert [name for name in loads if "per token" in name] == ["ms per token with waits"]
    assert [name for name in steps if name.endswith("ms per token")] == ["step ms per token"]
