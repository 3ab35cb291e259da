"""A synthetic server on loopback: the shapes of vLLM 0.32's answers, made here, with faults on request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class SyntheticServer:
    """Answers every prompt with the same words in as many chunks as `tokens_per_chunk` asks; counts like vLLM."""

    k: int = 0
    """Speculative tokens; 0 leaves the speculation counters out."""
    tokens_per_chunk: int = 1
    chunk_s: float = 0.002
    token: str | None = None
    per_request: bool = False
    words: Callable[[str, int], str] = lambda prompt, i: f"w{i} "
    fault: Callable[[SyntheticServer, int, Any], bool] | None = None
    """Called with (server, number of the request, handler) before answering; True when it has answered itself."""
    accepted_by_position: Callable[[int, int], list[int]] | None = None
    idle: dict[str, float] = field(default_factory=lambda: {"running": 0.0, "waiting": 0.0})
    served: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    finished: float = 0.0
    generated: float = 0.0
    drafts: float = 0.0
    per_position: list[float] = field(default_factory=list)
    silent_counters: bool = False
    dead: bool = False

    def __enter__(self) -> SyntheticServer:
        owner = self
        self.per_position = [0.0] * self.k
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                if not self.ended():
                    owner.get(self)

            def do_POST(self) -> None:
                if not self.ended():
                    owner.post(self)

            def ended(self) -> bool:
                """Connections that are kept outlive the listener: a dead server answers on none."""
                if owner.dead:
                    self.close_connection = True
                    self.connection.close()
                return owner.dead

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self._http = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        self.dead = True
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    # --- pages -------------------------------------------------------------------------------------------------------
    def get(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/metrics":
            return self.reply(handler, 200, self.metrics(), "text/plain; version=0.0.4")
        if handler.path == "/version":
            return self.reply(handler, 200, json.dumps({"version": "0.32.0"}))
        if handler.path == "/v1/models":
            if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
                return self.reply(handler, 401, '{"error":"Unauthorized"}')
            return self.reply(handler, 200, json.dumps({"object": "list", "data": [
                {"id": "synthetic", "object": "model", "root": "synthetic", "parent": None, "max_model_len": 2048}]}))
        return self.reply(handler, 404, "{}")

    def metrics(self) -> str:
        label = 'engine="0",model_name="synthetic"'
        lines = [
            "# TYPE vllm:num_requests_running gauge",
            f"vllm:num_requests_running{{{label}}} {self.idle['running'] + self.in_flight}",
            "# TYPE vllm:num_requests_waiting gauge", f"vllm:num_requests_waiting{{{label}}} {self.idle['waiting']}",
            "# TYPE vllm:generation_tokens_total counter", f"vllm:generation_tokens_total{{{label}}} {self.generated}",
            "# TYPE vllm:request_success_total counter",
            f'vllm:request_success_total{{finished_reason="length",{label}}} {self.finished}',
            f'vllm:cache_config_info{{kv_cache_size_tokens="46592",{label}}} 1.0',
        ]
        if self.k:
            lines += [
                f"vllm:spec_decode_num_drafts_total{{{label}}} {self.drafts}",
                f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {self.drafts * self.k}",
                f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {sum(self.per_position)}",
                *(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{i}"}} {v}'
                  for i, v in enumerate(self.per_position)),
            ]
        return "\n".join(lines) + "\n"

    # --- answers -----------------------------------------------------------------------------------------------------
    def post(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            return self.reply(handler, 401, '{"error":"Unauthorized"}')
        with self._lock:
            number = len(self.served)
            self.served.append(body)
            self.paths.append(handler.path)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        counted = False
        try:
            if self.fault is not None and self.fault(self, number, handler):
                return None
            self.stream(handler, body)
            counted = True
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with self._lock:
                self.in_flight -= 1
                if counted and not self.silent_counters:
                    self.finished += 1
        return None

    def stream(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        chat = handler.path.endswith("/chat/completions")
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        total = int(body["max_tokens"])
        self.begin_stream(handler)
        if chat:
            self.event(handler, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        done, steps = 0, 0
        while done < total:
            time.sleep(self.chunk_s)
            count = 1 if done == 0 else min(self.tokens_per_chunk, total - done)
            text = "".join(self.words(prompt, done + i) for i in range(count))
            done += count
            steps += done > count
            reason = "length" if done == total else None
            choice = {"index": 0, "finish_reason": reason, **({"delta": {"content": text}} if chat else {"text": text})}
            self.event(handler, {"choices": [choice], "usage": {
                "prompt_tokens": len(prompt.split()), "completion_tokens": done}})
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": total}
        end: dict[str, Any] = {"choices": [], "usage": usage}
        accepted = self.account(total, steps)
        if self.per_request:
            end["metrics"] = {"speculative_decoding": {
                "num_spec_steps": steps, "num_draft_tokens": steps * self.k, "num_spec_tokens": self.k,
                "acceptance_histogram": [0] * (self.tokens_per_chunk - 1) + [steps] + [0] * (self.k - accepted),
                "per_step_drafted": [self.k] * steps}}
        self.event(handler, end)
        self.chunk(handler, b"data: [DONE]\n\n")
        self.chunk(handler, b"")

    def account(self, tokens: int, steps: int) -> int:
        accepted = self.tokens_per_chunk - 1
        if self.silent_counters:
            return accepted
        with self._lock:
            self.generated += tokens
            if self.k:
                self.drafts += steps
                by_position = (self.accepted_by_position(steps, self.k) if self.accepted_by_position
                               else [steps if i < accepted else 0 for i in range(self.k)])
                self.per_position = [a + b for a, b in zip(self.per_position, by_position, strict=True)]
        return accepted

    # --- wire --------------------------------------------------------------------------------------------------------
    def reply(self, handler: BaseHTTPRequestHandler, status: int, text: str, kind: str = "application/json") -> None:
        data = text.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def begin_stream(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()

    def event(self, handler: BaseHTTPRequestHandler, event: dict[str, Any]) -> None:
        self.chunk(handler, b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n")

    def chunk(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        handler.wfile.flush()
