"""How `vllm serve` spells its options, and which of them a deployment may not slip in through `extra_args`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from profiles.printable import masked

FIELD_OPTIONS = {
    "tensor_parallel_size": "tensor-parallel-size",
    "pipeline_parallel_size": "pipeline-parallel-size",
    "data_parallel_size": "data-parallel-size",
    "max_model_len": "max-model-len",
    "max_num_seqs": "max-num-seqs",
    "max_num_batched_tokens": "max-num-batched-tokens",
    "gpu_memory_utilization": "gpu-memory-utilization",
    "dtype": "dtype",
    "quantization": "quantization",
    "kv_cache_dtype": "kv-cache-dtype",
    "enforce_eager": "enforce-eager",
    "trust_remote_code": "trust-remote-code",
}
"""Engine field -> option. Written in this order."""

_SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size", "q": "quantization"}
_TARGET = {"model", "model-tag", "revision"}
_ENGINE_FIELDS = {option: name for name, option in FIELD_OPTIONS.items()}
_NAME = re.compile(r"[a-z][a-z0-9-]*(\.[A-Za-z0-9_.-]+)?\+?")


def normalise(name: str) -> str:
    """The option as the config file spells it: no leading dashes, dashes for underscores up to the first dot.

    What follows a dot is a key inside a nested config and keeps its spelling.
    """
    head, dot, rest = str(name).strip().lstrip("-").partition(".")
    return head.replace("_", "-").lower() + dot + rest


NOT_TO_BE_WRITTEN = (
    "a secret: it would stand in every file written; set it in the server's environment and remove it here"
)
_SECRET_WORDS = frozenset({
    "token", "secret", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "cred", "creds", "dsn",
    "pat",
})
_OF_VOCABULARY = frozenset({"threshold", "budget", "budgets", "id", "ids", "tree", "prob", "limit", "count", "length"})
_URL_WITH_PASSWORD = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
_PRIVATE_NAMES = r"(?:(?:auth|access|api|hf|bearer)[-_])?token|\w*(?:secret|password|passwd|passphrase)|\w*api[-_]?key"
"""Keys inside a value. Others that end in token (`eos_token`) are vocabulary."""
_SECRET_IN_JSON = re.compile(rf"""["'](?:{_PRIVATE_NAMES})["']\s*:""", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether an option or environment variable of this name carries a token, key or password."""
    words = re.split(r"[-_.]", name.lower())
    # A vocabulary's token, not a credential: long-prefill-token-threshold.
    own = {word for word, after in zip(words, [*words[1:], ""], strict=True)
           if not (word == "token" and after in _OF_VOCABULARY)}
    return (
        bool(_SECRET_WORDS & own)
        or "api-key" in name.replace("_", "-").lower()
        or words[-1] == "pass"
        or (name.isupper() and words[-1] == "key")
    )


def carries_secret(name: str, value: object) -> bool:
    """Whether an option or variable holds a secret: by its name, by a name inside its value, as the user part of a URL
    (`http://user:password@host`), or by what its issuer lets a key begin with."""
    if is_secret(name):
        return True
    if isinstance(value, Mapping):
        return any(
            re.fullmatch(_PRIVATE_NAMES, str(key), re.IGNORECASE) is not None or carries_secret("", inner)
            for key, inner in value.items()
        )
    if isinstance(value, (list, tuple)):
        return any(carries_secret("", inner) for inner in value)
    return isinstance(value, str) and (
        _URL_WITH_PASSWORD.search(value) is not None or _SECRET_IN_JSON.search(value) is not None
        or masked(value) != value
    )


def misplaced_option(name: str) -> str | None:
    """Why `name` may not stand in `extra_args`: a sentence with what to do instead, or None where it may."""
    option = normalise(name)
    head = option.partition(".")[0]
    if head in ("speculative-config", "sc") or head.startswith(
        ("spec-", "speculative-", "num-speculative-", "ngram-prompt-")
    ):
        return (
            "speculation is what specadvise decides: remove it here and list what to consider under `candidates` "
            "(method, draft, k)"
        )
    if head in _TARGET:
        return "the model is stated under `target` (id, revision): remove it here"
    if is_secret(head):
        return NOT_TO_BE_WRITTEN
    if head == "config":
        return "a config file cannot name another one: write its options out here"
    field = _SHORT.get(head) or _ENGINE_FIELDS.get(head)
    if field is not None:
        return f"the advice depends on it: state it as engine.{field} and remove it here"
    if not _NAME.fullmatch(option):
        return f"expected the name of a `vllm serve` option such as max-logprobs, not {name!r}"
    return None
