"""Where serve configs live: each kind of file is known by its content and gives the configs that it starts."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources import all_kinds, read_source
from profiles.errors import InputError

NGRAM = {"method": "ngram", "num_speculative_tokens": 4}
JSON = '{"method": "ngram", "num_speculative_tokens": 4}'


def only(text: str, name: str = "f", **more: object) -> ServeConfig:
    (config,) = read_source(text, name, **more)  # type: ignore[arg-type]
    return config


def lines(config: ServeConfig) -> dict[str, int]:
    return {".".join(map(str, path)): line for path, line in config.lines.items()}


def test_every_kind_says_what_it_is_and_when_it_is_asked():
    assert [kind.TITLE for kind in all_kinds()][-1] == "a serve config (`vllm serve --config`)"
    assert len({kind.RANK for kind in all_kinds()}) == len(all_kinds())


# --- serve config
def test_a_serve_config_is_read_as_it_is():
    config = only("model: a/b\nspeculative-config:\n  method: ngram\n")
    assert config.values == {"model": "a/b", "speculative-config": {"method": "ngram"}}
    assert config.from_file
    assert lines(config)["speculative-config.method"] == 3


def test_an_empty_file_is_refused_and_told_what_was_expected():
    with pytest.raises(InputError, match="holds no options: expected `option: value` lines"):
        only("# nothing\n")


# --- command lines and scripts
@pytest.mark.parametrize("text", [
    f"vllm serve a/b --speculative-config '{JSON}'",
    f"FOO=1 exec /opt/venv/bin/vllm serve a/b \\\n --speculative_config='{JSON}'",
    f"python3 -m vllm.entrypoints.openai.api_server --model a/b --speculative-config '{JSON}'",
    f"docker run --gpus all -v x:/y --rm vllm/vllm-openai:v0.32.0 --model a/b --speculative-config '{JSON}'",
    f"podman run -d docker.io/vllm/vllm-openai:latest --model=a/b --speculative-config '{JSON}'",
    f"#!/bin/sh\nset -e\ncd /srv && vllm serve a/b --speculative-config '{JSON}' > log 2>&1 &\nwait\n",
    f"srun -N1 --gpus 1 vllm serve a/b --speculative-config '{JSON}'",
    f"bash -c \"vllm serve a/b --speculative-config '{JSON.replace(chr(34), chr(92) + chr(34))}'\"",
])
def test_a_command_line_gives_model_and_speculation(text: str):
    values = only(text).values
    assert values["model"] == "a/b"
    assert values["speculative-config"] == NGRAM


def test_environment_before_and_inside_a_command_counts_over_what_was_stated():
    config = only("export VLLM_A=1\nVLLM_B=2 vllm serve m", env={"VLLM_A": "0", "VLLM_C": "3"})
    assert config.env == {"VLLM_A": "1", "VLLM_B": "2", "VLLM_C": "3"}
    run = only("docker run -e VLLM_A=7 --env=VLLM_B=8 vllm/vllm-openai --model m")
    assert run.env == {"VLLM_A": "7", "VLLM_B": "8"}


def test_two_servers_of_a_script_are_two_configs_with_their_lines():
    configs = read_source("vllm serve a &\n\nvllm serve b --port 2\n", "run.sh")
    assert [(config.values["model"], config.part) for config in configs] == [("a", "line 1"), ("b", "line 3")]


def test_the_command_line_wins_over_the_file_it_names_and_dots_replace_its_mapping():
    files = {"cfg.yaml": "model: a\nmax-model-len: 1\nspeculative-config:\n  method: eagle3\n  model: h\n"}
    config = only("vllm serve --config cfg.yaml --max-model-len 2 \\\n --speculative-config.method ngram",
                  open_file=files.get)
    assert config.values == {"model": "a", "max-model-len": 2, "speculative-config": {"method": "ngram"}}
    assert lines(config) == {"model": 1, "max-model-len": 1, "speculative-config": 2, "speculative-config.method": 2}


def test_a_config_file_that_is_not_at_hand_is_a_note():
    (note,) = only("vllm serve --config /etc/vllm.yaml").notes
    assert note.startswith("the config file /etc/vllm.yaml (line 1) is not at hand")


# --- Dockerfile
def test_a_dockerfile_joins_entrypoint_command_and_environment():
    config = only('FROM vllm/vllm-openai:v0.32.0\n# why\nENV VLLM_A=1 B="x y"\n'
                  'ENTRYPOINT ["vllm", "serve", \\\n  "a/b"]\n'
                  'CMD ["--seed", "1"]\n')
    assert config.values == {"model": "a/b", "seed": 1}
    assert config.env == {"VLLM_A": "1", "B": "x y"}
    assert lines(config) == {"model": 5, "seed": 6}


def test_a_dockerfile_of_the_servers_image_needs_only_arguments():
    assert only('FROM vllm/vllm-openai\nCMD ["--model", "a/b"]\n').values == {"model": "a/b"}


def test_a_dockerfile_in_shell_form_is_a_script():
    config = only("FROM x\nCMD vllm serve a/b \\\n   --seed 1\n")
    assert config.values == {"model": "a/b", "seed": 1}
    assert lines(config)["seed"] == 3


def test_only_the_last_stage_of_a_dockerfile_starts():
    with pytest.raises(InputError, match="a Dockerfile in which no vLLM server is started"):
        read_source('FROM vllm/vllm-openai AS a\nCMD ["--model", "m"]\nFROM nginx\nCMD ["nginx"]\n', "Dockerfile")


# --- compose
@pytest.mark.parametrize("command", [
    "--model a/b --seed 1", ["--model", "a/b", "--seed", 1], ["sh", "-c", "exec vllm serve a/b --seed 1"],
    "vllm serve a/b --seed=1",
])
def test_a_compose_service_may_state_its_command_as_text_or_list(command: object):
    config = only(f"services:\n  llm:\n    image: vllm/vllm-openai:v0.32.0\n    command: {json.dumps(command)}\n"
                  "    environment: {VLLM_A: 1, B: true}\n  web:\n    image: nginx\n")
    assert config.values == {"model": "a/b", "seed": 1}
    assert config.part == "service llm"
    assert config.env == {"VLLM_A": "1", "B": "true"}


def test_a_compose_entrypoint_stands_before_the_command():
    config = only('services:\n  llm:\n    build: .\n    entrypoint: ["vllm", "serve"]\n    command: ["a/b"]\n'
                  "    env_file: .env\n")
    assert config.values == {"model": "a/b"}
    assert config.notes == ("env_file of service llm was not read: pass what matters with --env",)


# --- Kubernetes
CONTAINER = """\
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.32.0
        env:
        - {name: VLLM_A, value: "1"}
        - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}
        - {name: LEN, value: "4096"}
        args: ["--model", "a/b", "--max-model-len", "$(LEN)"]
"""


@pytest.mark.parametrize(("head", "part"), [
    ("kind: Deployment\nspec:\n  template:\n    spec:\n", "Deployment/llm, container vllm"),
    ("kind: StatefulSet\nspec:\n  template:\n    spec:\n", "StatefulSet/llm, container vllm"),
    ("kind: Pod\nspec:\n", "Pod/llm, container vllm"),
    ("kind: LeaderWorkerSet\nspec:\n  leaderWorkerTemplate:\n    leaderTemplate:\n      spec:\n",
     "LeaderWorkerSet/llm, container vllm"),
    ("kind: InferenceService\nspec:\n  predictor:\n", "InferenceService/llm, container vllm"),
])
def test_a_container_is_found_in_whatever_kind_it_stands(head: str, part: str):
    text = "apiVersion: v1\nmetadata: {name: llm}\n" + head
    config = only(text + CONTAINER)
    assert config.values == {"model": "a/b", "max-model-len": 4096}
    assert config.env == {"VLLM_A": "1", "LEN": "4096"}
    assert config.part == part
    assert lines(config)["model"] == (text + CONTAINER)[: (text + CONTAINER).index("args:")].count("\n") + 1


def test_a_script_in_a_manifest_knows_its_lines_and_the_config_map_beside_it():
    text = ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  vllm.yaml: |\n    model: a/b\n    seed: 1\n"
            "---\n"
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: v\n    image: x\n"
            "    envFrom: [{configMapRef: {name: c}}]\n"
            '    command: ["/bin/bash", "-ec"]\n    args:\n    - |\n      echo start\n'
            "      vllm serve --config /etc/v/vllm.yaml \\\n        --seed 2\n")
    config = only(text)
    assert config.values == {"model": "a/b", "seed": 2}
    assert text.splitlines()[lines(config)["seed"] - 1].strip() == "--seed 2"
    assert text.splitlines()[lines(config)["model"] - 1].strip().startswith("vllm serve")


def test_kserve_arguments_without_a_command_take_the_model_from_its_address():
    config = only("apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: k}\nspec:\n"
                  "  predictor:\n    model:\n      modelFormat: {name: huggingface}\n      storageUri: hf://org/m\n"
                  "      args: [--seed=1]\n")
    assert config.values == {"model": "org/m", "seed": 1}


def test_kserves_own_name_for_the_model_is_understood():
    config = only("apiVersion: v1\nkind: InferenceService\nspec:\n  predictor:\n    model:\n"
                  "      modelFormat: {name: huggingface}\n      args: [--model_id=org/m, --seed=1]\n")
    assert config.values == {"model": "org/m", "seed": 1}


def test_containers_that_start_something_else_are_passed_over():
    text = ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
            "  - name: n\n    image: nginx\n    args: [a]\n")
    with pytest.raises(InputError, match="f: a Kubernetes manifest in which no vLLM server is started"):
        read_source(text, "f")
    assert [c.part for c in read_source(text + "---\napiVersion: v1\nkind: Pod\nspec:\n" + CONTAINER, "f")] == [
        "Pod, container vllm"]


# --- charts
def test_values_of_the_production_stack_give_a_config_for_each_model():
    text = ("servingEngineSpec:\n  modelSpec:\n  - name: one\n    repository: vllm/vllm-openai\n    modelURL: org/a\n"
            "    vllmConfig:\n      maxModelLen: 4096\n      enablePrefixCaching: true\n"
            f"      extraArgs: [--speculative-config, '{JSON}']\n"
            "  - name: two\n    modelURL: org/b\n    enableLoRA: true\n"
            "    env: [{name: VLLM_A, value: 1}]\n    vllmConfig: {tensorParallelSize: 2, v0: 1}\n")
    one, two = read_source(text, "values.yaml")
    assert one.values == {"model": "org/a", "max-model-len": 4096, "enable-prefix-caching": True,
                          "speculative-config": NGRAM}
    assert two.values == {"model": "org/b", "tensor-parallel-size": 2, "enable-prefix-caching": False,
                          "enable-lora": True}
    assert two.env == {"VLLM_A": "1", "VLLM_USE_V1": "0"}
    assert (one.part, lines(one)["max-model-len"]) == ("servingEngineSpec.modelSpec.0 (one)", 7)


@pytest.mark.parametrize("text", [
    "image: {repository: vllm/vllm-openai, tag: v1}\nvllm:\n  args: [--model, a/b]\n",
    "image: vllm/vllm-openai\nextraArgs: [--model=a/b]\n",
    "image:\n  command: [vllm, serve, a/b]\n",
    "modelArtifacts: {uri: hf://a/b}\ndecode:\n  containers:\n  - modelCommand: vllmServe\n    args: []\n",
])
def test_values_of_other_charts_are_read_where_something_in_them_starts_a_server(text: str):
    assert only(text).values == {"model": "a/b"}


# --- what is none of them
@pytest.mark.parametrize(("text", "message"), [
    ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", r"f:4: a chart's template, not a finished"),
    ("model: {{ include \"x\" . }}\n", r"f:1: a chart's template"),
    ("- a\n- b\n", "neither a serve config nor anything that starts a vLLM server"),
    ("just words", "neither a serve config"),
    ("a: [", "f:1: not valid YAML"),
    ("#!/bin/sh\necho hi\n", "a command line or start script in which no vLLM server is started"),
    ("services:\n  a: {image: nginx}\n", "a compose file in which no vLLM server is started"),
    ("vllm serve '{{ model }}' --seed 1", r"f:1: '\{\{ model \}\}' is an unfilled template"),
])
def test_what_cannot_be_read_is_said_in_a_sentence(text: str, message: str):
    with pytest.raises(InputError, match=message):
        read_source(text, "f")


# --- ignore comments of several servers
def test_ignore_comments_belong_to_the_server_they_stand_in_or_above():
    text = ("# specadvise: ignore SPD100 all\nvllm serve a # specadvise: ignore SPD101 one\n"
            "# specadvise: ignore SPD102 two\nvllm serve b\n")
    one, two = read_source(text, "run.sh")
    assert [ignore.code for ignore in one.ignores] == ["SPD100", "SPD101"]
    assert [ignore.code for ignore in two.ignores] == ["SPD100", "SPD102"]


@given(st.text(max_size=60), st.sampled_from([
    "", "model: a\n", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm\n    args: [--a, ",
    "services:\n  s:\n    image: vllm\n    command: ", "FROM vllm\nCMD ", "vllm serve ", "modelURL: x\nvllmConfig: ",
]))
def test_any_text_is_read_or_refused_in_a_sentence(tail: str, head: str):
    try:
        configs = read_source(head + tail, "f")
    except InputError:
        return
    assert configs


# --- systemd
def test_a_unit_gives_its_command_and_environment():
    config = only('[Unit]\nDescription=x\n[Service]\nEnvironment="VLLM_A=1" "B=x y"\nEnvironment=VLLM_C=3\n'
                  "EnvironmentFile=-/etc/v.env\nExecStart=-/opt/vllm serve a/b \\\n  --seed 1\nRestart=always\n")
    assert config.values == {"model": "a/b", "seed": 1}
    assert config.env == {"VLLM_A": "1", "B": "x y", "VLLM_C": "3"}
    assert lines(config) == {"model": 7, "seed": 8}
    assert config.notes == ("EnvironmentFile was not read: pass what matters with --env",)


# --- images
@pytest.mark.parametrize("text", [
    "docker run vllm/vllm-openai:v0.31.0 --model m",
    "services:\n  s:\n    image: vllm/vllm-openai:v0.31.0\n    command: --model m\n",
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.31.0\n"
    "    command: [sh, -c, vllm serve m]\n",
    'FROM vllm/vllm-openai:v0.31.0\nCMD ["--model", "m"]\n',
    "image: {repository: vllm/vllm-openai, tag: v0.31.0}\nargs: [--model, m]\n",
    "modelSpec:\n- repository: vllm/vllm-openai\n  tag: v0.31.0\n  modelURL: m\n",
])
def test_the_image_that_starts_a_server_is_known(text: str):
    assert only(text).image == "vllm/vllm-openai:v0.31.0"


# --- one server, however it is written down
letters = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="$`{}\ufeff")
words = st.text(letters, min_size=1, max_size=10).filter(
    lambda text: text.strip() == text and text[0] != "-" and text not in ("Infinity", "NaN"))
options = st.dictionaries(
    st.sampled_from(["max-model-len", "dtype", "seed", "speculative-config.method", "served-model-name",
                     "enforce-eager"]),
    st.one_of(words, st.integers(0, 10**6).map(str)), max_size=5)


@given(words, options)
def test_the_same_arguments_give_the_same_config_in_every_kind_of_file(model: str, chosen: dict[str, str]):
    arguments = ["--model", model]
    for name, value in chosen.items():
        arguments += [f"--{name}"] if name == "enforce-eager" else [f"--{name}", value]
    as_list = json.dumps(arguments, ensure_ascii=False)
    texts = [
        shlex.join(["vllm", "serve", *arguments]),
        f"services:\n  s:\n    image: vllm/vllm-openai\n    command: {as_list}\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai\n"
        f"    args: {as_list}\n",
        f"FROM vllm/vllm-openai\nCMD {as_list}\n",
        f"image: vllm/vllm-openai\nextraArgs: {as_list}\n",
        f"[Service]\nExecStart={shlex.join(['/opt/vllm', 'serve', *arguments])}\n",
    ]
    first, *others = [dict(only(text).values) for text in texts]
    assert all(other == first for other in others)
    assert first["model"] == model
