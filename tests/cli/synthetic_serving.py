"""A loopback server whose /metrics page grows from scrape to scrape, for commands that probe one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serving(page: Callable[[int], str | None], root: str | None = None,
            allowed: Callable[[Message], bool] = lambda headers: True) -> Iterator[str]:
    """URL of a server that answers the n-th scrape (from 0) with page(n), or with 503 for None. root: what its list of
    models says the first model was loaded from. allowed: which request headers open it, others get a 401."""
    scrapes = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text: str | None
            path = self.path.partition("?")[0]
            if not allowed(self.headers):
                self.send_error(401)
                return
            if path == "/metrics":
                text = page(scrapes[0])
                scrapes[0] += 1
            elif path == "/version":
                text = json.dumps({"version": "0.32.0"})
            elif path == "/v1/models" and root is not None:
                text = json.dumps({"data": [{"id": "org/model", "root": root}]})
            else:
                self.send_error(404)
                return
            content = (text or "").encode()
            self.send_response(200 if text is not None else 503)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A client may hang up when it likes; stderr belongs to the command under test."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
