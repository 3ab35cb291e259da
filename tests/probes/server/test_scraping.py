"""Scraping over a real loopback HTTP server: keys, redirects, deadlines, and all that is no answer."""

from __future__ import annotations

import gzip
import http.server
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from probes.server import probe_server
from probes.server.scraping import looks_like_address, server_address
from profiles.errors import InputError, ProbeError
from tests.probes.server import synthetic_pages as syn

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]
SECRET = "key-that-must-not-appear"


class Loopback:
    """One HTTP server on 127.0.0.1; `answers` by path, `seen` holds every request's path and headers."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.seen.append((self.path, dict(self.headers.items())))
                answer = outer.answers.get(self.path.partition("?")[0])
                if answer is None:
                    self.send_error(404)
                else:
                    answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.close()


@pytest.fixture
def other() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.close()


def body(content: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def metrics(*outputs: float) -> bytes:
    return syn.page(syn.v1_engine(prompts=list(outputs), outputs=list(outputs))).encode()


def growing(start: int = 2) -> Answer:
    """Every scrape finds one more finished request."""
    count = [start]

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        count[0] += 1
        body(metrics(*[40.0] * count[0]))(handler)

    return answer


def probe(url: str, **options: Any) -> Any:
    return probe_server(url, window_s=0.2, timeout_s=options.pop("timeout_s", 5.0), **options)


def test_a_live_server_is_scraped_over_the_window_with_its_version(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": growing(), "/version": body(b'{"version": "0.32.0"}')}
    found = probe(loopback.url)
    assert found.engine_version == "0.32.0"
    assert found.requests_in_window == 1
    assert found.window_s > 0
    assert found.request_rate_rps.value == pytest.approx(1 / found.window_s)
    assert found.url == f"{loopback.url}/metrics"


@pytest.mark.parametrize("suffix", ["", "/", "/metrics", "/v1", "/metrics/"])
def test_the_address_may_be_written_as_people_do(loopback: Loopback, suffix: str) -> None:
    loopback.answers = {"/metrics": body(metrics(1)), "/metrics/": body(metrics(1))}
    assert probe(loopback.url + suffix).engine == "vllm"
    assert probe(f"127.0.0.1:{loopback.port}").engine == "vllm"


def test_a_path_in_front_is_kept() -> None:
    address = server_address("https://host/llm/a/v1")
    assert address.metrics_url == "https://host/llm/a/metrics"
    assert address.base_url == "https://host/llm/a"


def test_token_and_headers_are_sent_and_never_kept(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(metrics(1))}
    found = probe(loopback.url, token=SECRET, headers={"X-Api-Key": SECRET})
    _, headers = loopback.seen[0]
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert headers["X-Api-Key"] == SECRET
    assert SECRET not in found.model_dump_json()


def test_credentials_and_query_of_the_url_are_used_and_stripped(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(metrics(1))}
    found = probe(f"http://user:{SECRET}@127.0.0.1:{loopback.port}/metrics?key={SECRET}")
    path, headers = loopback.seen[0]
    assert headers["Authorization"].startswith("Basic ")
    assert path == f"/metrics?key={SECRET}"
    assert found.url == f"{loopback.url}/metrics"
    assert SECRET not in found.model_dump_json()


@pytest.mark.parametrize(("status", "says"), [(401, "--token-env"), (403, "--token-env"), (404, "HTTP 404"),
                                              (500, "HTTP 500"), (503, "HTTP 503")])
def test_an_error_status_is_one_sentence_without_the_key(loopback: Loopback, status: int, says: str) -> None:
    loopback.answers = {"/metrics": body(b"no", status)}
    with pytest.raises(ProbeError, match=says) as caught:
        probe(f"http://user:{SECRET}@127.0.0.1:{loopback.port}", token=SECRET)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(("content", "says"), [
    (b"<html>please log in</html>", "web page"), (b"", "empty"), (b'{"error": "x"}', "JSON"),
    (gzip.compress(b"vllm:x 1", mtime=0), "gzip"), (b"\xff\xfe\x00\x01", "UTF-8"), (b"up 1\n", "vLLM or SGLang"),
])
def test_an_answer_that_is_no_metrics_page_is_one_sentence(loopback: Loopback, content: bytes, says: str) -> None:
    loopback.answers = {"/metrics": body(content)}
    with pytest.raises(ProbeError, match=says):
        probe(loopback.url)


def test_a_compressed_transfer_is_unpacked(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(gzip.compress(metrics(1)), Content_Encoding="gzip")}
    assert probe(loopback.url).engine == "vllm"


def test_a_broken_compressed_transfer_is_one_sentence(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(b"not gzip at all", Content_Encoding="gzip")}
    with pytest.raises(ProbeError, match="cannot be unpacked"):
        probe(loopback.url)


def test_nobody_listening_is_one_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ProbeError, match="cannot be reached"):
        probe(f"http://127.0.0.1:{port}")


def test_a_name_that_does_not_resolve_is_one_sentence() -> None:
    with pytest.raises(ProbeError, match=r"cannot be reached|broke off|HTTP"):
        probe("http://no-such-host.invalid:8000")


def test_a_server_that_says_nothing_ends_at_the_timeout(loopback: Loopback) -> None:
    release = threading.Event()
    loopback.answers = {"/metrics": lambda handler: release.wait(20) and None}
    begun = time.monotonic()
    with pytest.raises(ProbeError, match=r"did not answer within 0\.3 s"):
        probe(loopback.url, timeout_s=0.3)
    release.set()
    assert time.monotonic() - begun < 15


def test_a_server_that_drips_its_answer_ends_at_the_deadline_too(loopback: Loopback) -> None:
    release = threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not release.wait(0.05):
                handler.wfile.write(b"# x\n")
                handler.wfile.flush()
        except OSError:
            return

    loopback.answers = {"/metrics": drip}
    with pytest.raises(ProbeError, match=r"did not finish its answer within 2 s"):
        probe(loopback.url, timeout_s=2.0)
    release.set()


def test_a_connection_cut_in_the_middle_is_one_sentence(loopback: Loopback) -> None:
    def cut(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"vllm:num")

    loopback.answers = {"/metrics": cut}
    with pytest.raises(ProbeError, match="broke off"):
        probe(loopback.url)


def test_something_that_is_not_http_is_one_sentence() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.sendall(b"SSH-2.0-OpenSSH\r\n")
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    with pytest.raises(ProbeError, match="not HTTP"):
        probe(f"http://127.0.0.1:{listener.getsockname()[1]}")
    listener.close()


def test_https_to_a_plain_port_is_a_tls_sentence(loopback: Loopback) -> None:
    with pytest.raises(ProbeError, match="TLS connection failed"):
        probe(f"https://127.0.0.1:{loopback.port}")


def test_an_unknown_certificate_is_a_tls_sentence(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    # A certificate needs an authority to be refused by; the error is the one that ssl raises for it.
    def refuse(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        cause = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
        raise httpx.ConnectError(str(cause), request=request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    with pytest.raises(ProbeError, match="SSL_CERT_FILE"):
        probe(loopback.url.replace("http", "https"))


def test_a_redirect_loop_is_one_sentence(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(b"", 302, Location="/metrics")}
    with pytest.raises(ProbeError, match="redirects more than"):
        probe(loopback.url)


def test_a_redirect_on_the_same_host_is_followed_with_the_key(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(b"", 307, Location="/metrics/"), "/metrics/": body(metrics(1))}
    assert probe(loopback.url, token=SECRET).engine == "vllm"
    assert dict(loopback.seen)["/metrics/"]["Authorization"] == f"Bearer {SECRET}"


def test_a_redirect_to_another_place_never_gets_the_key(loopback: Loopback, other: Loopback) -> None:
    loopback.answers = {"/metrics": body(b"", 302, Location=f"{other.url}/metrics")}
    other.answers = {"/metrics": body(metrics(1))}
    assert probe(loopback.url, token=SECRET, headers={"X-Api-Key": SECRET}).engine == "vllm"
    assert other.seen
    assert SECRET not in str(other.seen)


def test_a_redirect_away_from_http_is_one_sentence(loopback: Loopback) -> None:
    loopback.answers = {"/metrics": body(b"", 302, Location="file:///etc/passwd")}
    with pytest.raises(ProbeError, match="not http or https"):
        probe(loopback.url)


def test_a_key_with_a_line_break_is_refused_without_showing_it(loopback: Loopback) -> None:
    with pytest.raises(InputError, match="line break") as caught:
        probe(loopback.url, token=f"{SECRET}\n")
    assert SECRET not in str(caught.value)
    assert loopback.seen == []


def test_one_missed_scrape_in_between_is_said_and_the_rest_is_used(loopback: Loopback) -> None:
    pages = iter([body(metrics(40.0)), body(b"busy", 503), body(metrics(40.0, 40.0))])
    loopback.answers = {"/metrics": lambda handler: next(pages)(handler)}
    found = probe_server(loopback.url, window_s=2.0, timeout_s=5.0, sleep=lambda _: None)
    assert found.requests_in_window == 1
    assert any("1 of 3 scrapes" in note for note in found.notes)


def test_a_window_of_nothing_is_refused(loopback: Loopback) -> None:
    with pytest.raises(InputError, match="--window"):
        probe_server(loopback.url, window_s=0)


def test_dumps_are_read_and_their_window_is_what_is_stated(tmp_path: Path) -> None:
    first, second = tmp_path / "synthetic_before.prom", tmp_path / "synthetic_after.prom"
    first.write_bytes(metrics(10.0))
    second.write_bytes(metrics(10.0, 20.0, 30.0))
    found = probe_server(str(first), str(second), window_s=4)
    assert found.requests_in_window == 2
    assert found.request_rate_rps is not None
    assert found.request_rate_rps.value == pytest.approx(0.5)
    assert found.url == str(second)


def test_without_a_stated_window_the_dumps_own_times_tell_or_there_are_no_rates(tmp_path: Path) -> None:
    import os

    first, second = tmp_path / "a.prom", tmp_path / "b.prom"
    first.write_bytes(metrics(10.0))
    second.write_bytes(metrics(10.0, 20.0))
    os.utime(first, (1000, 1000))
    os.utime(second, (1020, 1020))
    timed = probe_server(str(first), str(second))
    assert timed.window_s == 20
    assert any("modification times" in note for note in timed.notes)
    os.utime(second, (1000, 1000))
    untimed = probe_server(str(first), str(second))
    assert untimed.window_s == 0
    assert untimed.request_rate_rps is None


def test_dumps_of_different_engines_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a.prom", tmp_path / "b.prom"
    first.write_bytes(metrics(10.0))
    second.write_text(syn.page(syn.sglang()))
    with pytest.raises(InputError, match="one server"):
        probe_server(str(first), str(second))


def test_a_file_that_cannot_be_read_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        probe_server(str(tmp_path / "missing.prom"))
    assert caught.value.exit_code == 2
    with pytest.raises(InputError, match="is a folder"):
        probe_server(str(tmp_path))
    page = tmp_path / "page.prom"
    page.write_bytes(gzip.compress(metrics(1)))
    assert probe_server(str(page)).engine == "vllm"
    page.write_text(metrics(1).decode(), encoding="utf-16")
    assert probe_server(str(page)).engine == "vllm"
    page.write_bytes(gzip.compress(metrics(1))[:-20])
    with pytest.raises(InputError, match="damaged gzip"):
        probe_server(str(page))


def test_a_url_and_a_file_do_not_mix(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    page.write_bytes(metrics(1))
    with pytest.raises(InputError, match="two files, or one URL"):
        probe_server("http://h:1", str(page))
    with pytest.raises(InputError, match="two files, or one URL"):
        probe_server(str(page), "http://h:1")


def test_host_and_port_is_an_address_unless_a_file_has_that_name(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert looks_like_address("localhost:8000/metrics")
    assert looks_like_address("HTTPS://host/x")
    assert not looks_like_address("dump.prom")
    (tmp_path / "dump:8000").touch()
    assert not looks_like_address("dump:8000")


@pytest.mark.parametrize("source", ["http://127.0.0.1:99999", "127.0.0.1:0", "https://host:70000/metrics"])
def test_a_port_that_no_machine_has_is_wrong_use_and_not_a_server_that_is_down(source: str) -> None:
    with pytest.raises(InputError, match=r"port is .*expected one from 1 to 65535"):
        server_address(source)
