"""The workload of `check`: each mistake is one sentence with its line, its field, its value and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.cli.workload_file import load_workload
from profiles.errors import InputError


@pytest.mark.parametrize(("text", "said"), [
    ('{\n "concurrency": "many"\n}',
     "w.json:2: concurrency is 'many': expected a whole number; correct it and run again"),
    ('{"concurrency": 0}', "w.json:1: concurrency is 0: expected a number of at least 1"),
    ('{"concurrency": true}', "w.json:1: concurrency is true: expected a number, not true or false"),
    ('{"concurrency": 1.5}', "w.json:1: concurrency is 1.5: expected a whole number"),
    ('{\n\n "concurency": 8}', "w.json:3: the workload has no field 'concurency': did you mean 'concurrency'?"),
    ('{"x": 8}', "w.json:1: the workload has no field 'x': expected one of concurrency, prompt_len,"),
    ('{"task": 5}', "w.json:1: task is 5: expected text"),
    ('{\n"task": "poetry"}', "w.json:2: task: unknown task 'poetry': expected one of code,"),
    ('{"prompt_len": -1,\n "output_len": "x"}', "w.json:2: output_len is 'x': expected a whole number"),
    ("[1]", "w.json:1: the workload is a list: expected a JSON object with concurrency,"),
    ("7", "w.json:1: the workload is 7: expected a JSON object"),
    ('{"concurrency": 8,}', "w.json:1: not JSON ("),
    ('{\n"a" 1}', "w.json:2: not JSON (a colon is missing behind a key)"),
    ('{"concurrency": 1, "concurrency": 2}', "key 'concurrency' stands twice in the same mapping; keep one"),
    ('{"concurrency": NaN}', "NaN is no JSON number"), ("[" * 100_000, "nested too deeply"),
])
def test_each_mistake_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.json").write_text(text)
    with pytest.raises(InputError) as caught:
        load_workload(Path("w.json"))
    assert said in str(caught.value)
    assert "Input should" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", '{"concurrency": null}', '\ufeff{"task": "json"}\r\n'])
def test_all_of_it_may_be_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.json").write_text(text)
    assert load_workload(tmp_path / "w.json").concurrency is None
