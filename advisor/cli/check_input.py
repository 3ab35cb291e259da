"""What `specadvise check` is given (files, `-`, a command line as text), and the way from there to results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.checks.finding import SEVERITIES, CheckResult
from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources import read_source
from profiles.errors import InputError
from profiles.reading import read_stdin
from profiles.yaml_lines import MAX_BYTES, decoded, read_text

if TYPE_CHECKING:
    from advisor.checks.suppression import PolicyFile
    from advisor.cli.check_models import SubjectBuilder

EXPECTED = "a serve config, start script, compose file or manifest"


@dataclass(frozen=True)
class Given:
    """One serve config, and the folder its model folders are relative to."""

    config: ServeConfig
    folder: Path


def read_given(argument: str, env: Mapping[str, str]) -> list[Given]:
    """The serve configs of one CONFIG argument: a file, `-` for stdin, or a whole command line in quotes.

    InputError as `read_source`, and where the file cannot be read.
    """
    if argument == "-":
        text = decoded(read_stdin(EXPECTED, MAX_BYTES), "stdin", EXPECTED)
        return _read(text, "stdin", Path.cwd(), env)
    if _is_command_line(argument):
        return _read(argument, "command line", Path.cwd(), env)
    path = Path(argument)
    text = read_text(path, EXPECTED)
    return _read(text, argument, path.parent, env)


def _is_command_line(argument: str) -> bool:
    """A text with blanks that starts a server and is no file's name."""
    if not any(char.isspace() for char in argument):
        return False
    starts = "vllm" in argument and (" serve" in argument or "api_server" in argument or " run " in argument)
    if not starts:
        return False
    try:
        return not Path(argument).exists()
    except (OSError, ValueError):
        return True


def _read(text: str, name: str, folder: Path, env: Mapping[str, str]) -> list[Given]:
    def open_file(wanted: str) -> str | None:
        """A config file that a command line names: beside the source, or where the path says. A path inside of a
        container is not this machine's."""
        for candidate in dict.fromkeys((folder / wanted, folder / Path(wanted).name)):
            try:
                if candidate.is_file():
                    return read_text(candidate)
            except (OSError, ValueError):
                continue
        return None

    try:
        return [Given(config, folder) for config in read_source(text, name, env=env, open_file=open_file)]
    except RecursionError:
        raise InputError(f"{name}: nested too deeply; flatten it and run again") from None


def judge(
    given: Sequence[Given], builder: SubjectBuilder, fail_on: str = "error", policy: Path | None = None
) -> list[CheckResult]:
    """The results of all configs: rules, drift against the builder's record, then what the team decided.

    Args:
        policy: the policy file for all of them; else the nearest one at or above each config.

    Raises:
        InputError: a policy or a model file is damaged.
    """
    from advisor.checks.image import image_notices
    from advisor.checks.notice import all_notices
    from advisor.checks.registry import all_rules
    from advisor.checks.run import check
    from advisor.checks.suppression import Checked, apply

    (severity,) = (known for known in SEVERITIES if known == fail_on)
    checked = []
    for one in given:
        subject = builder.build(one.config, one.folder)
        result = check(subject, severity)
        result = result.model_copy(update={"findings": (*result.findings, *image_notices(one.config, subject.release)),
                                           "version_from": builder.release_of(one.config)[1]})
        if builder.record is not None:
            from advisor.checks.drift import drift

            result = result.model_copy(update={"findings": (*result.findings, *drift(subject, builder.record))})
        decided, path = _policy_of(one, policy)
        checked.append(Checked(result, one.config.ignores, decided, path))
    known = {rule.code for rule in all_rules()} | {notice.code for notice in all_notices()}
    return apply(checked, date.today(), known)


def _policy_of(one: Given, named: Path | None) -> tuple[PolicyFile | None, str]:
    """The policy that holds for a config, and the config's path as the policy's patterns see it."""
    from advisor.cli.policy_file import find_policy, load_policy

    folder = Path(os.path.abspath(one.folder))
    path = named if named is not None else find_policy(folder)
    if path is None:
        return None, ""
    place = os.path.relpath(folder / Path(one.config.name).name, os.path.abspath(path.parent))
    name = os.path.relpath(path) if named is None else str(path)
    return load_policy(Path(os.path.abspath(path)), name), Path(place).as_posix()
