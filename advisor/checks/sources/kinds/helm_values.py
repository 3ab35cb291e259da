"""Values of a chart: whatever in them starts a server.

Any mapping with a command, args or extraArgs that starts vLLM counts, beside the image it names. Two charts state
options by name: vLLM's production stack (`modelSpec[].vllmConfig`, read in its `templates/deployment-vllm-multi.yaml`)
and llm-d's model service (`modelArtifacts.uri`, `modelCommand: vllmServe`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources.launch import Launch, config_of, environment_of, in_words, words_of
from advisor.checks.sources.source import Node, Source, mappings
from advisor.checks.sources.words import Word
from profiles.yaml_lines import KeyPath

TITLE = "values of a Helm chart"
RANK = 40

_ARGUMENT_KEYS = ("command", "args", "extraArgs", "vllmArgs", "engineArgs")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Keys of vllmConfig that are no options of vLLM.
_NOT_OPTIONS = frozenset({"extraArgs", "v0", "v1", "prometheusMultiprocDir", "env"})


def recognises(source: Source) -> bool:
    """A mapping, no manifest, in which some part starts a server."""
    return any(isinstance(document.value, dict) for document in source.documents) and bool(_launches(source))


def read(source: Source) -> list[ServeConfig]:
    """A config for each server."""
    return [config_of(launch, source.name, source.open_file) for launch in _launches(source)]


def _launches(source: Source) -> list[Launch]:
    found: list[Launch] = []
    for document in source.documents:
        artifacts: str | None = None
        for node in mappings(document):
            uri = node.value.get("uri")
            if node.path[-1:] == ("modelArtifacts",) and isinstance(uri, str) and uri.startswith("hf://"):
                artifacts = uri.removeprefix("hf://")
            stack = _production_stack(node, source)
            found += [stack] if stack is not None else _container(node, source, artifacts)
    return found


def _part(node: Node) -> str:
    name = node.value.get("name")
    place = ".".join(map(str, node.path)) or "values"
    return f"{place} ({name})" if isinstance(name, str) else place


def _container(node: Node, source: Source, artifacts: str | None) -> list[Launch]:
    # The options of vllmConfig are the production stack's, read with the model beside it.
    if node.path[-1:] == ("vllmConfig",) or not any(isinstance(node.value.get(k), (list, str)) for k in _ARGUMENT_KEYS):
        return []
    env = {**source.env, **environment_of(node.value.get("env"))}
    words: list[Word] = []
    for key in _ARGUMENT_KEYS:
        words += words_of(node.value.get(key), (key,), node.line_of(), env, source.name)
    if node.value.get("modelCommand") == "vllmServe":
        launch = Launch(tuple(words), node.line("modelCommand"), env, _part(node))
        return [replace(launch, defaults={"model": artifacts} if artifacts else {})]
    return in_words(words, env, _part(node), source.name, image=_image(node))


def _image(node: Node) -> str | None:
    """`image: vllm/vllm-openai:v0.32.0`, or `image: {repository: ..., tag: ...}`, here or in the mapping around it."""
    root = Node(node.document.value, (), node.document)
    for length in range(len(node.path), -1, -1):
        around = root.child(*node.path[:length]) if length else root
        image = around.value.get("image") if around is not None else None
        if isinstance(image, dict):
            image = _joined(image.get("repository") or image.get("name"), image.get("tag"))
        if isinstance(image, str):
            return image
    return None


def _joined(repository: object, tag: object) -> str | None:
    if not isinstance(repository, str):
        return None
    return f"{repository}:{tag}" if isinstance(tag, (str, int, float)) else repository


def _production_stack(node: Node, source: Source) -> Launch | None:
    """An entry of `modelSpec`: a model, named options, and further arguments."""
    settings = node.value.get("vllmConfig")
    model = node.value.get("modelURL")
    if not isinstance(model, str) or not isinstance(settings, (dict, type(None))):
        return None
    env = {**source.env, **environment_of(node.value.get("env"))}
    values: dict[str, Any] = {"model": model}
    lines: dict[KeyPath, int] = {("model",): node.line("modelURL")}
    words: list[Word] = []
    if isinstance(settings, dict):
        _named_options(settings, node, values, lines)
        words = words_of(settings.get("extraArgs"), ("vllmConfig", "extraArgs"), node.line_of(), env, source.name)
        if str(settings.get("v0")) == "1":
            env["VLLM_USE_V1"] = "0"
    if node.value.get("enableLoRA") is True:
        values["enable-lora"] = True
        lines[("enable-lora",)] = node.line("enableLoRA")
    image = _joined(node.value.get("repository"), node.value.get("tag")) or ""
    return Launch(tuple(words), node.line("modelURL"), env, _part(node), values, lines, image=image)


def _named_options(
    settings: Mapping[Any, Any], node: Node, values: dict[str, Any], lines: dict[KeyPath, int]
) -> None:
    """`maxModelLen: 4096` is --max-model-len 4096; a switch that the chart leaves out is what the engine does."""
    for key, value in settings.items():
        if not isinstance(key, str) or key in _NOT_OPTIONS or value is None:
            continue
        option = _CAMEL.sub("-", key).lower().replace("_", "-")
        values[option] = value
        lines[(option,)] = node.line("vllmConfig", key)
    if "enablePrefixCaching" not in settings:
        # The chart writes the negative form itself.
        values["enable-prefix-caching"] = False
        lines[("enable-prefix-caching",)] = node.line("vllmConfig")
