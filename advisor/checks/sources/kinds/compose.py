"""A compose file: services whose command, entrypoint or image start a server, with their environment."""

from __future__ import annotations

from dataclasses import replace

from advisor.checks.serve_config import ServeConfig
from advisor.checks.sources.launch import config_of, environment_of, in_words, words_of
from advisor.checks.sources.source import Node, Source, mappings

TITLE = "a compose file"
RANK = 30


def recognises(source: Source) -> bool:
    """One document with a mapping `services`, one of which has an image, a build or a command."""
    return any(_services(node) for node in _roots(source))


def _roots(source: Source) -> list[Node]:
    return [next(mappings(document)) for document in source.documents if isinstance(document.value, dict)]


def _services(root: Node) -> list[tuple[str, Node]]:
    services = root.child("services")
    if services is None or "apiVersion" in root.value:
        return []
    found = [(str(key), service) for key in services.value
             if isinstance(key, (str, int)) and (service := services.child(key)) is not None]
    return found if any(set(service.value) & {"image", "build", "command"} for _, service in found) else []


def read(source: Source) -> list[ServeConfig]:
    """A config for each service that starts a server."""
    found = []
    for root in _roots(source):
        for name, service in _services(root):
            env = {**source.env, **environment_of(service.value.get("environment"))}
            words = [word for key in ("entrypoint", "command")
                     for word in words_of(service.value.get(key), (key,), service.line_of(), env, source.name)]
            for launch in in_words(words, env, f"service {name}", source.name, image=service.value.get("image")):
                config = config_of(launch, source.name, source.open_file)
                found.append(_with_note(config, service))
    return found


def _with_note(config: ServeConfig, service: Node) -> ServeConfig:
    """Variables from a file beside it are not read: they may hold secrets."""
    if "env_file" not in service.value:
        return config
    note = f"env_file of {config.part} was not read: pass what matters with --env"
    return replace(config, notes=(*config.notes, note))
