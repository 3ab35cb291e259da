"""From synthetic engine logs (lines as vLLM 0.32 prints them) to one line and a kind of end."""

import pytest

from probes.trial.engine_errors import LONGEST, classify, last_error, one_line, plain
from profiles.evidence import ArmStatus

VOCAB = """\
INFO 11-29 10:00:00 [__init__.py:44] plugin loaded
(MainProcess pid=41) \x1b[31mERROR\x1b[0m 11-29 10:00:02 [core.py:900] something went wrong
Traceback (most recent call last):
  File "/opt/site-packages/vllm/config/speculative.py", line 1870, in check
pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
  Value error, Target and draft model should have the same vocabulary size. Target model vocab_size=49152. \
[type=value_error, input_value={'a': 1}, input_type=dict]
    For further information visit https://errors.pydantic.dev/2.11/v/value_error
"""


def test_a_pydantic_error_is_told_by_its_sentence_without_the_frame():
    assert last_error(VOCAB) == (
        "ValidationError: Target and draft model should have the same vocabulary size. Target model vocab_size=49152.")


def test_the_last_error_line_wins_over_earlier_ones():
    log = "ValueError: first\nduring handling\nRuntimeError: second\nexiting\n"
    assert last_error(log) == "RuntimeError: second"


def test_an_error_that_only_points_elsewhere_yields_to_the_one_it_points_to():
    log = "ValueError: No room\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    assert last_error(log) == "ValueError: No room"


def test_colours_prefixes_and_folders_are_stripped_but_addresses_stay():
    line = "(EngineCore pid=7) ERROR 11-29 10:00:02 [core.py:9] \x1b[1mOSError: /home/me/tiny/config.json missing"
    assert plain(line) == "OSError: config.json missing"
    address = "ImportError: see https://docs.vllm.ai/en/latest/x for help"
    assert plain(address) == address


def test_a_long_error_is_cut_and_stays_one_line():
    text = one_line("ValueError: " + "word\n" * 500)
    assert len(text) == LONGEST
    assert "\n" not in text
    assert text.endswith("…")


@pytest.mark.parametrize("line", [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried to",
    "ValueError: To serve at least one request with the models's max seq len (8192), 1.38 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.50 GiB).",
    "MemoryError: std::bad_alloc",
])
def test_lack_of_memory_is_recognised_by_its_text_before_and_after_the_start(line):
    assert classify(None, line, 1, ready=False).status is ArmStatus.OUT_OF_MEMORY
    assert classify(line, "", None, ready=True).status is ArmStatus.OUT_OF_MEMORY


def test_an_error_before_ready_is_a_refusal_and_after_it_a_crash():
    assert classify("ValueError: no", "", 1, ready=False).status is ArmStatus.REFUSED
    assert classify("ValueError: no", "", 1, ready=True).status is ArmStatus.CRASHED


def test_a_child_killed_from_outside_is_a_crash_that_names_the_signal():
    failure = classify(None, "INFO all well\n", -9, ready=True)
    assert failure.status is ArmStatus.CRASHED
    assert "SIGKILL" in str(failure)


def test_a_silent_end_says_its_exit_status():
    assert "exit status 3" in str(classify(None, "", 3, ready=False))


def test_what_the_child_says_itself_is_preferred_to_older_lines_of_its_log():
    failure = classify("ValueError: said", "KeyError: logged\n", 1, ready=False)
    assert str(failure) == "ValueError: said"
