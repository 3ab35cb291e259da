"""Kubernetes manifests, of whatever kind: every container in them that starts a server.

A container is any mapping with an image or a name, and a command or args; so Deployments, StatefulSets, Pods, Jobs,
LeaderWorkerSets, KServe's InferenceServices and kinds not thought of here are read alike. ConfigMaps of the same file
give `--config` files and environment.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources.launch import (
    Launch,
    config_of,
    environment_of,
    in_words,
    looks_like_vllm_image,
    words_of,
)
from advisor.checks.sources.source import Node, Source, mappings

TITLE = "a Kubernetes manifest"
RANK = 20

# KServe's Hugging Face server has a name of its own for the model.
_ADDRESSED = re.compile(r"^--model[_-]id(?==|$)")
_MODEL_SCHEMES = ("hf://", "huggingface://")


def recognises(source: Source) -> bool:
    """A document with `apiVersion` and `kind`."""
    return any(isinstance(d.value, dict) and "apiVersion" in d.value and "kind" in d.value for d in source.documents)


def read(source: Source) -> list[ServeConfig]:
    """A config for each container that starts a server."""
    maps = _config_maps(source)
    found = []
    for document in source.documents:
        value = document.value
        if not isinstance(value, dict) or value.get("kind") in (None, "ConfigMap"):
            continue
        owner, model = _owner(value), _stated_model(value)
        for node in mappings(document):
            for launch in _launches(node, owner, source, maps):
                found.append(_config(_with_model(launch, model), source, maps))
    return found


def _launches(node: Node, owner: str, source: Source, maps: Mapping[str, Mapping[str, str]]) -> list[Launch]:
    container = node.value
    if not isinstance(container.get("command", container.get("args")), (list, str)):
        return []
    runtime = _vllm_runtime(container)
    if not (isinstance(container.get("image"), str) or isinstance(container.get("name"), str) or runtime):
        return []
    env = {**source.env, **_env_from(container.get("envFrom"), maps), **environment_of(container.get("env"), maps)}
    words = [word for key in ("command", "args") if isinstance(container.get(key), list)
             for word in words_of(container.get(key), (key,), node.line_of(), env, source.name)]
    if runtime:
        words = [replace(word, text=_ADDRESSED.sub("--model", word.text)) for word in words]
    name = container.get("name")
    part = f"{owner}, container {name}" if isinstance(name, str) else owner
    # KServe's and llm-d's servers bring their own entry point, so arguments alone are theirs.
    image = "vllm" if runtime else container.get("image")
    return in_words(words, env, part, source.name, image=image)


def _vllm_runtime(container: Mapping[Any, Any]) -> bool:
    """KServe's `model:` section, where the runtime or the model's format is vLLM's or Hugging Face's."""
    form = container.get("modelFormat")
    name = form.get("name") if isinstance(form, dict) else None
    return (isinstance(name, str) and name.lower() in ("vllm", "huggingface")) or (
        form is not None and looks_like_vllm_image(container.get("runtime")))


def _owner(document: Mapping[Any, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document['kind']}/{name}" if name else str(document["kind"])


def _stated_model(document: Mapping[Any, Any]) -> str | None:
    """The model that a KServe or llm-d resource names outside of the arguments: an `hf://` address."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in ("storageUri", "uri", "modelUri") and isinstance(inner, str):
                    found.extend(inner.removeprefix(s) for s in _MODEL_SCHEMES if inner.startswith(s))
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(document.get("spec"))
    return found[0] if found else None


def _with_model(launch: Launch, model: str | None) -> Launch:
    return launch if model is None else replace(launch, defaults={"model": model, **launch.defaults})


def _config(launch: Launch, source: Source, maps: Mapping[str, Mapping[str, str]]) -> ServeConfig:
    def open_file(path: str) -> str | None:
        """A file from a mounted ConfigMap goes by its name: two of the same name are told apart by nothing here."""
        named = [data[posixpath.basename(path)] for data in maps.values() if posixpath.basename(path) in data]
        if len(named) == 1:
            return named[0]
        return source.open_file(path) if source.open_file is not None else None

    return config_of(launch, source.name, open_file)


def _config_maps(source: Source) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for document in source.documents:
        value = document.value
        if isinstance(value, dict) and value.get("kind") == "ConfigMap" and isinstance(value.get("data"), dict):
            metadata = value.get("metadata")
            name = str(metadata.get("name")) if isinstance(metadata, dict) else ""
            found[name] = {str(key): text for key, text in value["data"].items() if isinstance(text, str)}
    return found


def _env_from(value: Any, maps: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in value if isinstance(value, list) else []:
        reference = item.get("configMapRef") if isinstance(item, dict) else None
        if isinstance(reference, dict):
            prefix = str(item.get("prefix", ""))
            data = maps.get(str(reference.get("name")), {})
            found.update({f"{prefix}{key}": text for key, text in data.items()})
    return found
