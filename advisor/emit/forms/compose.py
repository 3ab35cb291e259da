"""A compose file: one service, vllm.yaml beside it."""

from __future__ import annotations

from typing import Any

from advisor.emit.serving import CACHE_FOLDER, CONFIG_FOLDER, Serving, Written
from advisor.emit.yaml_text import Entry
from advisor.emit.yaml_text import write as write_yaml

TITLE = "a compose file"
FILES = ("compose.yaml",)


def write(serving: Serving) -> Written:
    """compose.yaml, for `docker compose up` in the folder where vllm.yaml lies."""
    header = serving.heading(
        TITLE, "Start it where vllm.yaml lies: docker compose up -d",
        "HF_TOKEN and VLLM_API_KEY are taken from the shell or a file .env; neither is written here.",
        "After another vllm.yaml: docker compose up -d --force-recreate",
        notes=serving.container_notes,
    )
    entries = [Entry("name", serving.name), Entry("services", {"vllm": _service(serving)}, tuple(_said(serving)))]
    entries.append(Entry("configs", {"vllm": {"file": "./vllm.yaml"}}))
    entries.append(Entry("volumes", {"cache": {}}, ("Models and compiled graphs outlive the container.",)))
    return Written({"compose.yaml": write_yaml(header, entries)}, serving.container_notes)


def _said(serving: Serving) -> list[str]:
    said = ["The port is published on loopback only: write the address of your proxy's side before it to open it.",
            serving.start_reason,
            "The image's own user is kept: a named volume belongs to it. It can gain no privileges.",
            f"Running requests get {serving.drain_s} s to finish when it is stopped." if serving.drains_itself else
            "This release aborts running requests when it is stopped: take it out of your proxy first."]
    if serving.shared_gib:
        said.append("Its processes talk through /dev/shm, which a container has 64 MiB of by default.")
    return said


def _service(serving: Serving) -> dict[str, Any]:
    url = f"{serving.scheme.lower()}://127.0.0.1:{serving.port}/health"
    unverified = ", context=__import__('ssl')._create_unverified_context()" if serving.scheme == "HTTPS" else ""
    environment: dict[str, str | None] = {"HF_HOME": f"{CACHE_FOLDER}/huggingface",
                                          "VLLM_CACHE_ROOT": f"{CACHE_FOLDER}/vllm"}
    environment |= {name: _plain(value) for name, value in serving.environment.items()}
    environment |= {"HF_TOKEN": None, "VLLM_API_KEY": None}
    host = ["--host", "0.0.0.0"] if serving.options.get("host") in ("127.0.0.1", "localhost", "::1") else []  # noqa: S104
    service: dict[str, Any] = {
        "image": serving.image.name,
        "entrypoint": ["vllm", "serve"],
        "command": ["--config", f"{CONFIG_FOLDER}/vllm.yaml", *host, *serving.drain_arguments],
        "environment": environment,
        "ports": [f"127.0.0.1:{serving.port}:{serving.port}"],
        "configs": [{"source": "vllm", "target": f"{CONFIG_FOLDER}/vllm.yaml"}],
        "volumes": [{"type": "volume", "source": "cache", "target": CACHE_FOLDER},
                    *({"type": "bind", "source": _plain(folder), "target": _plain(folder), "read_only": True,
                       "bind": {"create_host_path": False}} for folder in serving.folders)],
        "restart": "unless-stopped",
        "stop_grace_period": f"{serving.stop_s}s",
        # The image has Python for certain, curl not.
        "healthcheck": {
            "test": ["CMD", "python3", "-c",
                     f"import urllib.request as u; u.urlopen('{url}', timeout=5{unverified})"],
            "interval": f"{serving.period_s}s", "timeout": "10s", "retries": 6, "start_period": f"{serving.start_s}s"},
        "security_opt": ["no-new-privileges:true"],
    }
    if serving.shared_gib:
        service["shm_size"] = f"{serving.shared_gib}gb"
    service |= _devices(serving)
    return service


def _devices(serving: Serving) -> dict[str, Any]:
    if serving.vendor == "nvidia":
        device = {"driver": "nvidia", "count": serving.accelerators, "capabilities": ["gpu"]}
        return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    if serving.vendor == "amd":
        # Compose cannot count these: the engine takes as many as its parallel sizes ask for.
        return {"devices": ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"], "group_add": ["video"]}
    if serving.vendor == "intel":
        return {"devices": ["/dev/dri:/dev/dri"]}
    return {}


def _plain(text: str) -> str:
    """A dollar sign is compose's own."""
    return text.replace("$", "$$")
