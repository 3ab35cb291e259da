"""The hub gives config.json and headers, never weights; every refusal is one sentence without the token.

A small hub on loopback answers as the real one does (synthetic); the real client talks to it.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from probes.hub import is_repo_id
from probes.model import resolve_model
from profiles.errors import ModelNotFound
from profiles.model_ref import ModelRef

TOKEN = "hf_" + "x" * 34
CONFIG = json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 8, "vocab_size": 100, "tie_word_embeddings": True,
}).encode()  # fmt: skip
HEADER = json.dumps({
    "model.embed_tokens.weight": {"dtype": "BF16", "shape": [100, 64], "data_offsets": [0, 12800]},
    "model.layers.0.mlp.up_proj.weight": {"dtype": "BF16", "shape": [640, 64], "data_offsets": [12800, 94720]},
}).encode()  # fmt: skip
WEIGHTS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(94720)
FILES = {"config.json": CONFIG, "model.safetensors": WEIGHTS}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Models: org/good, org/gated, org/gguf; anything else is unknown."""

    sent = 0
    """Bytes of weights that left the hub."""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        if path.startswith("/api/models/org/good"):
            self._send(200, json.dumps(self._info("org/good", list(FILES))).encode(), body)
        elif path.startswith("/api/models/org/gguf"):
            self._send(200, json.dumps(self._info("org/gguf", ["model.gguf"])).encode(), body)
        elif path.startswith("/api/models/org/gated"):
            self._send(403, b'{"error":"gated"}', body, {"X-Error-Code": "GatedRepo"})
        elif path.startswith("/org/good/resolve/") and path.rsplit("/", 1)[-1] in FILES:
            self._send_file(path.rsplit("/", 1)[-1], body)
        else:
            self._send(
                404,
                b'{"error":"not found"}',
                body,
                {"X-Error-Code": "RepoNotFound" if path.startswith("/api/") else "EntryNotFound"},
            )

    def _info(self, model_id: str, names: list[str]) -> dict[str, object]:
        return {"id": model_id, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}

    def _send_file(self, name: str, body: bool) -> None:
        data, status, extra = FILES[name], 200, {"ETag": '"etag-of-file"', "X-Repo-Commit": COMMIT}
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last) if last else len(data) - 1, len(data) - 1)
            extra["Content-Range"] = f"bytes {first}-{end}/{len(data)}"
            data, status = data[int(first) : end + 1], 206
        if name.endswith(".safetensors") and body:
            Hub.sent += len(data)
        self._send(status, data, body, extra)

    def _send(self, status: int, data: bytes, body: bool, extra: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    Hub.sent = 0
    yield address
    server.shutdown()
    server.server_close()
    thread.join(timeout=10)


@pytest.fixture(autouse=True)
def _client_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client fixes its cache folder when it is imported; each test gets its own."""
    import huggingface_hub.constants as constants
    import huggingface_hub.file_download as file_download

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert file_download is not None


@pytest.mark.usefixtures("hub")
def test_a_model_on_the_hub_is_read_from_config_and_headers(tmp_path: Path) -> None:
    shape = resolve_model(ModelRef(id="org/good"), tmp_path)
    assert shape.params == 100 * 64 + 640 * 64
    assert shape.weight_bytes == 94720
    assert shape.revision == COMMIT
    assert shape.origin == "hub"


@pytest.mark.usefixtures("hub")
def test_no_weights_are_ever_fetched(tmp_path: Path) -> None:
    resolve_model(ModelRef(id="org/good"), tmp_path)
    assert 0 < Hub.sent <= len(WEIGHTS)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name.endswith(".safetensors")]


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("model_id", "says"),
    [
        ("org/gated", "gated"),
        ("org/gguf", r"no config\.json in it \(model\.gguf\)"),
        ("org/nothing", "knows no such model"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence_without_the_token(
    tmp_path: Path, model_id: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ModelNotFound, match=says) as caught:
        resolve_model(ModelRef(id=model_id), tmp_path)
    printed = capfd.readouterr()
    assert TOKEN not in str(caught.value) + printed.out + printed.err
    assert "\n" not in str(caught.value)


def test_an_unreachable_hub_is_one_sentence(hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelNotFound, match="could not be reached"):
        resolve_model(ModelRef(id="org/good"), tmp_path)


@pytest.mark.usefixtures("hub")
def test_offline_never_asks(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"was not asked \(offline\)"):
        resolve_model(ModelRef(id="org/good"), tmp_path, offline=True)


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("org/name", True),
        ("gpt2", True),
        ("org/na.me-1_2", True),
        ("a b", False),
        ("../x", False),
        ("a/b/c", False),
        ("a" * 97, False),
        ("", False),
        ("a\n", False),
    ],
)
def test_what_can_be_an_id_on_the_hub(text: str, possible: bool) -> None:
    assert is_repo_id(text) is possible
