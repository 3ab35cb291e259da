"""Which release a config is judged for: the one asked for, else what the file itself says, else what is here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from advisor.cli.check import _unstated_version
from advisor.cli.gathering import engine_version
from advisor.cli.group import cli
from advisor.emit.forms import write_forms
from advisor.emit.heading import ENVIRONMENT, environment_written, release_written, written_for
from advisor.emit.yaml_text import write
from profiles.catalog.options import newest_read, newest_whole, was_read
from profiles.catalog.releases import release
from profiles.deployment import Deployment
from tests.advisor.report.synthetic_record import enabled

DRAFTED = ("model: Qwen/Qwen3-8B\nspeculative-config:\n  method: draft_model\n  model: Qwen/Qwen3-0.6B\n"
           "  num_speculative_tokens: 3\n")
BODY = ("model: Qwen/Qwen3-8B\nmax-num-seqs: 32\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n"
        "  prompt_lookup_max: 4\n")


def header(version: str, end: str = ".") -> str:
    return f"# {written_for(release(version))}{end}\n"


def judged(folder: Path, *texts: str, more: tuple[str, ...] = ()) -> list[dict[str, str]]:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"config-{number}.yaml"
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    ran = CliRunner().invoke(cli, ["check", *paths, "--gpu", "H100", "--gpus", "1", "--format", "json", *more],
                             standalone_mode=False)
    found = json.loads(ran.stdout)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("version", ["0.32.0", "0.24.0", "0.30", "0.33.0rc1", "nightly", "0.99.0"])
def test_a_file_of_our_own_is_judged_for_the_release_it_was_written_for(tmp_path: Path, version: str) -> None:
    (found,) = judged(tmp_path, header(version) + BODY)
    assert found["vllm_version"] == version
    assert found["version_from"] == "as the file's own header says"


def test_an_explicit_release_wins_and_a_deployment_file_does_too(tmp_path: Path) -> None:
    (asked,) = judged(tmp_path, header("0.24.0") + BODY, more=("--vllm-version", "0.31.0"))
    assert (asked["vllm_version"], asked["version_from"]) == ("0.31.0", "")
    deployment = tmp_path / "deployment.yaml"
    deployment.write_text("target: Qwen/Qwen3-8B\nengine: {vllm_version: 0.29.0}\nhardware: {gpu: H100}\n")
    (stated,) = judged(tmp_path, header("0.24.0") + BODY, more=("--deployment", str(deployment)))
    assert (stated["vllm_version"], stated["version_from"]) == ("0.29.0", "as the deployment file states")


def test_each_file_of_a_call_is_judged_for_its_own_release(tmp_path: Path) -> None:
    found = judged(tmp_path, header("0.24.0") + BODY, header("0.32.0") + BODY, BODY)
    assert [one["vllm_version"] for one in found[:2]] == ["0.24.0", "0.32.0"]
    assert found[2]["version_from"] in ("the installed one", "the newest known: nobody states one")


@pytest.mark.parametrize("first", [
    "# written by specadvise 0.1.0 for vLLM 0.24.0.\n",
    "#Written by specadvise 0.1.0 for vLLM 0.24.0.\n",
    "# Written by specadvise for vLLM 0.24.0.\n",
    "# Written by specadvise 0.1.0 for vLLM 0.24.0 .\n",
    "# Written by specadvise 0.1.0 for vLLM 0.24.0 and more.\n",
    "# Written by specadvise 0.1.0 for vLLM tomorrow.\n",
    "# Written by specadvise 0.1.0 for vLLM 0.24.0\n",
    "note: Written by specadvise 0.1.0 for vLLM 0.24.0.\n",
    "\n# Written by specadvise 0.1.0 for vLLM 0.24.0.\n",
])
def test_a_line_that_only_resembles_the_header_says_nothing(tmp_path: Path, first: str) -> None:
    assert release_written(first + BODY) is None
    (found,) = judged(tmp_path, first + BODY)
    assert found["version_from"] != "as the file's own header says"


@given(st.text(max_size=300))
def test_any_text_is_read_without_harm(text: str) -> None:
    found = release_written(text)
    assert found is None or release(found).version


@pytest.mark.parametrize("version", ["0.32.0", "0.12.0", "0.99.0", "nightly"])
@pytest.mark.parametrize("end", [".", " (newer than this tool knows: the rules of the newest known one were used).",
                                 ": a compose file.", " (a release that this tool does not know): a compose file."])
def test_what_is_written_is_read_back_also_where_the_line_is_wrapped(version: str, end: str) -> None:
    text = write([f"{written_for(release(version))}{end}", "Start it with: vllm serve"], [])
    assert release_written(text) == release(version).version
    assert release_written("\ufeff" + text.replace("\n", "\r\n")) == release(version).version


def test_every_form_that_is_written_says_its_release() -> None:
    record = enabled()
    for form in ("compose", "kubernetes", "systemd"):
        first = next(iter(write_forms(record, (form,))[form].files.values()))
        assert release_written(first) == record.provenance.vllm_version


def test_the_text_says_which_release_was_judged_and_who_stated_it(tmp_path: Path) -> None:
    path = tmp_path / "vllm.yaml"
    path.write_text(header("0.24.0") + BODY)
    ran = CliRunner().invoke(cli, ["check", str(path), "--gpu", "H100"], standalone_mode=False)
    assert "for vLLM 0.24.0, as the file's own header says" in ran.stdout
    path.write_text(BODY)
    ran = CliRunner().invoke(cli, ["check", str(path), "--gpu", "H100"], standalone_mode=False)
    said = f"for vLLM {newest_whole()}, the newest known: nobody states one"
    assert said in ran.stdout or "the installed one" in ran.stdout


def test_the_release_taken_where_nobody_states_one_is_known_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.cli.gathering.installed_version", lambda: None)
    taken, (said,) = engine_version(Deployment(target="org/model"))
    assert was_read(release(taken).rules)
    assert release(taken).known
    assert said.endswith(f"{taken}, the newest known")
    assert taken == newest_whole() == newest_read()
    assert _unstated_version()[0] == taken, "what `advise` writes, `check` knows"


ASKED = f"#\n# {ENVIRONMENT}\n# - VLLM_USE_V2_MODEL_RUNNER=0\n# - OMP_NUM_THREADS=4\n"


def test_a_file_of_our_own_is_judged_with_the_environment_it_asks_for(tmp_path: Path) -> None:
    """`advise` cannot write variables into a serve config: its header asks for them."""
    assert environment_written(header("0.32.0") + ASKED + BODY) == {
        "VLLM_USE_V2_MODEL_RUNNER": "0", "OMP_NUM_THREADS": "4"}
    asking, plain = judged(tmp_path, header("0.32.0") + ASKED + DRAFTED, header("0.32.0") + DRAFTED)
    codes = [{finding["code"] for finding in one["findings"]} for one in (asking, plain)]
    assert "SPD344" not in codes[0]
    assert "SPD344" in codes[1]


def test_an_environment_that_is_stated_wins_over_the_files_own(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, header("0.32.0") + ASKED + DRAFTED, more=("--env", "VLLM_USE_V2_MODEL_RUNNER=1"))
    assert "SPD344" in {finding["code"] for finding in found["findings"]}


@pytest.mark.parametrize("text", [ASKED + BODY, header("0.32.0") + BODY, header("0.32.0") + f"# {ENVIRONMENT}\n" + BODY,
                                  header("0.32.0") + f"# {ENVIRONMENT}\n# - a=b\n# - $(HOME)\n" + BODY])
def test_no_other_text_asks_for_an_environment(text: str) -> None:
    assert environment_written(text) == {}


def test_an_environment_that_the_file_asks_for_wins_over_the_records(tmp_path: Path) -> None:
    """Whoever edits the line starts the server so: what differs from the record is told."""
    record = tmp_path / "record.json"
    record.write_text(enabled().model_dump_json())
    asking = header("0.32.0") + ASKED.replace("RUNNER=0", "RUNNER=1") + DRAFTED
    (found,) = judged(tmp_path, asking, more=("--record", str(record)))
    assert "SPD344" in {finding["code"] for finding in found["findings"]}
