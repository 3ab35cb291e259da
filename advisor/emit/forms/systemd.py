"""A systemd unit with its environment file, for a machine with vLLM installed on it."""

from __future__ import annotations

import re

from advisor.emit.serving import CONFIG_FOLDER, Serving, Written
from advisor.emit.yaml_text import comment

TITLE = "a systemd unit"
FILES = ("vllm.service", "vllm.env")
FOLDER = "/opt/vllm"
"""Where the virtual environment with vLLM is taken to be."""


def write(serving: Serving) -> Written:
    """vllm.service and vllm.env. Variables go into the file beside, secrets into one that is not written here."""
    start = ("-m vllm.entrypoints.openai.api_server" if serving.vendor == "cpu" else "serve")
    program = f"{FOLDER}/bin/{'python' if serving.vendor == 'cpu' else 'vllm'}"
    host = "" if "host" in serving.options else " --host 127.0.0.1"
    header = serving.heading(
        TITLE,
        f"Install: copy vllm.yaml and vllm.env to {CONFIG_FOLDER}/, vllm.service to /etc/systemd/system/, then",
        "systemctl daemon-reload && systemctl enable --now vllm.service",
        f"vLLM {serving.release.version} is expected in the virtual environment {FOLDER}: change ExecStart otherwise.",
        f"Secrets (HF_TOKEN, VLLM_API_KEY) belong in {CONFIG_FOLDER}/secrets.env, owned by root, mode 600.",
        notes=serving.notes,
    )
    if serving.vendor == "cpu":
        # Its command asks for the version of a package called vllm and stops without one (0.32).
        header.append("The CPU build is started by its module: its command may not start.")
    groups = ["SupplementaryGroups=render video"] if serving.vendor in ("amd", "intel") else []
    lines = [
        "[Unit]",
        f"Description=vLLM serving {_specifier_safe(serving.served_name)}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        f"EnvironmentFile={CONFIG_FOLDER}/vllm.env",
        f"EnvironmentFile=-{CONFIG_FOLDER}/secrets.env",
        *(comment("Loopback only: a proxy in front opens it.") if host else []),
        f"ExecStart={program} {start} --config {CONFIG_FOLDER}/vllm.yaml{host}",
        *comment("Started once it answers."), *comment(serving.start_reason),
        # Given up at once where the server has ended: systemd itself would wait for the time-out.
        f"ExecStartPost=/bin/sh -c 'until curl --silent --fail --insecure --output /dev/null "
        f"{serving.scheme.lower()}://127.0.0.1:{serving.port}/health; do kill -0 $$MAINPID || exit 1; "
        f"sleep {serving.period_s}; done'",
        f"TimeoutStartSec={serving.start_s}",
        "Restart=on-failure",
        "RestartSec=10",
        *comment("A user of its own that exists while it runs; downloads and compiled graphs stay in /var/cache/vllm."),
        "DynamicUser=yes",
        *groups,
        "CacheDirectory=vllm",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        *comment("Model folders in a home directory stay readable."),
        "ProtectHome=read-only",
        *comment("The accelerators are devices of the machine."),
        "PrivateDevices=no",
        "LimitMEMLOCK=infinity",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    unit = [*(line for text in header for line in comment(text)), "", *lines]
    return Written({"vllm.service": "\n".join(unit) + "\n", "vllm.env": _environment(serving)}, serving.notes)


def _specifier_safe(text: str) -> str:
    """One printable line; a per cent sign is systemd's own."""
    return "".join(c if c.isprintable() else " " for c in text).replace("%", "%%").rstrip("\\")


def _environment(serving: Serving) -> str:
    values = {"HOME": "/var/cache/vllm", "HF_HOME": "/var/cache/vllm/huggingface",
              "VLLM_CACHE_ROOT": "/var/cache/vllm/vllm", **serving.environment}
    lines = comment("Environment of vllm.service; no secrets here.")
    return "\n".join([*lines, *(f"{name}={_quoted(value)}" for name, value in values.items())]) + "\n"


def _quoted(value: str) -> str:
    if re.fullmatch(r"[\w./:,@+-]*", value):
        return value
    return '"' + re.sub(r'(["\\$`])', r"\\\1", value) + '"'
