"""`specadvise probe gpu` and `probe server` from the shell's side: output, files, exit codes, secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profiles.errors import ProbeError
from profiles.evidence import Evidence
from tests.cli.shell import run
from tests.cli.synthetic_serving import serving
from tests.probes import synthetic_nvml as gpus
from tests.probes.server import synthetic_pages as syn

SECRET = "key-that-must-not-appear"
SERVER_KEYS = {"engine", "engine_version", "models", "running", "waiting", "kv_cache_usage", "prompt_tokens",
               "output_tokens", "speculation", "window_s"}
SPECULATION_KEYS = {"enabled", "drafts", "draft_tokens", "accepted_tokens", "per_position", "acceptance_length"}


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[str, str]:
    before, after = tmp_path / "synthetic_v0.32_before.prom", tmp_path / "synthetic_v0.32_after.prom"
    old, new = [100.0] * 4, [100.0] * 4 + [30.0] * 6
    before.write_text(syn.page(syn.v1_engine(prompts=old, outputs=old, speculation={
        "drafts": 100, "draft_tokens": 300, "positions": [50, 20, 10]})))
    after.write_text(syn.page(syn.v1_engine(prompts=new, outputs=new, speculation={
        "drafts": 200, "draft_tokens": 600, "positions": [110, 50, 20]})))
    return str(before), str(after)


@pytest.fixture
def guarded() -> Iterator[str]:
    """A metrics page that wants a key."""
    with serving(lambda _: syn.page(syn.v1_engine()), allowed=lambda headers: (
            headers.get("Authorization") == f"Bearer {SECRET}" or headers.get("X-Key") == SECRET)) as url:
        yield url


def test_server_json_has_the_keys_scripts_rely_on(capsys: pytest.CaptureFixture[str], dumps: tuple[str, str]) -> None:
    code, out, _ = run(capsys, "probe", "server", *dumps, "--window", "10s", "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert set(found) >= SERVER_KEYS
    assert set(found["speculation"]) >= SPECULATION_KEYS
    assert found["speculation"]["acceptance_length"] == 2.0
    assert found["speculation"]["per_position"] == pytest.approx([0.6, 0.3, 0.1])
    assert found["running"] == {"value": 2.0, "low": 2.0, "high": 2.0, "n": 2, "source": "recorded",
                                "note": "requests; lowest and highest of 2 scrapes"}
    assert found["window_s"] == 10


def test_server_text_is_on_stdout_and_plain_when_piped(capsys: pytest.CaptureFixture[str],
                                                       dumps: tuple[str, str]) -> None:
    code, out, err = run(capsys, "probe", "server", *dumps, "--window", "10s")
    assert code == 0
    assert "acceptance length" in out
    assert "60.0%, 30.0%, 10.0%" in out
    assert "\x1b[" not in out
    assert err == ""


def test_names_with_brackets_are_printed_as_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "synthetic.prom"
    page.write_text(syn.page(syn.v1_engine(model="org/[bold]m[/x]")))
    _, out, _ = run(capsys, "probe", "server", str(page))
    assert "org/[bold]m[/x]" in out


def test_saved_evidence_reads_back_and_holds_the_command(capsys: pytest.CaptureFixture[str], dumps: tuple[str, str],
                                                         tmp_path: Path) -> None:
    path = tmp_path / "deep" / "evidence.json"
    code, _, err = run(capsys, "probe", "server", *dumps, "--save", str(path))
    evidence = Evidence.model_validate_json(path.read_text())
    assert code == 0
    assert evidence.kind == "server"
    assert evidence.server is not None
    assert evidence.server.speculation is not None
    assert evidence.command.startswith("specadvise probe server ")
    assert evidence.collected_at.endswith("Z")
    assert str(path) in err


def test_keys_open_the_server_and_appear_nowhere(capsys: pytest.CaptureFixture[str], guarded: str, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", SECRET + "\n")
    path = tmp_path / "evidence.json"
    host = guarded.removeprefix("http://")
    for options in (("--token-env", "SERVER_KEY"), ("--header", f"X-Key: {SECRET}")):
        code, out, err = run(capsys, "probe", "server", f"http://u:{SECRET}@{host}?k={SECRET}", "--window", "100ms",
                             "--format", "json", "--save", str(path), *options)
        assert code == 0
        assert SECRET not in out + err + path.read_text()
        assert json.loads(out)["url"] == f"{guarded}/metrics"


def test_a_refused_scrape_exits_4_with_one_sentence_and_no_key(capsys: pytest.CaptureFixture[str],
                                                               guarded: str) -> None:
    code, out, err = run(capsys, "probe", "server", guarded, "-q", "--header", f"X-Other: {SECRET}")
    assert (code, out) == (4, "")
    assert "--token-env" in err
    assert SECRET not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "says"), [
    (("missing.prom",), "missing.prom does not exist"),
    (("http://127.0.0.1:9", "--token-env", "NO_SUCH_VARIABLE_SET"), "does not name an environment variable"),
    (("http://127.0.0.1:9", "--header", SECRET), "number 1"),
    (("http://127.0.0.1:9", "--window", "soon"), "90s"),
    (("http://127.0.0.1:9", "--window", "0"), "above 0"),
    (("http://",), "URL"),
    ((), "URL-OR-DUMP"),
])
def test_wrong_use_exits_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run(capsys, "probe", "server", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert SECRET not in err


def test_evidence_that_cannot_be_written_exits_2(capsys: pytest.CaptureFixture[str], dumps: tuple[str, str],
                                                 tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err = run(capsys, "probe", "server", *dumps, "--save", str(tmp_path / "file" / "evidence.json"))
    assert code == 2
    assert "cannot write" in err


# --- gpu ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def synthetic_machine(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """probe_gpu on synthetic cards; the command itself is the real one."""
    import probes.gpu

    cards: list[Any] = [gpus.synthetic_h100()]
    real = probes.gpu.probe_gpu

    def probed(window_s: float = 1.0) -> Any:
        return real(window_s, nvml=gpus.SyntheticNvml(cards), environment={}, sleep=lambda _: None)

    monkeypatch.setattr(probes.gpu, "probe_gpu", probed)
    return cards


def test_gpu_json_lists_devices_and_no_headroom_unless_asked(capsys: pytest.CaptureFixture[str],
                                                             synthetic_machine: list[Any]) -> None:
    code, out, _ = run(capsys, "probe", "gpu", "--format", "json", "-q")
    found = json.loads(out)
    assert code == 0
    assert found["devices"][0]["name"] == "NVIDIA H100 80GB HBM3"
    assert found["devices"][0]["utilization"]["n"] == 5
    assert found["headroom"] is None
    assert found["driver"] == "590.48.01"


def test_gpu_text_shows_every_device_and_slice(capsys: pytest.CaptureFixture[str],
                                               synthetic_machine: list[Any]) -> None:
    synthetic_machine[:] = [gpus.synthetic_h100_mig(), gpus.synthetic_gb10(), gpus.synthetic_rtx_4080_super()]
    code, out, err = run(capsys, "probe", "gpu", "--window", "200ms")
    assert code == 0
    for words in ("GPU 0: NVIDIA H100 80GB HBM3", "MIG 3g.40gb", "39.50 GiB total", "GPU 1: NVIDIA GB10",
                  "shared with the host", "GPU 2: NVIDIA GeForce RTX 4080 SUPER", "15.99 GiB total", "cap 320 W"):
        assert words in out
    assert "\x1b[" not in out
    assert "sampling" in err


def test_gpu_evidence_is_saved_for_advise(capsys: pytest.CaptureFixture[str], synthetic_machine: list[Any],
                                          tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    code, _, _ = run(capsys, "probe", "gpu", "--save", str(path))
    evidence = Evidence.model_validate_json(path.read_text())
    assert code == 0
    assert evidence.gpu is not None
    assert evidence.gpu.devices[0].total_bytes == 81559 * 2**20
    assert evidence.command == "specadvise probe gpu --window 1s"


def test_no_driver_exits_4_and_says_what_to_state(capsys: pytest.CaptureFixture[str],
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    import probes.gpu

    machine = gpus.SyntheticNvml([], start_error=pynvml.NVMLError_LibraryNotFound())
    monkeypatch.setattr(probes.gpu, "_driver", lambda: machine)
    code, out, err = run(capsys, "probe", "gpu", "-q")
    assert (code, out) == (4, "")
    assert "hardware.gpu: cpu" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", [("--draft", "m"), ("--context", "100")])
def test_headroom_options_need_a_target(capsys: pytest.CaptureFixture[str], option: tuple[str, str]) -> None:
    code, _, err = run(capsys, "probe", "gpu", *option)
    assert code == 2
    assert "--target" in err


def test_a_probe_error_of_the_gpu_is_an_exit_of_4(capsys: pytest.CaptureFixture[str],
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    import probes.gpu

    def fails(_: float) -> Any:
        raise ProbeError("GPU 0 is gone: reboot")

    monkeypatch.setattr(probes.gpu, "probe_gpu", fails)
    code, _, err = run(capsys, "probe", "gpu", "-q")
    assert code == 4
    assert err == "specadvise: GPU 0 is gone: reboot\n"


EVIL = "org/\x1b]0;owned\x07m\x9b2J\u202eb"


@pytest.mark.parametrize("how", [[], ["--format", "json"]])
def test_a_served_name_drives_no_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path, how: list[str]) -> None:
    dump = tmp_path / "synthetic.prom"
    dump.write_text(syn.page(syn.v1_engine(running=1, model=EVIL)))
    code, out, err = run(capsys, "probe", "server", str(dump), *how)
    assert code == 0
    assert "owned" in out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(out + err)
    if how:
        assert json.loads(out)["models"] == [EVIL]
    code, out, err = run(capsys, "probe", "server", str(dump), "--model", "\x1b[2J")
    assert code == 2
    assert "is not served here" in err
    assert "\x1b" not in err
