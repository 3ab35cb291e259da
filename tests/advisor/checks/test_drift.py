"""Drift: what changed since an advice was approved, and whether the advice still holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.checks.drift import NOTICES, drift
from advisor.checks.finding import Finding
from advisor.checks.serve_config import from_yaml
from advisor.checks.subject import ExpectedWorkload, KnownModel, Subject
from advisor.record import Record
from profiles.catalog.gpus import find_gpu
from profiles.catalog.releases import release
from profiles.catalog.shapes import ModelShape, TokenizerFingerprint
from tests.advisor.report import synthetic_record as synthetic

APPROVED = synthetic.enabled()
HASHED = APPROVED.provenance.target.model_copy(update={"config_hash": "a" * 64, "revision": "r1", "weight_bytes": 10})


def approved(**target: Any) -> Record:
    shape = HASHED.model_copy(update=target)
    return APPROVED.model_copy(update={"provenance": APPROVED.provenance.model_copy(update={"target": shape})})


def subject(config: str | None = None, **changes: Any) -> Subject:
    """The deployment exactly as it was approved, with changes."""
    base = Subject(
        config=from_yaml(config if config is not None else APPROVED.emitted.vllm_yaml, "vllm.yaml"),
        release=release("0.32.0"),
        gpu=find_gpu("H100"),
        gpu_name="H100",
        gpu_count=1,
        target=KnownModel(synthetic.TARGET, APPROVED.provenance.target),
        draft=KnownModel(synthetic.DRAFT, APPROVED.provenance.drafts[0]),
        env={"VLLM_USE_V2_MODEL_RUNNER": "0"},
    )
    return replace(base, **changes)


def said(now: Subject, then: Record = APPROVED) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in drift(now, then)]


def only(now: Subject, then: Record = APPROVED) -> Finding:
    (finding,) = drift(now, then)
    return finding


def target(**changes: Any) -> KnownModel:
    shape: ModelShape = HASHED.model_copy(update=changes)
    return KnownModel(synthetic.TARGET, shape)


def test_what_was_approved_has_no_drift():
    assert drift(subject(), APPROVED) == ()


def test_a_fix_release_is_info_and_another_release_invalidates():
    assert said(subject(release=release("0.32.1"))) == [("SPD911", "info")]
    found = only(subject(release=release("0.33.0")))
    assert found.severity == "warn"
    assert found.message == "the record was made for vLLM 0.32.0, this is 0.33.0: the advice no longer holds."


def test_another_gpu_or_number_of_them_invalidates_but_another_spelling_does_not():
    assert said(subject(gpu=find_gpu("L40S"), gpu_name="L40S")) == [("SPD912", "warn")]
    assert said(subject(gpu_count=2)) == [("SPD912", "warn")]
    assert said(subject(gpu=None, gpu_name="NVIDIA H100 80GB HBM3")) == []
    assert said(subject(gpu=None, gpu_name="", gpu_count=None)) == []


@pytest.mark.parametrize(("changes", "word"), [
    ({"config_hash": "b" * 64}, "config.json of"), ({"revision": "r2"}, "is at revision r2"),
    ({"weight_bytes": 11}, "take 11 bytes"),
])
def test_a_changed_target_is_noticed_by_hash_revision_and_size(changes: dict[str, Any], word: str):
    found = only(subject(target=target(**changes)), approved())
    assert (found.code, found.where) == ("SPD913", "model")
    assert word in found.message


def test_another_tokenizer_under_the_same_name_is_noticed():
    now = target(tokenizer=TokenizerFingerprint(vocab_size=1, vocab_hash="x"))
    then = approved(tokenizer=TokenizerFingerprint(vocab_size=1, vocab_hash="y"))
    assert said(subject(target=now), then) == [("SPD913", "warn")]


def test_a_folder_that_lies_elsewhere_is_the_same_model_and_another_name_is_not():
    then = approved(id="/models/target")
    assert said(subject(target=KnownModel("models/deep/target", HASHED)), then) == []
    assert said(subject(target=KnownModel("org/Other", None)), then) == [("SPD913", "warn")]


def test_a_changed_draft_is_its_own_finding():
    draft = APPROVED.provenance.drafts[0].model_copy(update={"config_hash": "b" * 64})
    then = APPROVED.model_copy(update={"provenance": APPROVED.provenance.model_copy(
        update={"drafts": (draft.model_copy(update={"config_hash": "c" * 64}),)})})
    assert said(subject(draft=KnownModel(synthetic.DRAFT, draft)), then) == [("SPD914", "warn")]


def test_another_k_is_said_on_its_line_with_what_was_decided():
    text = APPROVED.emitted.vllm_yaml.replace("num_speculative_tokens: 3", "num_speculative_tokens: 5")
    found = only(subject(text))
    assert (found.code, found.where) == ("SPD915", "speculative-config.num_speculative_tokens")
    assert found.message == "num_speculative_tokens is 5, the record decided for 3."
    assert text.splitlines()[(found.line or 0) - 1].strip() == "num_speculative_tokens: 5"


def test_speculation_that_nobody_decided_and_speculation_that_is_gone_are_said():
    assert said(subject(), synthetic.off()) == [("SPD915", "warn"), ("SPD918", "warn")]
    off = only(subject(synthetic.OFF_YAML, draft=None))
    assert off.message == "the record advises draft_model with k = 3, this config does not speculate."


def test_a_schedules_largest_k_is_told_from_the_k_decided_for():
    text = APPROVED.emitted.vllm_yaml.replace("num_speculative_tokens: 3", "num_speculative_tokens: 5")
    schedule = ((1, 8, 5), (9, 64, 3))
    then = APPROVED.model_copy(update={
        "decision": APPROVED.decision.model_copy(update={"schedule": schedule, "k": 3}),
        "emitted": APPROVED.emitted.model_copy(update={"vllm_yaml": text})})
    assert only(subject(APPROVED.emitted.vllm_yaml), then).message == (
        "num_speculative_tokens is 3, the record's vllm.yaml has 5, the largest k of its schedule (k = 3 at the load "
        "decided for).")
    assert only(subject(synthetic.OFF_YAML, draft=None), then).message == (
        "the record advises draft_model with k = 3 at the load decided for (num_speculative_tokens is 5, the largest k "
        "of its schedule), this config does not speculate.")


def test_options_the_advice_rests_on_are_warned_of_and_others_only_named():
    text = APPROVED.emitted.vllm_yaml.replace("8192", "16384") + "port: 8001\napi-key: hidden\n"
    found = drift(subject(text), APPROVED)
    assert [(f.code, f.severity, f.where) for f in found] == [
        ("SPD916", "warn", "max-model-len"), ("SPD917", "info", "")]
    assert "port" in found[1].message
    assert "api-key" not in found[1].message


def test_an_option_left_out_is_told_from_one_that_is_off():
    text = APPROVED.emitted.vllm_yaml.replace("gpu-memory-utilization: 0.9\n", "")
    said = "gpu-memory-utilization is left out, in the record 0.9: the advice no longer holds."
    assert only(subject(text)).message == said


def test_the_engines_environment_counts_and_secrets_are_not_named():
    assert said(subject(env={})) == [("SPD918", "warn")]
    env = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_API_KEY": "hidden", "HOME": "/x"}
    assert said(subject(env=env)) == []


def test_a_load_past_the_crossover_is_said_and_one_below_is_not():
    then = APPROVED.model_copy(update={"decision": APPROVED.decision.model_copy(update={"crossover_load": 32})})
    assert said(subject(workload=ExpectedWorkload(concurrency=31)), then) == []
    assert said(subject(workload=ExpectedWorkload(concurrency=32)), then) == [("SPD919", "warn")]


def test_what_an_emitted_form_adds_by_itself_is_no_difference():
    text = APPROVED.emitted.vllm_yaml + "shutdown-timeout: 120\nhost: 0.0.0.0\n"
    assert drift(subject(text), APPROVED) == ()
    stated = APPROVED.model_copy(update={"emitted": APPROVED.emitted.model_copy(
        update={"vllm_yaml": APPROVED.emitted.vllm_yaml + "shutdown-timeout: 30\n"})})
    assert said(subject(text), stated) == [("SPD917", "info")]


def test_a_secret_inside_an_option_is_named_and_not_quoted():
    text = APPROVED.emitted.vllm_yaml + 'kv-transfer-config: {"kv_connector": "x", "api_key": "sk-hidden"}\n'
    (found,) = [f for f in drift(subject(text), APPROVED) if f.code == "SPD916"]
    assert "sk-hidden" not in found.message
    assert "kv-transfer-config" in found.message


def test_the_docs_name_each_rules_severity():
    page = (Path(__file__).parents[3] / "docs" / "check.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| SPD91")]
    told = {code.strip(): severity.strip() for codes, severity in rows for code in codes.split(",")}
    assert told == {notice.code: notice.severity for notice in NOTICES}


def test_sizes_stated_as_the_release_takes_them_by_itself_are_no_difference():
    bare = "\n".join(line for line in APPROVED.emitted.vllm_yaml.splitlines() if not line.startswith("max-")) + "\n"
    then = APPROVED.model_copy(update={"emitted": APPROVED.emitted.model_copy(update={"vllm_yaml": bare})})
    limits = release(APPROVED.provenance.vllm_version).default_limits(
        find_gpu(APPROVED.provenance.gpu).memory_gib, APPROVED.provenance.gpu, cpu=False)
    same = f"max-num-seqs: {limits.max_num_seqs}\nmax-num-batched-tokens: {limits.max_num_batched_tokens}\n"
    assert drift(subject(bare + same), then) == ()
    assert said(subject(bare + f"max-num-seqs: {limits.max_num_seqs // 2}\n"), then) == [("SPD916", "warn")]


def test_an_option_turned_off_by_its_negative_is_found_at_its_line():
    text = APPROVED.emitted.vllm_yaml + "no-enable-chunked-prefill: true\n"
    found = only(subject(text))
    assert found.where == "enable-chunked-prefill"
    assert found.line == len(text.splitlines())
