"""Loading a deployment: each mistake is one sentence with its place, the value and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli.deployment_file import load_deployment
from profiles.errors import InputError


def load(tmp_path: Path, text: str, **flags: object) -> str:
    """The error sentence(s) of a deployment, with the folder's name removed."""
    path = tmp_path / "d.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_deployment(path)
    return str(error.value).replace(f"{tmp_path}/", "")


MISTAKES = [
    (
        "target: m\nengine:\n  max_model_len: -5\n",
        "d.yaml:3: engine.max_model_len is -5: expected a number of at least 1",
    ),
    (
        "target: m\nengine:\n  tensor_parallel_size: two\n",
        "d.yaml:3: engine.tensor_parallel_size is 'two': expected a whole number",
    ),
    (
        "target: m\nengine:\n  max_modl_len: 5\n",
        "d.yaml:3: engine has no field 'max_modl_len': did you mean 'max_model_len'?",
    ),
    (
        "target: m\nmax_model_len: 5\n",
        "d.yaml:2: the deployment has no field 'max_model_len': it belongs under engine.max_model_len",
    ),
    (
        "target: m\nworkload:\n  temperature: 0.5\n",
        "d.yaml:3: workload has no field 'temperature': it belongs under workload.sampling.temperature",
    ),
    (
        "target: m\nworkload:\n  temprature: 0.5\n",
        "d.yaml:3: workload has no field 'temprature': did you mean workload.sampling.temperature?",
    ),
    (
        "engine: {}\n",
        "d.yaml:1: no target is named: expected `target: <HF id or folder>` in the file or --target on the command "
        "line",
    ),
    ("target:\n  revision: main\n", "d.yaml:1: target.id is missing"),
    ("target: 5\n", "d.yaml:1: target is 5: expected an HF id, a folder, or a mapping with `id`"),
    (
        "target: m\nobjective:\n  goal: speed\n",
        "d.yaml:3: objective.goal is 'speed': expected one of latency, throughput or cost",
    ),
    ("target: m\nengine:\n  runner: v3\n", "d.yaml:3: engine.runner is 'v3': expected one of auto, v1 or v2"),
    (
        "target: m\nengine:\n  enforce_eager: maybe\n",
        "d.yaml:3: engine.enforce_eager is 'maybe': expected true or false",
    ),
    (
        "target: m\nengine:\n  env:\n    VLLM_X: 1\n",
        "d.yaml:4: engine.env.VLLM_X is 1: expected text (put it in quotes)",
    ),
    (
        "target: m\nworkload:\n  concurrency: 4\n  arrival_rate_rps: 2\n",
        "d.yaml:2: workload: both concurrency and arrival_rate_rps are given: state one, the other follows from it",
    ),
    (
        "target: m\nworkload:\n  tasks: poetry\n",
        "d.yaml:3: workload.tasks: unknown task 'poetry': expected one of code,",
    ),
    (
        "target: m\ncandidates:\n  - ngram\n  - method: draft_model\n",
        "d.yaml:4: candidates[1]: method draft_model needs a draft: name it under `draft`",
    ),
    (
        "target: m\ncandidates:\n  - eagle3\n",
        "d.yaml:3: candidates[0]: method eagle3 needs a draft: name it under `draft`",
    ),
    (
        "target: meta-llama/Llama-3.3-70B-Instruct\ncandidates:\n  - eagle3\n  - draft_model\n",
        "d.yaml:4: candidates[1]: method draft_model needs a draft: name it under `draft`; for "
        "meta-llama/Llama-3.3-70B-Instruct the catalog has ",
    ),
    (
        "target: m\ncandidates:\n  - telepathy\n",
        "d.yaml:3: candidates[0]: unknown method 'telepathy': expected one of none,",
    ),
    ("target: m\ncandidates: ngram\n", "d.yaml:2: candidates is 'ngram': expected a list"),
    (
        "target: m\ncandidates:\n - {method: ngram, k: '5-x'}\n",
        "d.yaml:3: candidates[0].k: k is '5-x': expected a number, a list, or a range",
    ),
    (
        "target: m\ncandidates:\n - {method: ngram, k: 0}\n",
        "d.yaml:3: candidates[0].k: k must hold numbers between 1 and 64",
    ),
    ("target: m\nworkload:\n  prompt_tokens: .nan\n", "d.yaml:3: workload.prompt_tokens.mean is nan"),
    ("target: m\nworkload:\n  concurrency: .inf\n", "d.yaml:3: workload.concurrency is inf: expected a finite number"),
    (
        "target: m\nworkload:\n  concurrency: 1e+9\n",
        "d.yaml:3: workload.concurrency is '1e+9': expected a number of at most 1,000,000",
    ),
    (
        "target: m\nworkload:\n  prompt_tokens: 1.0e+308\n",
        "d.yaml:3: workload.prompt_tokens.mean is 1e+308: expected a number of at most 100,000,000",
    ),
    (
        "target: m\nworkload:\n  concurrency: true\n",
        "d.yaml:3: workload.concurrency is true: expected a number, not true or false",
    ),
    (
        "target: m\nworkload:\n  prompt_tokens: {mean: 10, p50: 9, p90: 4}\n",
        "d.yaml:3: workload.prompt_tokens: p50 is 9 and p90 is 4: expected percentiles in rising order",
    ),
    ("target: m\nworkload:\n  tasks: [{}]\n", "d.yaml:3: workload.tasks: an item of the list is no name"),
    ("target: m\nworkload:\n  tasks: {code: .inf}\n", "d.yaml:3: workload.tasks: share of task 'code' is inf"),
    ("target: m\nhardware:\n  memory_gib: .inf\n", "d.yaml:3: hardware.memory_gib is inf: expected a finite number"),
    ("target: m\ntrial:\n  budget_s: 1.0e+30\n", "d.yaml:3: trial.budget_s is 1e+30: expected a number of at most"),
    ("target: m\ntrial:\n  loads: [1, -2]\n", "d.yaml:3: trial.loads[1] is -2: expected a number of at least 1"),
    (
        "target: m\nengine:\n  extra_args: {seed: .nan}\n",
        "d.yaml:3: engine.extra_args: 'seed' holds a number that is not finite",
    ),
    (
        "target: m\ncandidates:\n - {method: ngram, k: '1-1000000000'}\n",
        "d.yaml:3: candidates[0].k: k is '1-1000000000': k must hold numbers between 1 and 64",
    ),
    (
        "target: m\ncandidates:\n - {method: ngram, k: '1-'}\n",
        "d.yaml:3: candidates[0].k: k is '1-': the range has no end: expected one like 1-5",
    ),
    (
        "target: m\ncandidates:\n - {method: ngram, k: '5-1'}\n",
        "d.yaml:3: candidates[0].k: k is '5-1': the range runs backwards: write it as 1-5",
    ),
    (
        "target: m\ncandidates:\n - {method: ngram, settings: {prompt_lookup_max: .inf}}\n",
        "d.yaml:3: candidates[0].settings.prompt_lookup_max",
    ),
    ("- a\n", "d.yaml:1: the document is a list: expected a mapping"),
    ("", "d.yaml is empty: expected at least `target: <model>`"),
    ("target: m\nengine: v1\n", "d.yaml:2: engine is 'v1': expected a mapping of vllm_version, tensor_parallel_size"),
    ("target: m\ntarget: n\n", "d.yaml:2: key 'target' stands twice"),
    (
        "target: m\nengine:\n  extra_args:\n    speculative_config: {method: ngram}\n",
        "d.yaml:4: engine.extra_args.speculative_config: speculation is what specadvise decides",
    ),
    (
        "target: m\nengine:\n  extra_args:\n    tp: 2\n",
        "d.yaml:4: engine.extra_args.tp: the advice depends on it: state it as engine.tensor_parallel_size",
    ),
    ("target: m\nengine:\n  extra_args:\n    api-key: hush\n", "d.yaml:4: engine.extra_args.api-key: a secret"),
    ("target: m\nengine:\n  env:\n    HF_TOKEN: hush\n", "d.yaml:4: engine.env.HF_TOKEN is a secret"),
    ("target: m\nengine:\n  env:\n    WANDB_KEY: hush\n", "d.yaml:4: engine.env.WANDB_KEY is a secret"),
    ("target: m\nengine:\n  env:\n    DB_PASS: hush\n", "d.yaml:4: engine.env.DB_PASS is a secret"),
    ("target: m\nengine:\n  env:\n    FOO: hf_hushhushhushHUSHHUSH12\n", "d.yaml:4: engine.env.FOO is a secret"),
    ("target: m\nengine:\n  env:\n    HTTP_PROXY: http://u:hush@h\n", "d.yaml:4: engine.env.HTTP_PROXY is a secret"),
    ("target: m\nengine:\n  extra_args:\n    otlp-traces-endpoint: http://u:hush@h/\n",
     "d.yaml:4: engine.extra_args.otlp-traces-endpoint: a secret"),
    ("target: m\nengine:\n  extra_args:\n    kv-transfer-config: {extra: {password: hush}}\n",
     "d.yaml:4: engine.extra_args.kv-transfer-config: a secret"),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence_with_place_value_and_expectation(tmp_path: Path, text: str, sentence: str) -> None:
    message = load(tmp_path, text)
    assert message.startswith(sentence), message
    assert "\n" not in message
    assert "hush" not in message


def test_several_mistakes_are_several_sentences(tmp_path: Path) -> None:
    message = load(tmp_path, "target: m\nengine:\n  max_num_seqs: 0\n  dtyp: x\nhardware:\n  count: many\n")
    assert [line.split(" ")[0] for line in message.splitlines()] == ["d.yaml:3:", "d.yaml:4:", "d.yaml:6:"]


def test_very_many_mistakes_are_counted_not_listed(tmp_path: Path) -> None:
    message = load(tmp_path, "target: m\n" + "".join(f"x{i}: 1\n" for i in range(50)))
    assert message.endswith("and 38 more")


def test_a_flag_wins_over_the_file_and_is_named_in_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("target: m\nengine:\n  max_model_len: 100\nworkload:\n  arrival_rate_rps: 2\n")
    flags = {("engine", "max_model_len"): ("--max-model-len", 200), ("workload", "concurrency"): ("--concurrency", 8.0)}
    loaded = load_deployment(path, flags)
    assert loaded.engine.max_model_len == 200
    assert (loaded.workload.concurrency, loaded.workload.arrival_rate_rps) == (8.0, None)
    with pytest.raises(
        InputError, match=r"^--max-model-len: engine\.max_model_len is 0: expected a number of at least 1$"
    ):
        load_deployment(path, {("engine", "max_model_len"): ("--max-model-len", 0)})


def test_flags_alone_make_a_deployment() -> None:
    loaded = load_deployment(None, {("target",): ("--target", "org/m"), ("hardware", "gpu"): ("--gpu", "H100")})
    assert (loaded.target.id, loaded.hardware.gpu) == ("org/m", "H100")
    with pytest.raises(InputError, match=r"^the command line: no target is named"):
        load_deployment(None, {})


def test_folders_beside_the_file_become_absolute_and_ids_stay(tmp_path: Path) -> None:
    (tmp_path / "models" / "draft").mkdir(parents=True)
    path = tmp_path / "d.yaml"
    path.write_text(
        "target: org/m\ncandidates:\n - {method: draft_model, draft: models/draft}\n - {method: eagle, draft: org/h}\n"
    )
    loaded = load_deployment(path)
    assert loaded.target.id == "org/m"
    assert [c.draft.id for c in loaded.candidates if c.draft] == [str(tmp_path / "models" / "draft"), "org/h"]


def test_a_section_left_empty_is_a_section_left_out(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("target: m\nengine:\nworkload:\n  sampling:\n")
    assert load_deployment(path).engine.tensor_parallel_size == 1


@pytest.mark.parametrize(("written", "release"), [("0.31", "0.31"), ("0.31.0", "0.31.0"), ("'0.30'", "0.30"),
                                                  ("nightly", "nightly"), ("0.29", "0.29")])
def test_a_release_without_quotes_is_taken_where_it_can_only_mean_one(
    tmp_path: Path, written: str, release: str
) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(f"target: m\nengine:\n  vllm_version: {written}\n")
    assert load_deployment(path).engine.vllm_version == release


@pytest.mark.parametrize("written", ["0.3", "0.30", "1", "0.9", ".inf"])
def test_a_release_that_lost_its_zeros_is_refused_with_the_way_to_write_it(tmp_path: Path, written: str) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(f"target: m\nengine:\n  vllm_version: {written}\n")
    with pytest.raises(InputError) as told:
        load_deployment(path)
    (sentence,) = str(told.value).splitlines()
    assert sentence.startswith("d.yaml:3: engine.vllm_version is ") or "d.yaml:3: engine.vllm_version is " in sentence
    assert 'text in quotes, such as "0.30"' in sentence


def test_two_drafts_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    text = ("target: m\ncandidates:\n  - {method: draft_model, draft: a/small}\n"
            "  - {method: draft_model, draft: b/small}\n")
    said = load(tmp_path, text)
    assert "'a/small' and 'b/small' would both be called 'draft_model small' here" in said
    assert "expected drafts whose last names differ" in said


def test_one_draft_named_twice_is_one_candidate(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("target: m\ncandidates:\n  - {method: draft_model, draft: a/small, k: 1}\n"
                    "  - {method: draft_model, draft: a/small, k: 3}\n")
    (only,) = load_deployment(path).candidates
    assert only.k == (1, 3)


def test_a_busy_hour_below_the_usual_load_is_refused(tmp_path: Path) -> None:
    text = "target: m\nworkload:\n  concurrency: 8\n  concurrency_p95: 3\n"
    assert "concurrency_p95 (3) is below concurrency (8)" in load(tmp_path, text)
    for fine in ("concurrency: 3, concurrency_p95: 3", "concurrency_p95: 3", "arrival_rate_rps: 9, concurrency_p95: 3"):
        (tmp_path / "d.yaml").write_text(f"target: m\nworkload: {{{fine}}}\n")
        assert load_deployment(tmp_path / "d.yaml").workload.concurrency_p95 == 3
