"""Fetching a metrics page: over HTTP with a deadline, or from a saved dump. Credentials go out and nowhere else."""

from __future__ import annotations

import codecs
import ipaddress
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from probes.server.reading import Scrape, read_metrics
from profiles.addresses import without_secrets
from profiles.errors import InputError, ProbeError
from profiles.reading import read_whole

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 64 * 2**20
"""A page larger than this is not a metrics page (a large one has 5 MB)."""
MAX_REDIRECTS = 5
MAX_MODELS = 100
"""Served names that are asked for where they came from."""


_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class ServerAddress:
    """Where a server answers. `display` has no user, password or query and may be printed and stored."""

    metrics_url: str = field(repr=False)
    base_url: str = field(repr=False)
    display: str


def looks_like_address(source: str) -> bool:
    """URLs, and host:port or user:password@host where no such file exists."""
    if "://" in source:
        # ftp:// and the like too: as addresses they are refused without being shown.
        return True
    host, colon, rest = source.partition(":")
    if not colon or not host or _exists(source):
        return False
    # user:password@host is no file that is missing: its name would be shown.
    return "@" in rest or re.split(r"[/?#]", rest, maxsplit=1)[0].isdigit()


def _exists(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):
        # Too long for a file's name, or with a null byte in it.
        return False


def public_source(source: str) -> str:
    """A server's address or a dump's name as it may be stored: an address loses what may be a secret."""
    return source if _exists(source) else without_secrets(source)


def server_address(source: str) -> ServerAddress:
    """Accepts http://host:port, the same with /metrics or /v1, and bare host:port. InputError for anything else."""
    import httpx

    text = source if "://" in source else f"http://{source}"
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError):
        raise InputError("the server's URL cannot be read: expected http://HOST:PORT or https://HOST/PATH") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError("the server's URL has no http or https host: expected http://HOST:PORT or https://HOST/PATH")
    if url.port is not None and not 0 < url.port < 2**16:
        raise InputError(f"the server's port is {url.port}: expected one from 1 to 65535, as in http://HOST:8000")
    path = url.path.rstrip("/")
    base_path = path.removesuffix("/metrics").removesuffix("/v1")
    metrics_path = path if path.endswith("/metrics") else f"{base_path}/metrics"
    shown = url.copy_with(username=None, password=None, query=None, fragment=None, path=metrics_path)
    return ServerAddress(
        metrics_url=str(url.copy_with(path=metrics_path, fragment=None)),
        base_url=str(url.copy_with(path=base_path or "/", query=None, fragment=None)),
        display=str(shown),
    )


class Fetcher:
    """One HTTP client for all scrapes of a probe. `timeout_s` is the deadline of a whole page, not of one read."""

    def __init__(self, token: str | None, headers: Mapping[str, str], timeout_s: float) -> None:
        self._secrets: dict[str, str] = dict(headers)
        if token is not None:
            self._secrets["Authorization"] = f"Bearer {token}"
        for name, value in self._secrets.items():
            if not name.isascii() or not value.isascii() or any(c in name + value for c in "\r\n\0"):
                # The value itself must not appear: it may be the key.
                raise InputError(f"header {name!r} holds a line break or a character outside ASCII: check the key "
                                 "for a trailing newline or a copied quote")
        self._timeout_s = timeout_s

    def page(self, address: ServerAddress) -> Scrape:
        """Scrape the address. ProbeError, one sentence, for all that can go wrong on the way."""
        body, taken_s = self._get(address.metrics_url, address.display)
        return read_metrics(_decode(body, address.display, ProbeError), address.display, at_s=taken_s)

    def version(self, address: ServerAddress, engine: str) -> str | None:
        """The engine's own version, where its endpoint answers; never a reason to fail."""
        import json

        for path in _VERSION_PATHS.get(engine, ()):
            try:
                body, _ = self._get(address.base_url.rstrip("/") + path, address.display)
                version = json.loads(body).get("version")
            except (ProbeError, ValueError, RecursionError, AttributeError):
                continue
            if isinstance(version, str) and 0 < len(version) <= 80:
                return version
        return None

    def model_roots(self, address: ServerAddress) -> dict[str, str]:
        """Served name to the folder or id it was loaded from, where the engine's list says so; never a failure."""
        import json

        try:
            body, _ = self._get(address.base_url.rstrip("/") + "/v1/models", address.display)
            entries = json.loads(body)["data"]
            return {one["id"]: one["root"] for one in entries[:MAX_MODELS]
                    if isinstance(one.get("root"), str) and isinstance(one["id"], str) and len(one["root"]) <= 500}
        except (ProbeError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return {}

    def _get(self, url: str, shown: str) -> tuple[bytes, float]:
        import httpx

        target, headers = httpx.URL(url), dict(self._secrets)
        if target.userinfo and any(name.lower() == "authorization" for name in headers):
            # A key named on purpose wins over credentials in the URL, which httpx would put in its place.
            target = target.copy_with(userinfo=b"")
        try:
            for _ in range(MAX_REDIRECTS + 1):
                # Loopback is never behind a proxy, and a proxy from the environment would break it.
                with httpx.Client(timeout=self._timeout_s, trust_env=not _is_loopback(target.host)) as client:
                    response, body, taken_s = self._stream(client, target, headers, shown)
                if not response.is_redirect:
                    _refuse_status(response.status_code, shown)
                    return body, taken_s
                following = target.join(response.headers.get("location", ""))
                if not _same_place(target, following):
                    # Keys are for the host the user named, not for wherever it points.
                    headers = {}
                elif target.userinfo and not following.userinfo:
                    following = following.copy_with(userinfo=target.userinfo)
                target = following
        except httpx.HTTPError as error:
            raise ProbeError(_sentence(error, shown, self._timeout_s)) from None
        except (httpx.InvalidURL, UnicodeError):
            raise ProbeError(f"{shown} redirects to an address that cannot be read: give the engine's own "
                             "address") from None
        raise ProbeError(f"{shown} redirects more than {MAX_REDIRECTS} times: give the engine's own address")

    def _stream(self, client: httpx.Client, url: httpx.URL, headers: Mapping[str, str],
                shown: str) -> tuple[httpx.Response, bytes, float]:
        deadline = time.monotonic() + self._timeout_s
        parts: list[bytes] = []
        size = 0
        with client.stream("GET", url, headers={"Accept": "text/plain", **headers}) as response:
            # The counters are of the moment the server wrote them, which is closer to the first byte than to the last.
            taken_s = time.monotonic()
            for chunk in response.iter_bytes():
                parts.append(chunk)
                size += len(chunk)
                if size > MAX_BYTES:
                    raise ProbeError(f"{shown} sends more than {MAX_BYTES // 2**20} MiB: that is no metrics page; "
                                     "check the path")
                if time.monotonic() > deadline:
                    raise ProbeError(f"{shown} did not finish its answer within {self._timeout_s:g} s: check the "
                                     "server's load, or raise --timeout")
        return response, b"".join(parts), taken_s


_VERSION_PATHS = {"vllm": ("/version",), "sglang": ("/server_info", "/get_server_info")}


def read_dump(path: Path) -> Scrape:
    """A saved page. InputError, with the path and the system's reason, when it cannot be read or is something else."""
    body = read_whole(path, "a saved metrics page, or the server's URL (http://HOST:PORT)", MAX_BYTES, packed=True,
                      name=public_source(str(path)))
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # What a Windows shell writes when a page is sent to a file.
        body = body.decode("utf-16", "replace").encode("utf-8")
    return read_metrics(_decode(body, str(path), InputError), str(path), failure=InputError)


def _decode(body: bytes, shown: str, failure: type[InputError] | type[ProbeError]) -> str:
    if body[:2] == _GZIP:
        raise failure(f"{shown} is gzip-compressed: unpack it first (gunzip), or ask the server for plain text")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise failure(f"{shown} is not UTF-8 text: expected the page that `curl http://HOST:PORT/metrics` "
                      "prints") from None


def _refuse_status(status: int, shown: str) -> None:
    if status in (401, 403):
        raise ProbeError(f"{shown} refuses access (HTTP {status}): put the key in an environment variable and name it "
                         "with --token-env, or add --header")
    if status == 404:
        raise ProbeError(f"{shown} does not exist there (HTTP 404): check the path, and that the engine runs with its "
                         "metrics on")
    if status != 200:
        raise ProbeError(f"{shown} answers HTTP {status}: check that the engine itself is up and ready behind it")


def _sentence(error: httpx.HTTPError, shown: str, timeout_s: float) -> str:
    import httpx

    cause = " ".join(str(error).split())
    if isinstance(error, httpx.ConnectTimeout):
        return f"{shown} does not accept a connection within {timeout_s:g} s: check host, port and firewall"
    if isinstance(error, httpx.TimeoutException):
        return f"{shown} did not answer within {timeout_s:g} s: check the server's load, or raise --timeout"
    if isinstance(error, httpx.ConnectError):
        if "CERTIFICATE" in cause.upper() or "SSL" in cause.upper():
            return (f"{shown}: the TLS connection failed ({cause[:120]}); check https or http, and point SSL_CERT_FILE "
                    "to your own authority's certificate where you have one")
        return f"{shown} cannot be reached ({cause[:120]}): check host and port, and that the engine has started"
    if isinstance(error, httpx.UnsupportedProtocol):
        return f"{shown} redirects to something that is not http or https: give the engine's own address"
    if isinstance(error, httpx.DecodingError):
        return f"{shown} sends a compressed answer that cannot be unpacked: check what stands in front of the engine"
    return (f"{shown} broke off or sent something that is not HTTP ({type(error).__name__}): check the port, and "
            "https or http")


def _same_place(one: httpx.URL, other: httpx.URL) -> bool:
    def port(url: httpx.URL) -> int:
        return url.port or (443 if url.scheme == "https" else 80)

    if one.host != other.host:
        return False
    upgraded = one.scheme == "http" and other.scheme == "https" and port(one) == 80 and port(other) == 443
    return upgraded or (one.scheme == other.scheme and port(one) == port(other))


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
