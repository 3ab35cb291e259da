"""The target's tokens of a recorded text, with the `tokenizers` library and the target's own chat template; no torch.

The template runs in jinja's sandbox, with the names that model publishers rely on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from probes.hub import cached_snapshot, is_repo_id, offline_by_environment
from probes.replay.recordings import Messages, Recording, Text
from profiles.errors import InputError, TokenizerMissing
from profiles.json_text import json_problem

_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
NO_TEMPLATE = "the target has no chat template: messages were joined as plain text"
BY_TEXT = ("outputs recorded as text were cut into tokens again: where the target had cut them otherwise, a token more "
           "or less is counted")


@dataclass
class TargetTokenizer:
    """Turns recordings into token ids. `notes` say what had to be guessed."""

    encoder: Any
    template: str | None = None
    special: Mapping[str, str] = field(default_factory=dict)
    notes: set[str] = field(default_factory=set)

    def ids(self, recording: Recording) -> tuple[list[int], int]:
        """Prompt and output ids in one list, and how many of them are the prompt's. ValueError says what is wrong."""
        prompt = self._prompt(recording.prompt)
        if isinstance(recording.output, str):
            self.notes.add(BY_TEXT)
            output = list(self._encode(recording.output, False))
        else:
            output = list(recording.output)
        return prompt + output, len(prompt)

    def _prompt(self, prompt: Text | Messages) -> list[int]:
        if isinstance(prompt, str):
            return self._encode(prompt, True)
        ids = [token for token in prompt if isinstance(token, int)]
        if len(ids) == len(prompt):
            return ids
        messages = [dict(m) for m in prompt if isinstance(m, Mapping)]
        if self.template is None:
            self.notes.add(NO_TEMPLATE)
            return self._encode("\n\n".join(m["content"] for m in messages), True)
        return self._encode(self._render(messages), False)

    def _encode(self, text: str, special: bool) -> list[int]:
        ids: list[int] = self.encoder.encode(text, add_special_tokens=special).ids
        return ids

    def _render(self, messages: Sequence[Mapping[str, str]]) -> str:
        from jinja2 import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(message: str) -> None:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda form: datetime.now(timezone.utc).strftime(form)
        try:
            return environment.from_string(self.template or "").render(
                messages=messages, add_generation_prompt=True, **self.special)
        except (TemplateError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the target's chat template does not take it ({type(error).__name__})") from None


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None,
            separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def load_tokenizer(model: str, base: Path, offline: bool = False) -> TargetTokenizer:
    """The tokenizer of a folder, a cached snapshot or a model on the hub.

    Raises TokenizerMissing: there is none, the library is missing, or the file cannot be used.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise TokenizerMissing("texts are cut into tokens by the `tokenizers` library, which is not installed: install "
                               "specadvise[logs], or give records that hold token ids") from error
    files = _files(model, base, offline)
    if "tokenizer.json" not in files:
        raise TokenizerMissing(f"{model} has no tokenizer.json here: expected the target's folder or its id on the hub "
                               "(cached, or reachable); put it there, or give records that hold token ids")
    try:
        encoder = Tokenizer.from_file(str(files["tokenizer.json"]))
    except Exception as error:
        raise TokenizerMissing(f"{files['tokenizer.json']} cannot be read as a tokenizer "
                               f"({' '.join(str(error).split())[:120]}): fetch it again") from None
    # Truncation and padding belong to training scripts that left them in the file.
    encoder.no_truncation()
    encoder.no_padding()
    config = _config(files.get("tokenizer_config.json"))
    return TargetTokenizer(encoder, _template(files.get("chat_template.jinja"), config), _special(config))


def _files(model: str, base: Path, offline: bool) -> dict[str, Path]:
    try:
        folder = base / Path(model).expanduser()
        if folder.is_dir():
            return {name: folder / name for name in _FILES if (folder / name).is_file()}
    except (OSError, ValueError, RuntimeError):
        pass
    snapshot = cached_snapshot(model, None)
    found = {name: snapshot / name for name in _FILES if (snapshot / name).is_file()} if snapshot is not None else {}
    if "tokenizer.json" in found or offline or offline_by_environment() or not is_repo_id(model):
        return found
    from huggingface_hub import hf_hub_download

    for name in _FILES:
        try:
            found[name] = Path(hf_hub_download(model, name))
        except Exception:
            # Whatever the client raises: without tokenizer.json the caller says so, the others may be absent.
            if name == "tokenizer.json":
                return {}
    return found


def _config(path: Path | None) -> Mapping[str, Any]:
    if path is None:
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({json_problem(error)}): expected a tokenizer's config; "
                         "fetch it again") from error
    return document if isinstance(document, dict) else {}


def _template(path: Path | None, config: Mapping[str, Any]) -> str | None:
    if path is not None:
        return path.read_text(encoding="utf-8", errors="replace")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default", next(iter(named.values()), None))
    return template if isinstance(template, str) else None


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            found[name] = value
    return found
