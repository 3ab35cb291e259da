"""Shell words: what the shell would pass on, without running anything."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from advisor.checks.sources.words import MAX_WORDS, assigned, split
from profiles.errors import InputError


def texts(script: str, **known: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in split(script, "s.sh", known=known)]


@pytest.mark.parametrize(("script", "expected"), [
    ("vllm serve a/b --x 1", [["vllm", "serve", "a/b", "--x", "1"]]),
    ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
    ("a \\\n  b \\\n c", [["a", "b", "c"]]),
    ("a # rest\nb", [["a"], ["b"]]),
    ("a#b", [["a#b"]]),
    ("a; b && c || d & e | f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
    ("a > out.log 2>&1 < in", [["a"]]),
    ("cat <<EOF > f\nvllm serve x\nEOF\nb", [["cat"], ["b"]]),
    ("a '' \"\"", [["a", "", ""]]),
    ("a 'it'\"'\"'s'", [["a", "it's"]]),
    ("a \"x\\\"y\\n\"", [["a", 'x"y\\n']]),
    ("a\r\nb\r\n", [["a"], ["b"]]),
    ("X=1\na $X ${X} \"${X}b\"", [["a", "1", "1", "1b"]]),
    ("X='1 2'\na $X \"$X\"", [["a", "1", "2", "1 2"]]),
    ("a ${Y:-8000} ${Y-7}", [["a", "8000", "7"]]),
    ("A=(--x 1\n # why\n --y)\nA+=(z)\nb \"${A[@]}\" c", [["b", "--x", "1", "--y", "z", "c"]]),
    ("FOO=1 BAR='a b' cmd x", [["cmd", "x"]]),
])
def test_words_are_those_of_the_shell(script: str, expected: list[list[str]]):
    assert texts(script) == expected


def test_variables_set_before_a_command_are_its_environment_and_exported_ones_too():
    commands = split("export A=1\nB=2\nC=3 run", "s.sh")
    assert (commands[0].env, commands[0].exported) == ({"C": "3"}, {"A": "1"})


def test_what_only_running_could_tell_keeps_its_spelling_and_is_named():
    (command,) = split('run $HOME/x "$(cat f)" `date` $@ ${Z}', "s.sh")
    assert [word.unknown for word in command.words] == [(), ("$HOME",), ("$(cat f)",), ("`date`",), ("$@",), ("${Z}",)]
    assert command.words[1].text == "$HOME/x"


def test_lines_are_those_of_the_file():
    (command,) = split("a \\\n  'b\nc' \\\n  d", "s.sh", first_line=10)
    assert [(word.text, word.line) for word in command.words] == [("a", 10), ("b\nc", 11), ("d", 13)]


def test_single_quotes_keep_dollars():
    (command,) = split("a '$X' $'y'", "s.sh")
    assert [(word.text, word.unknown) for word in command.words[1:]] == [("$X", ()), ("y", ())]


@pytest.mark.parametrize(("script", "message"), [
    ("a\nb 'open", r"s\.sh:2: a quote ' is not closed"),
    ('a "open', r's\.sh:1: a quote " is not closed'),
    ("a $(open", r"s\.sh:1: a \( is not closed"),
])
def test_what_is_not_closed_is_said_with_its_line(script: str, message: str):
    with pytest.raises(InputError, match=message):
        split(script, "s.sh")


def test_doubling_variables_end_in_a_sentence_not_in_memory():
    script = "A=" + "x" * 1000 + "\n" + "\n".join(f"A=$A$A$A$A # {n}" for n in range(20))
    with pytest.raises(InputError, match="grow a word past"):
        split(script, "s.sh")


def test_one_long_value_in_many_variables_ends_in_a_sentence_too():
    script = "A=" + "x" * 500_000 + "\n" + "\n".join(f"A{n}=$A" for n in range(1000))
    with pytest.raises(InputError, match="grow a word past"):
        split(script, "s.sh")


def test_doubling_arrays_end_in_a_sentence_not_in_memory():
    script = "A=(x y)\n" + "\n".join('A=("${A[@]}" "${A[@]}")' for _ in range(40))
    with pytest.raises(InputError, match=f"more than {MAX_WORDS} words"):
        split(script, "s.sh")


def test_assigned_gives_the_variables_a_text_sets():
    assert assigned('A=1 B="x y" C=$OUTSIDE', "f") == {"A": "1", "B": "x y"}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12), min_size=1,
                max_size=6))
def test_whatever_is_quoted_comes_back_as_it_was(words: list[str]):
    (command,) = split(shlex.join(["run", *words]), "s.sh")
    assert [word.text for word in command.words] == ["run", *words]


@given(st.text(max_size=80))
@example("${A[@]}")
@example("A=(")
@example("a <<")
@example("\\")
def test_any_text_is_split_or_refused_in_a_sentence(script: str):
    try:
        commands = split(script, "s.sh")
    except InputError:
        return
    assert all(1 <= word.line <= script.count("\n") + 1 for command in commands for word in command.words)
