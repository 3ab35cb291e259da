"""What of an address may be shown."""

from __future__ import annotations

import pytest

from profiles.addresses import without_secrets


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("http://u:pw@h:8000/metrics?k=pw#pw", "http://h:8000/metrics"),
        ("u:pw@host", "host"),
        ("u:pw@host:8000", "host:8000"),
        ("ftp://user:pw@x", "ftp://x"),
        ("http://u:pw/pw@h/x", "http://h/x"),
        ("http://h/metrics?mail=a@b", "http://h/metrics"),
        ("host/metrics?key=pw", "host/metrics"),
        ("http://[::1]:80/metrics", "http://[::1]:80/metrics"),
        ("host:8000", "host:8000"),
        ("folder/dump.prom", "folder/dump.prom"),
    ],
)
def test_an_address_loses_its_secrets_and_nothing_else(source: str, shown: str) -> None:
    assert without_secrets(source) == shown
