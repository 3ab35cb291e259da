"""Text from outside as it may be shown: a model's name, a file's name or a server's label drives no terminal."""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of what moves a cursor, turns the direction of writing, breaks a line or is half a character."""
_BEYOND = re.compile(r"[^\x00-\x7e]")


def plain(text: str, *, lines: bool = False) -> str:
    """Text without control, bidirectional or surrogate characters, so that a model's name cannot drive a terminal.

    `lines` keeps line breaks and tabs (for a config, or several lines that are one's own).
    """
    if text.isascii() and text.isprintable():
        return text
    keep = "\n\t" if lines else ""
    return "".join(c if c in keep or unicodedata.category(c) not in _HIDDEN else "�" for c in text)


def escaped(json_text: str) -> str:
    """A JSON text that means the same and drives no terminal either: JSON itself escapes only what is below U+0020."""
    if json_text.isascii() and "\x7f" not in json_text:
        return json_text
    return _BEYOND.sub(_escape, json_text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if unicodedata.category(found[0]) not in _HIDDEN:
        return found[0]
    if code > 0xFFFF:
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
