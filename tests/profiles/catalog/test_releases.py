"""A release answers for itself what it accepts and does; newer ones get the newest rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.catalog.releases import all_features, newest, oldest, release, version_tuple
from profiles.errors import InputError
from profiles.methods import METHODS


@pytest.mark.parametrize("written", ["0.32", "0.32.0", "v0.32.0", "0.32.1", "0.32.0+cpu", "0.32.0.post1", " 0.32 "])
def test_spellings_of_one_release_get_the_same_rules(written: str) -> None:
    found = release(written)
    assert found.known
    assert found.speculative_keys == release("0.32.0").speculative_keys
    assert found.methods == release("0.32.0").methods


@pytest.mark.parametrize("written", ["0.34", "1.0.0", "nightly", "main", "latest"])
def test_newer_and_moving_versions_get_the_newest_rules_and_are_not_known(written: str) -> None:
    found = release(written)
    assert not found.known
    assert found.rules == newest()
    assert found.speculative_keys == release(newest()).speculative_keys


@pytest.mark.parametrize("written", ["0.33.0rc1", "0.33.0.dev12+gabc123"])
def test_pre_releases_get_their_series_rules_and_are_not_known(written: str) -> None:
    found = release(written)
    assert not found.known
    assert found.accepts("fly_window_size")


def test_an_ancient_version_gets_the_oldest_rules_and_is_not_known() -> None:
    assert not release("0.4.2").known
    assert release("0.4.2").rules == oldest()


@pytest.mark.parametrize("written", ["", "abc", "0", "0.x", "..", "32"])
def test_what_is_no_version_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(InputError, match=r"expected a release such as"):
        release(written)


@pytest.mark.parametrize(
    ("version", "key", "accepted"),
    [
        ("0.31", "num_speculative_tokens_per_batch_size", True),
        ("0.23", "num_speculative_tokens_per_batch_size", False),
        ("0.24", "num-speculative-tokens-per-batch-size", True),
        ("0.16", "disable_by_batch_size", True),
        ("0.18", "disable_by_batch_size", False),
        ("0.20", "speculative_token_tree", True),
        ("0.21", "speculative_token_tree", False),
        ("0.19.1", "synthetic_acceptance_rate", True),
        ("0.20", "synthetic_acceptance_rate", False),
        ("0.32", "tensor_parallel_size", False),
        ("0.32", "target_model_config", False),
        ("0.7", "method", False),
    ],
)
def test_keys_come_and_go_with_the_releases(version: str, key: str, accepted: bool) -> None:
    assert release(version).accepts(key) is accepted
    assert (release(version).refuse_key(key) is None) is accepted


def test_a_refused_key_says_when_it_was_removed_or_came() -> None:
    assert "removed in vLLM 0.17" in str(release("0.32").refuse_key("disable_by_batch_size"))
    assert "came with vLLM 0.33" in str(release("0.32").refuse_key("fly_window_size"))
    assert "knows no" in str(release("0.32").refuse_key("k"))


@pytest.mark.parametrize(
    ("version", "allowed"),
    [("0.9.2", True), ("0.10", False), ("0.14.1", False), ("0.16", True), ("0.32", True), ("0.33", True)],
)
def test_draft_models_were_refused_between_the_v0_engine_and_0_16(version: str, allowed: bool) -> None:
    assert ("draft_model" in release(version).methods) is allowed


def test_a_method_removed_in_0_33_is_gone_there() -> None:
    assert "medusa" in release("0.32").methods
    assert "medusa" not in release("0.33").methods


def test_mlp_speculators_went_with_the_v0_engine_although_later_releases_still_declare_them() -> None:
    assert "mlp_speculator" in release("0.9.2").methods
    assert not any("mlp_speculator" in release(version).methods for version in ("0.10", "0.20", "0.32", "0.33"))


@pytest.mark.parametrize(
    ("version", "runner", "listed"),
    [("0.21", "v1", False), ("0.22", "v1", True), ("0.28", "v1", True), ("0.29", "v2", False)],
)
def test_the_default_runner_follows_the_release(version: str, runner: str, listed: bool) -> None:
    assert release(version).default_runner == runner
    assert release(version).runner_by_architecture is listed


def test_options_follow_the_release() -> None:
    assert "speculative-config" in release("0.32").serve_options
    assert "speculative-config" not in release("0.7").serve_options
    assert "speculative-model" in release("0.7").serve_options
    assert "speculative-model" not in release("0.32").serve_options
    assert "per-request-spec-decode-metrics" in release("0.29").serve_options
    assert "per-request-spec-decode-metrics" not in release("0.28").serve_options


def test_features_are_asked_for_by_name() -> None:
    assert release("0.20").has("cpu_speculation")
    assert not release("0.19.1").has("cpu_speculation")
    with pytest.raises(KeyError, match="unknown feature"):
        release("0.32").has("telepathy")


@pytest.mark.parametrize(
    ("memory", "name", "seqs", "tokens"),
    [
        (179.06, "B200 SXM", 1024, 16384),
        (79.65, "H100 SXM5 80GB", 1024, 8192),
        (80.0, "A100 SXM4 80GB", 256, 2048),
        (22.49, "L4", 256, 2048),
        (None, "", 256, 2048),
    ],
)
def test_default_limits_follow_memory_and_leave_the_a100_out(
    memory: float | None, name: str, seqs: int, tokens: int
) -> None:
    limits = release("0.32").default_limits(memory, name)
    assert (limits.max_num_seqs, limits.max_num_batched_tokens) == (seqs, tokens)


def test_the_cpu_engines_limits_grow_with_its_workers() -> None:
    limits = release("0.32").default_limits(None, cpu=True, workers=2)
    assert (limits.max_num_seqs, limits.max_num_batched_tokens) == (256, 4096)


def test_the_capture_ceiling_counts_tokens_not_requests() -> None:
    assert release("0.32").capture_ceiling(256, 4) == 512
    assert release("0.32").capture_ceiling(1024, 4, "10.0") == 1024
    assert release("0.32").capture_ceiling(8, 3) == 64


def test_method_descriptors_and_release_facts_agree() -> None:
    for method in METHODS.values():
        if method.name == "none":
            continue
        assert method.name in release(method.until or newest()).methods or method.until is not None
        assert method.name in release(method.since).methods, method.name
        if method.until:
            assert method.name not in release(method.until).methods
        for setting in method.settings:
            assert release(newest()).accepts(setting)


@settings(deadline=None)
@given(st.integers(0, 3), st.integers(0, 60), st.integers(0, 9))
def test_any_version_number_has_rules(major: int, minor: int, patch: int) -> None:
    found = release(f"{major}.{minor}.{patch}")
    assert version_tuple(found.rules) >= version_tuple(oldest())
    assert found.features <= all_features()
    assert not found.speculative_keys & found.internal_keys


@settings(deadline=None)
@given(st.text(max_size=30))
def test_no_text_crashes_the_version_reader(text: str) -> None:
    try:
        answer = release(text).rules
    except InputError as error:
        answer = str(error)
    assert answer
