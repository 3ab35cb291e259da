"""What an engine's source says of its options, on a small synthetic source."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from profiles.catalog.derive_options import forbids_unknown_keys, mapping_keys, serve_options
from profiles.catalog.derive_releases import as_yaml, derive_releases
from profiles.errors import InputError

CONFIG = '''
from typing import Literal, Optional, Union
Kind = Literal["fp8", "auto"]
Wider = Literal[Kind, "bf16"]
Method = Literal["ngram"]

class Mode(IntEnum):
    A = 1

@config
class Inner:
    depth: int = Field(default=2, gt=0)
    sizes: list[int] | None = None
    mode: Mode = Mode.A
    _hidden: int = 0

@config
class ModelConfig:
    max_model_len: int = Field(default=None, ge=-1)
    dtype: Wider = "auto"
    quantization: Kind | str | None = None
    enforce_eager: bool = False
    token: Optional[Union[bool, str]] = None
    share: float = Field(default=0.9, gt=0, le=1)
    names: str | list[str] | None = None
    capture: list[int] | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    backend: SomethingElsewhere | None = None
    inner: Inner | None = None

@config
class SpeculativeConfig:
    method: Method | None = None
    num_speculative_tokens: int = Field(default=None, gt=0)
'''
ARGUMENTS = '''
class EngineArgs:
    def add_cli_args(parser):
        model_kwargs = get_kwargs(ModelConfig)
        group.add_argument("--max-model-len", **model_kwargs["max_model_len"])
        group.add_argument("--dtype", **{**model_kwargs["dtype"], "default": None})
        group.add_argument("--quantization", "-q", **model_kwargs["quantization"])
        group.add_argument("--enforce-eager", **model_kwargs["enforce_eager"])
        group.add_argument("--token", **model_kwargs["token"])
        group.add_argument("--share", "--part", **model_kwargs["share"])
        group.add_argument("--names", **model_kwargs["names"])
        group.add_argument("--capture", **model_kwargs["capture"])
        group.add_argument("--overrides", **model_kwargs["overrides"])
        group.add_argument("--backend", **model_kwargs["backend"])
        group.add_argument("--inner", **model_kwargs["inner"])
        loose_kwargs = model_kwargs["dtype"]
        loose_kwargs["type"] = lambda s: s.lower()
        group.add_argument("--loose", **loose_kwargs)
        parser.add_argument("--plain-count", type=int, default=3)
        parser.add_argument("--mark", action="store_true")
        parser.add_argument("--both_ways", action=argparse.BooleanOptionalAction)
        parser.add_argument("--pick", choices=["a", "b"])
        parser.add_argument("--computed", type=lambda s: s)
'''
FRONT = '''
class FrontendArgs:
    port: int = 8000
    host: str | None = None
'''


def write(folder: Path, version: str = "0.32.0", config: str = CONFIG) -> Path:
    files = {"config/model.py": config, "config/utils.py": 'ConfigDict(extra="forbid")',
             "engine/arg_utils.py": ARGUMENTS, "entrypoints/openai/cli_args.py": FRONT}
    for name, text in files.items():
        (folder / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vllm" / name).write_text(text)
    info = folder / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Name: vllm\nVersion: {version}\n")
    return folder


@pytest.mark.parametrize(("option", "fact"), [
    ("max-model-len", {"kind": "window", "min": -1}),
    ("dtype", {"kind": "choice", "choices": ["fp8", "auto", "bf16"]}),
    ("quantization", {"kind": "any", "optional": True}),
    ("enforce-eager", {"kind": "switch"}),
    ("token", {"kind": "switch or text", "optional": True}),
    ("share", {"kind": "float", "above": 0, "max": 1}),
    ("part", {"kind": "float", "above": 0, "max": 1}),
    ("names", {"kind": "list", "optional": True}),
    ("capture", {"kind": "list", "of": "int", "optional": True}),
    ("overrides", {"kind": "json"}),
    ("backend", {"kind": "any", "optional": True}),
    ("inner", {"kind": "json", "keys_of": "Inner", "optional": True}),
    ("loose", {"kind": "choice", "choices": ["fp8", "auto", "bf16"], "loose": True}),
    ("plain-count", {"kind": "int"}),
    ("mark", {"kind": "flag"}),
    ("both-ways", {"kind": "switch"}),
    ("pick", {"kind": "choice", "choices": ["a", "b"], "optional": True}),
    ("computed", {"kind": "any"}),
    ("port", {"kind": "int"}),
    ("host", {"kind": "text", "optional": True}),
])
def test_an_option_takes_what_its_field_or_its_own_call_says(
    tmp_path: Path, option: str, fact: dict[str, object]
) -> None:
    assert serve_options(write(tmp_path) / "vllm")[option] == fact


def test_keys_of_a_mapping_are_the_fields_of_its_class(tmp_path: Path) -> None:
    keys = mapping_keys(write(tmp_path) / "vllm")
    assert keys["inner"] == {"depth": {"kind": "int", "above": 0}, "sizes": {"kind": "list", "of": "int",
                                                                           "optional": True}, "mode": {"kind": "any"}}
    assert keys["speculative-config"]["num_speculative_tokens"] == {"kind": "int", "above": 0}
    assert forbids_unknown_keys(tmp_path / "vllm")


def test_releases_that_agree_share_a_span_and_the_file_reads_back_alike(tmp_path: Path) -> None:
    older = write(tmp_path / "older", "0.31.0", CONFIG.replace("    enforce_eager: bool = False\n", "").replace(
        "gt=0, le=1", "gt=0"))
    newer = write(tmp_path / "newer")
    tables = derive_releases([newer, older])
    assert tables["read"] == ["0.31.0", "0.32.0"]
    assert tables["options"]["port"] == [{"since": "0.31.0", "kind": "int"}]
    assert tables["options"]["share"] == [{"since": "0.31.0", "until": "0.32.0", "kind": "float", "above": 0},
                                          {"since": "0.32.0", "kind": "float", "above": 0, "max": 1}]
    written = yaml.safe_load(as_yaml(tables, {"port": {"min": 1}}, {"kinds": ["A", "B"]}))
    assert written == {**tables, "always": {"port": {"min": 1}}, "names": {"kinds": ["A", "B"]}}


def test_the_same_release_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the same release"):
        derive_releases([write(tmp_path / "one"), write(tmp_path / "two")])
