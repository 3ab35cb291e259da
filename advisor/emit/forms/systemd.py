"""A systemd unit, for a machine with vLLM installed on it."""

from __future__ import annotations

from advisor.emit.serving import CONFIG_FOLDER, Serving, Written
from advisor.emit.yaml_text import comment

TITLE = "a systemd unit"
FILES = ("vllm.service",)
FOLDER = "/opt/vllm"
"""Where the virtual environment with vLLM is taken to be."""
HOME = "/var/cache/vllm"
"""What CacheDirectory makes."""


def write(serving: Serving) -> Written:
    """vllm.service. Variables that belong to the config stand in it; secrets in a file that is not written here."""
    start = ("-m vllm.entrypoints.openai.api_server" if serving.vendor == "cpu" else "serve")
    program = f"{FOLDER}/bin/{'python' if serving.vendor == 'cpu' else 'vllm'}"
    host = "" if "host" in serving.options else " --host 127.0.0.1"
    drain = "".join(f" {word}" for word in serving.drain_arguments)
    header = serving.heading(
        TITLE,
        f"Install: copy vllm.yaml to {CONFIG_FOLDER}/ and vllm.service to /etc/systemd/system/, then:",
        "systemctl daemon-reload && systemctl enable --now vllm.service",
        f"vLLM {serving.release.version} is expected in the virtual environment {FOLDER}: change ExecStart otherwise.",
        f"Secrets (HF_TOKEN, VLLM_API_KEY) belong in {CONFIG_FOLDER}/vllm.env, owned by root, mode 600.",
        notes=serving.notes,
    )
    if serving.vendor == "cpu":
        # Its command asks for the version of a package called vllm and stops without one (0.32).
        header.append("The CPU build is started by its module: its command may not start.")
    variables = {"HOME": HOME, "HF_HOME": f"{HOME}/huggingface", "VLLM_CACHE_ROOT": f"{HOME}/vllm",
                 **serving.environment}
    groups = ["SupplementaryGroups=render video"] if serving.vendor in ("amd", "intel") else []
    lines = [
        "[Unit]",
        f"Description=vLLM serving {_specifier_safe(serving.served_name)}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        "Type=exec",
        *(f'Environment="{name}={_quoted(value)}"' for name, value in variables.items()),
        f"EnvironmentFile=-{CONFIG_FOLDER}/vllm.env",
        *(comment("Loopback only: a proxy in front opens it.") if host else []),
        f"ExecStart={program} {start} --config {CONFIG_FOLDER}/vllm.yaml{host}{drain}",
        *comment("Started once it answers."), *comment(serving.start_reason),
        # Given up at once where the server has ended: systemd itself would wait for the time-out.
        f"ExecStartPost=/bin/sh -c 'until curl --silent --fail --insecure --output /dev/null "
        f"{serving.scheme.lower()}://127.0.0.1:{serving.port}/health; do kill -0 $$MAINPID || exit 1; "
        f"sleep {serving.period_s}; done'",
        f"TimeoutStartSec={serving.start_s}",
        *comment("Running requests may finish when it is stopped." if serving.drains_itself else
                 "This release aborts running requests when it is stopped."),
        f"TimeoutStopSec={serving.stop_s}",
        *comment("The server alone is told: it ends its own processes once they are done."),
        "KillMode=mixed",
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
    return Written({"vllm.service": "\n".join(unit) + "\n"}, serving.notes)


def _specifier_safe(text: str) -> str:
    """One printable line; a per cent sign is systemd's own."""
    return "".join(c if c.isprintable() else " " for c in text).replace("%", "%%").rstrip("\\")


def _quoted(value: str) -> str:
    """A value between double quotes: a per cent sign is systemd's own, a dollar sign is not."""
    text = value.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c.isprintable() else " " for c in text)
