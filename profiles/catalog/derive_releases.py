"""`python -m profiles.catalog.derive_releases FOLDER...`: rebuild `data/options.yaml` from several releases' sources.

Each FOLDER holds a `vllm` package (an unpacked wheel or source distribution, a site-packages folder). Nothing of the
engine is imported or run. Run `python -m profiles.catalog.compile` afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from profiles.catalog.compile import read_source
from profiles.catalog.compiled import DATA
from profiles.catalog.derive import find_source
from profiles.catalog.derive_options import forbids_unknown_keys, mapping_keys, serve_options
from profiles.catalog.options import merged
from profiles.catalog.releases import version_tuple
from profiles.errors import InputError, SpecadviseError

_HEAD = """\
# What `vllm serve` takes, by release. Made by `python -m profiles.catalog.derive_releases FOLDER...` from the source of
# the releases in `read`; since is inclusive, until exclusive. Written by hand are `always`, bounds that every
# release has, whether or not it declares them (it divides by the value, or loops over it), and `names`: values that the
# sources define outside of what is read (attention backends: the union of the registries of 0.11, 0.28 and 0.32).
# After an edit: python -m profiles.catalog.compile
"""


def derive_releases(folders: Sequence[Path]) -> dict[str, Any]:
    """The tables of `data/options.yaml`, without the part that is written by hand."""
    packages = sorted(((version_tuple(version), package) for package, version in map(find_source, folders)),
                      key=lambda pair: pair[0])
    versions = [".".join(map(str, version)) for version, _ in packages]
    if len(set(versions)) < len(versions):
        raise InputError("two folders hold the same release: name each release once")
    named = list(zip(versions, (package for _, package in packages), strict=True))
    keys = [(version, mapping_keys(package)) for version, package in named]
    options = {option for _, table in keys for option in table}
    forbids: list[tuple[str, dict[str, dict[str, Any]]]] = [
        (version, {"": {}} if forbids_unknown_keys(package) else {}) for version, package in named]
    return {
        "read": versions,
        "refuses_unknown_keys": merged(forbids).get("", []),
        "options": merged((version, serve_options(package)) for version, package in named),
        "mappings": {option: spans for option in sorted(options)
                     if (spans := merged((version, table.get(option, {})) for version, table in keys))},
    }


def as_yaml(tables: Mapping[str, Any], always: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    """The file's text: one line an option and span; `always` and `names` as they stood."""
    lines = [_HEAD + f"read: {_flow(tables['read'])}", f"refuses_unknown_keys: {_flow(tables['refuses_unknown_keys'])}",
             "always:"]
    lines += [f"  {name}: {_flow(bounds)}" for name, bounds in always.items()]
    lines += ["names:", *(f"  {name}: {_flow(values)}" for name, values in names.items())]
    lines += ["options:", *_spans(tables["options"], "  "), "mappings:"]
    for option, keys in tables["mappings"].items():
        lines += [f"  {option}:", *_spans(keys, "    ")]
    return "\n".join(lines) + "\n"


def _spans(table: Mapping[str, Sequence[Mapping[str, Any]]], indent: str) -> list[str]:
    lines = []
    for name, spans in table.items():
        if len(spans) == 1:
            lines.append(f"{indent}{name}: [{_flow(spans[0])}]")
        else:
            lines += [f"{indent}{name}:", *(f"{indent}- {_flow(span)}" for span in spans)]
    return lines


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.strip()


def main(argv: list[str]) -> int:
    """Writes the file; 2 where a folder holds no release."""
    if not argv:
        sys.stderr.write(__doc__ or "")
        return 2
    try:
        tables = derive_releases([Path(folder) for folder in argv])
    except SpecadviseError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    target = DATA / "options.yaml"
    by_hand = read_source("options") if target.is_file() else {"always": {}, "names": {}}
    beside = target.with_suffix(".new")
    beside.write_text(as_yaml(tables, by_hand["always"], by_hand["names"]), encoding="utf-8")
    os.replace(beside, target)
    sys.stderr.write(f"wrote {len(tables['options'])} options of {len(tables['read'])} releases\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
