"""The unit: accepted by systemd's own verifier, reachable on loopback only, its variables as they were stated."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from advisor.emit.forms import write_forms
from advisor.record import Record
from tests.advisor.emit.forms.records import many

RECORDS = many()
CASES = [pytest.param(one, id=name) for name, one in RECORDS.items()]


def unit(deployed: Record) -> str:
    return write_forms(deployed, ("systemd",))["systemd"].files["vllm.service"]


def start(deployed: Record) -> str:
    (found,) = re.findall(r"^ExecStart=(.*)$", unit(deployed), re.MULTILINE)
    return str(found)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("deployed", CASES)
def test_systemd_finds_nothing_to_say_about_it(deployed: Record, tmp_path: Path) -> None:
    text = unit(deployed)
    # The verifier looks for the program, which this machine need not have.
    program = start(deployed).split()[0]
    service = tmp_path / "vllm.service"
    service.write_text(text.replace(program, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(service)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("deployed", CASES)
def test_every_line_is_a_comment_a_section_or_a_setting(deployed: Record) -> None:
    for line in unit(deployed).splitlines():
        assert re.fullmatch(r"#.*|\[(Unit|Service|Install)\]|[A-Z][A-Za-z]+=.*|", line), line


def test_it_listens_on_loopback_unless_the_config_says_where() -> None:
    assert "--config /etc/specadvise/vllm.yaml --host 127.0.0.1" in start(RECORDS["draft model"])
    assert "--host" not in start(RECORDS["options"])


def test_the_cpu_build_is_started_by_its_module() -> None:
    assert "-m vllm.entrypoints.openai.api_server --config" in start(RECORDS["cpu"])


def test_variables_stand_in_the_unit_and_secrets_in_a_file_that_is_not_written() -> None:
    files = write_forms(RECORDS["options"], ("systemd",))["systemd"].files
    assert set(files) == {"vllm.service"}
    lines = files["vllm.service"].splitlines()
    assert 'Environment="VLLM_LOGGING_LEVEL=$(HOME) %%h $HOME"' in lines
    assert "EnvironmentFile=-/etc/specadvise/vllm.env" in lines


def test_it_counts_as_started_once_it_answers_and_as_failed_once_the_server_is_gone() -> None:
    text = unit(RECORDS["options"])
    assert "https://127.0.0.1:9000/health; do kill -0 $$MAINPID || exit 1" in text
    assert "TimeoutStartSec=780" in text.splitlines()


def test_running_requests_get_time_to_finish_before_the_unit_is_killed() -> None:
    drain = int(start(RECORDS["draft model"]).split("--shutdown-timeout ")[1])
    (limit,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit(RECORDS["draft model"]), re.MULTILINE)
    assert int(limit) > drain
    assert "--shutdown-timeout" not in start(RECORDS["old"])
