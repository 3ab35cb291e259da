"""The two places where a published model's files may lie: the local Hugging Face cache, and the hub itself.

From the hub come config.json and safetensors headers, never weights. The token is the client's own business: it is
neither read nor printed here.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path

from probes.checkpoint import Tensor

_REPO = re.compile(r"[\w\-][\w.\-]*(?:/[\w.\-]+)?")
TIMEOUT_S = 10.0
"""Longest wait for the hub's first answer."""


class HubError(Exception):
    """Why the hub gave nothing; `str` completes the sentence "and the hub ..."."""


@dataclass(frozen=True)
class Published:
    """What the hub tells about a model."""

    config: bytes
    revision: str | None
    tensors: list[Tensor]
    quantization: bytes | None = None
    """ModelOpt's hf_quant_config.json, where there is one."""


def is_repo_id(model_id: str) -> bool:
    """Whether the text can be an id on the hub (`org/name`, or a bare name)."""
    return (
        len(model_id) <= 96 and _REPO.fullmatch(model_id) is not None and ".." not in model_id and "--" not in model_id
    )


def cache_folder() -> Path:
    """Where the client keeps its cache: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub."""
    explicit = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if explicit:
        return Path(os.path.expanduser(explicit))
    home = os.environ.get("HF_HOME")
    if home:
        return Path(os.path.expanduser(home)) / "hub"
    # Without a home the name stays as it is, and nothing is there.
    return Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME", "~/.cache"))) / "huggingface" / "hub"


def cached_snapshot(model_id: str, revision: str | None) -> Path | None:
    """The cached snapshot that holds a config.json, read from the cache's layout without importing the client."""
    if not is_repo_id(model_id):
        return None
    repo = cache_folder() / f"models--{model_id.replace('/', '--')}"
    name = revision or "main"
    try:
        ref = repo / "refs" / name
        commit = ref.read_text(encoding="utf-8").strip() if ref.is_file() else name
        snapshot = repo / "snapshots" / commit
        if "/" in commit or not (snapshot / "config.json").is_file():
            return None
        return snapshot
    except (OSError, ValueError):
        return None


def offline_by_environment() -> bool:
    """HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE, read as the client reads them."""
    return any(
        os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def fetch(model_id: str, revision: str | None) -> Published:
    """config.json, safetensors headers and the commit of a model on the hub.

    Raises:
        HubError: unreachable, unknown, gated, or without a config.json. The message holds no address and no token.
    """
    # Half the start-up time of a command, so only where the hub is really asked.
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    disable_progress_bars()
    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        api = huggingface_hub.HfApi(endpoint=endpoint)
        # Asked first because it fails at once without network, where a download would retry for half a minute.
        info = api.model_info(model_id, revision=revision, timeout=TIMEOUT_S)
        names = {sibling.rfilename for sibling in info.siblings or ()}
        if names and "config.json" not in names:
            raise HubError(f"has the model, but no config.json in it ({', '.join(sorted(names)[:3]) or 'no files'})")
        commit = info.sha or revision
        config = _download(model_id, "config.json", commit, endpoint)
        quantization = (
            _download(model_id, "hf_quant_config.json", commit, endpoint) if "hf_quant_config.json" in names else None
        )
        return Published(
            config=config, revision=commit, tensors=_headers(api, model_id, commit), quantization=quantization
        )
    except HubError:
        raise
    except Exception as error:  # the client's transport, and so its exceptions, differ from version to version
        raise HubError(_reason(error)) from None


def _download(model_id: str, name: str, commit: str | None, endpoint: str | None) -> bytes:
    from huggingface_hub import hf_hub_download

    path = hf_hub_download(model_id, name, revision=commit, endpoint=endpoint, etag_timeout=TIMEOUT_S)
    return Path(path).read_bytes()


def _headers(api: object, model_id: str, commit: str | None) -> list[Tensor]:
    """Safetensors headers by range requests; empty for a repository that stores its weights in another form."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import NotASafetensorsRepoError, SafetensorsParsingError

    assert isinstance(api, HfApi)  # noqa: S101 - narrows the lazily imported type
    try:
        metadata = api.get_safetensors_metadata(model_id, revision=commit)
    except (NotASafetensorsRepoError, SafetensorsParsingError):
        return []
    return [
        Tensor(name, str(info.dtype), tuple(info.shape))
        for file in metadata.files_metadata.values()
        for name, info in file.tensors.items()
    ]


def _reason(error: Exception) -> str:
    """The failure in words, by the client's exception names; never the message, which may carry an address."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in names:
        return "says the model is gated: accept its terms on its page and log in with `hf auth login`"
    if "RevisionNotFoundError" in names:
        return "has no such revision of it"
    if "RepositoryNotFoundError" in names:
        return "knows no such model (or it is private: log in with `hf auth login`)"
    if "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names:
        return "has no config.json for it"
    if "OfflineModeIsEnabled" in names:
        return "was not asked (HF_HUB_OFFLINE is set)"
    return f"could not be reached ({type(error).__name__})"
