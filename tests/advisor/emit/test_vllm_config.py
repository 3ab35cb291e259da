"""The emitted serve config: what is in it, what never is, and that comments cannot become content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.emit.heading import environment_written
from advisor.emit.options import normalise
from advisor.emit.vllm_config import emit
from profiles.errors import InputError
from tests.advisor.emit.situations import decision, memory, situation

DRAFT = {"candidates": [{"method": "draft_model", "draft": {"id": "org/draft", "revision": "v2"}}]}
SCHEDULE = ((1, 16, 5), (17, 64, 3), (65, 256, 0))


def options(emitted: Any) -> dict[str, Any]:
    value = yaml.safe_load(emitted.vllm_yaml)
    assert isinstance(value, dict)
    return value


def test_speculation_stands_as_a_nested_mapping_with_the_drafts_revision() -> None:
    config = options(emit(decision(), situation(**DRAFT), memory(), ["because"]))
    assert config["speculative-config"] == {
        "method": "draft_model",
        "model": "org/draft",
        "revision": "v2",
        "num_speculative_tokens": 3,
    }
    assert config["model"] == "org/target"


@pytest.mark.parametrize(("enable", "phrase"), [(False, "speculation OFF"), (None, "could not decide")])
def test_off_and_abstained_are_the_deployment_without_speculation_and_say_so(enable: bool | None, phrase: str) -> None:
    emitted = emit(decision(enable=enable), situation(**DRAFT), memory(), ["because"])
    assert "speculative-config" not in options(emitted)
    assert phrase in emitted.vllm_yaml
    assert ("What would settle it: a trial of 10 minutes" in emitted.vllm_yaml) == (enable is None)


def test_serve_arguments_are_written_where_stated_and_left_to_the_engine_where_not() -> None:
    stated = {
        "tensor_parallel_size": 2,
        "max_model_len": 8192,
        "kv_cache_dtype": "fp8",
        "enforce_eager": True,
        "trust_remote_code": False,
        "dtype": "auto",
    }
    config = options(emit(decision(), situation(engine=stated, **DRAFT), None, []))
    assert config["tensor-parallel-size"] == 2
    assert config["max-model-len"] == 8192
    assert config["kv-cache-dtype"] == "fp8"
    assert config["enforce-eager"] is True
    assert config["gpu-memory-utilization"] == 0.9
    assert not {"dtype", "trust-remote-code", "max-num-seqs", "pipeline-parallel-size"} & set(config)


def test_further_arguments_pass_through_in_one_spelling() -> None:
    extra = {
        "--enable_prefix_caching": False,
        "compilation_config": {"pass_config": {"fuse_norm_quant": True}},
        "served-model-name": ["a", "b"],
        "kv_transfer_config.kv_role": "kv_both",
        "kv_transfer_config.lazy": False,
        "disable-log-stats": False,
        "enable-chunked-prefill": True,
        "seed": None,
    }
    emitted = emit(decision(), situation(engine={"extra_args": extra}, **DRAFT), None, [])
    config = options(emitted)
    # vllm serve reads `enable-prefix-caching: false` as if it were not there.
    assert config["no-enable-prefix-caching"] is True
    assert "enable-prefix-caching" not in config
    assert config["enable-chunked-prefill"] is True
    assert "disable-log-stats" not in config
    assert config["kv-transfer-config.lazy"] == "false"
    assert config["compilation-config"] == {"pass_config": {"fuse_norm_quant": True}}
    assert config["served-model-name"] == ["a", "b"]
    assert config["kv-transfer-config.kv_role"] == "kv_both"
    assert "seed" not in config
    assert any("seed" in note for note in emitted.notes)


@pytest.mark.parametrize(
    "extra",
    [
        {"speculative-config": {}},
        {"spec_method": "ngram"},
        {"sc": {}},
        {"max-model-len": 5},
        {"model": "x"},
        {"config": "x"},
        {"seed": 1, "--seed": 2},
        {"not an option": 1},
        {"api_key": "x"},
    ],
)
def test_arguments_that_shadow_the_deployment_are_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"engine\.extra_args"):
        emit(decision(), situation(engine={"extra_args": extra}, **DRAFT), None, [])


def test_a_schedule_is_written_where_the_runner_honours_it() -> None:
    v1 = situation(runner="v1", **DRAFT)
    config = options(emit(decision(schedule=SCHEDULE), v1, None, []))["speculative-config"]
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 16, 5], [17, 64, 3], [65, 256, 0]]
    assert config["num_speculative_tokens"] == 5


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("draft_model", {"runner": "v2", "engine": {"runner": "v2"}}),
        ("draft_model", {"version": "0.22.0", "runner": "v1"}),
        ("suffix", {"runner": "v1"}),
        ("draft_model", {"runner": "v1", "engine": {"data_parallel_size": 2}}),
    ],
)
def test_no_schedule_where_it_is_not_honoured_and_a_note_says_so(name: str, changes: dict[str, Any]) -> None:
    emitted = emit(decision(name, schedule=SCHEDULE), situation(**{**DRAFT, **changes}), None, [])
    config = options(emitted)["speculative-config"]
    assert "num_speculative_tokens_per_batch_size" not in config
    assert config["num_speculative_tokens"] == 3
    assert any("schedule" in note for note in emitted.notes)


@pytest.mark.parametrize("schedule", [((2, 4, 1),), ((1, 4, 2), (4, 8, 1)), ((1, 4, -1),)])
def test_a_schedule_the_engine_would_die_of_never_leaves(schedule: Any) -> None:
    with pytest.raises(ValueError, match="schedule"):
        emit(decision(schedule=schedule), situation(runner="v1", **DRAFT), None, [])


def test_settings_of_the_method_are_written() -> None:
    chosen = decision("ngram", prompt_lookup_max=4, prompt_lookup_min=2)
    assert options(emit(chosen, situation(), None, []))["speculative-config"] == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
    }


def test_a_method_the_release_does_not_have_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"vLLM 0\.14\.1 does not accept the method draft_model"):
        emit(decision(), situation("0.14.1", **DRAFT), None, [])
    with pytest.raises(InputError, match=r"vLLM 0\.7\.0 has no speculative-config"):
        emit(decision("ngram"), situation("0.7.0"), None, [])


def test_older_releases_get_nested_values_as_json_text() -> None:
    config = options(emit(decision("ngram"), situation("0.12.0"), None, []))
    assert json.loads(config["speculative-config"]) == {"method": "ngram", "num_speculative_tokens": 3}


# --- environment -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "runner", "stated", "expected"),
    [
        ("draft_model", "v1", "auto", "0"),
        ("eagle3", "v2", "auto", None),
        ("draft_model", "v2", "v2", "1"),
        # Priced on the runner that drafts under graphs, and served there.
        ("draft_model", "v2", "auto", "0"),
        # Forcing V2 on a method that it lacks is refused by the engine.
        ("suffix", "v2", "v2", "0"),
        ("draft_model", "v1", "v1", "0"),
    ],
)
def test_the_runner_is_forced_only_where_it_must_be(name: str, runner: Any, stated: str, expected: str | None) -> None:
    candidates = [{"method": name, **({"draft": "org/draft"} if name != "suffix" else {})}]
    emitted = emit(decision(name), situation(runner=runner, engine={"runner": stated}, candidates=candidates), None, [])
    assert emitted.env.get("VLLM_USE_V2_MODEL_RUNNER") == expected
    assert "VLLM_USE_V2_MODEL_RUNNER" not in options(emitted)
    assert environment_written(emitted.vllm_yaml) == emitted.env
    # Whoever copies the line that starts it has what the file cannot hold.
    needed = f"VLLM_USE_V2_MODEL_RUNNER={expected} " if expected is not None else ""
    assert f"# Start it with: {needed}vllm serve --config vllm.yaml" in emitted.vllm_yaml


def test_the_cpu_engine_gets_its_kv_space_by_environment_and_no_gpu_share() -> None:
    on_cpu = situation(runner="cpu", gpu=None, hardware={"gpu": "cpu", "memory_gib": 2.5}, **DRAFT)
    emitted = emit(decision(), on_cpu, None, [])
    assert emitted.env == {"VLLM_CPU_KVCACHE_SPACE": "2"}
    assert "gpu-memory-utilization" not in options(emitted)
    assert "VLLM_CPU_KVCACHE_SPACE=2" in emitted.vllm_yaml


# --- what the engine would refuse, or do badly --------------------------------------------------------------------
def test_asynchronous_scheduling_is_dropped_for_methods_that_refuse_it() -> None:
    stated = {"engine": {"extra_args": {"async-scheduling": True}}}
    emitted = emit(decision("ngram"), situation(**stated), None, [])
    assert "async-scheduling" not in options(emitted)
    assert any("async-scheduling" in note for note in emitted.notes)
    assert options(emit(decision(), situation(**stated, **DRAFT), None, []))["async-scheduling"] is True


def test_speculation_metrics_are_dropped_where_speculation_is_off() -> None:
    stated = {"engine": {"extra_args": {"per-request-spec-decode-metrics": "summary"}}}
    assert "per-request-spec-decode-metrics" not in options(emit(decision(enable=False), situation(**stated), None, []))
    assert (
        options(emit(decision("ngram"), situation(**stated), None, []))["per-request-spec-decode-metrics"] == "summary"
    )


def test_lora_raises_the_token_budget_that_speculation_needs() -> None:
    stated = {"max_num_seqs": 256, "max_num_batched_tokens": 512, "extra_args": {"enable-lora": True}}
    assert options(emit(decision("ngram"), situation(engine=stated), None, []))["max-num-batched-tokens"] == 1024


@pytest.mark.parametrize(
    ("running", "k", "size"), [(64, 3, None), (128, 4, 640), (103, 4, 560), (200, 2, 624), (120, 7, 960)]
)
def test_graphs_cover_the_usual_decode_batch_in_tokens(running: int, k: int, size: int | None) -> None:
    config = options(emit(decision(k=k, running=running), situation(**DRAFT), None, []))
    assert config.get("max-cudagraph-capture-size") == size
    if size is not None:
        assert size >= running * (k + 1)
        assert size % 16 == 0
        assert size % (k + 1) == 0


@pytest.mark.parametrize(
    "engine",
    [
        {"enforce_eager": True},
        {"extra_args": {"max-cudagraph-capture-size": 512}},
        {"extra_args": {"compilation-config.cudagraph_mode": "NONE"}},
    ],
)
def test_graphs_are_left_alone_where_the_user_decided(engine: dict[str, Any]) -> None:
    before = engine.get("extra_args", {}).get("max-cudagraph-capture-size")
    config = options(emit(decision(k=4, running=128), situation(engine=engine, **DRAFT), None, []))
    assert config.get("max-cudagraph-capture-size") == before


@pytest.mark.parametrize(
    ("name", "runner", "split", "written"),
    [
        ("draft_model", "v1", 1, None),
        ("draft_model", "v2", 1, 1),
        ("eagle3", "v1", 1, 1),
        ("eagle3", "v1", 2, None),
        ("eagle3", "v1", 3, None),
    ],
)
def test_a_drafts_split_is_written_only_where_it_is_accepted(
    name: str, runner: Any, split: int, written: int | None
) -> None:
    stated = situation(
        runner=runner,
        engine={"tensor_parallel_size": 2, "runner": runner},
        candidates=[{"method": name, "draft": "org/draft", "tensor_parallel_size": split}],
    )
    config = options(emit(decision(name), stated, None, []))["speculative-config"]
    assert config.get("draft_tensor_parallel_size") == written


# --- text ----------------------------------------------------------------------------------------------------------
def test_memory_and_reasons_are_comments() -> None:
    text = emit(decision(), situation(**DRAFT), memory(), ["The text is predictable: 2.9 tokens a step."]).vllm_yaml
    assert "# - The text is predictable: 2.9 tokens a step." in text
    assert "400,000 tokens without speculation, 310,000 with it" in text
    assert all(len(line) <= 100 for line in text.splitlines() if line.startswith("#"))


HOSTILE = st.text(min_size=1, max_size=40) | st.sampled_from(
    [
        "a\nmodel: evil",
        "x\u2028model: evil",
        "x\x85y: 1",
        "#",
        "no",
        "1e3",
        "- a",
        "a: b",
        "!!python/name:os",
        "&a",
        "*a",
        "名前",
        "2026-01-01",
        '"',
        "'",
        "{",
        "null",
        "\x00",
        "\x07",
    ]
)


@settings(deadline=None)
@given(name=HOSTILE, reason=HOSTILE)
def test_hostile_names_and_reasons_stay_values_and_comments(name: str, reason: str) -> None:
    chosen = decision(draft=name).model_copy(update={"would_settle": reason})
    stated = situation(
        candidates=[{"method": "draft_model", "draft": name}],
        engine={"extra_args": {"chat-template": name}},
        target=name,
    )
    emitted = emit(chosen, stated, memory(), [reason])
    config = options(emitted)
    assert config["model"] == name
    assert config["speculative-config"]["model"] == name
    assert config["chat-template"] == name
    assert set(config) == {"model", "gpu-memory-utilization", "chat-template", "speculative-config"}
    assert emitted.vllm_yaml.isascii()


def test_emitting_twice_gives_the_same_text() -> None:
    first, second = (
        emit(decision(schedule=SCHEDULE), situation(runner="v1", **DRAFT), memory(), ["a"]) for _ in range(2)
    )
    assert first == second


def test_option_spelling_keeps_nested_keys() -> None:
    assert normalise("--compilation_config.pass_config.fuse_norm") == "compilation-config.pass_config.fuse_norm"


def test_the_file_is_readable_yaml_to_a_person(tmp_path: Path) -> None:
    text = emit(decision(schedule=SCHEDULE), situation(runner="v1", **DRAFT), memory(), ["a"]).vllm_yaml
    assert "speculative-config:\n  method: draft_model\n  model: org/draft\n" in text
    assert "    - [1, 16, 5]\n" in text


WINDOW = memory().model_copy(update={"window": 131_072, "write_max_model_len_with": 18_432,
                                     "write_max_model_len_without": 40_960})


@pytest.mark.parametrize(("enable", "written"), [(True, 18_432), (False, 40_960), (None, 40_960)])
def test_a_window_that_does_not_fit_is_written_as_long_as_this_very_config_holds(
    enable: bool | None, written: int
) -> None:
    emitted = emit(decision(enable=enable), situation(**DRAFT), WINDOW, [])
    assert options(emitted)["max-model-len"] == written
    said = emitted.vllm_yaml.replace("\n# ", " ")
    assert f"longer than {written:,} tokens" in said
    assert "131,072" in said


def test_a_stated_window_is_written_as_it_is_stated() -> None:
    stated = situation(engine={"max_model_len": 8192}, **DRAFT)
    assert options(emit(decision(), stated, WINDOW, []))["max-model-len"] == 8192


def test_a_window_that_fits_is_not_written() -> None:
    assert "max-model-len" not in options(emit(decision(), situation(**DRAFT), memory(), []))


@pytest.mark.parametrize(("version", "tokens", "written"), [
    ("0.32.0", 20_000, "auto"), ("0.32.0", 400_000, None), ("0.12.0", 20_000, None)])
def test_a_window_that_nobody_knows_is_fitted_by_the_engine_where_it_can(
    version: str, tokens: int, written: str | None
) -> None:
    room = memory().model_copy(update={"kv_tokens_without": tokens})
    emitted = emit(decision(enable=False), situation(version, **DRAFT), room, [])
    assert options(emitted).get("max-model-len") == written
