"""Text from outside as it may be shown: a model's name, a file's name or a server's label drives no terminal, and a key
that was put in the wrong place is not quoted back.
"""

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


# --- keys ----------------------------------------------------------------------------------------------------------
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    # Each by the beginning that its issuer gives it. Where that is a common word's too, more than letters must follow.
    r"(hf_)(?=[a-z]*[A-Z0-9]|[a-z]{16})[A-Za-z0-9]{6,}"
    r"|(?<![_-])(sk-(?:ant-|or-|proj-)?)(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{12,}"
    r"|(gh[oprsu]_|github_pat_|gsk_|r8_|[prs]k_(?:live|test)_)[A-Za-z0-9_]{12,}"
    r"|(glpat-|nvapi-|pplx-|xai-|xox[abeoprs]-|AIza)[A-Za-z0-9_-]{12,}"
    r"|(AKIA|ASIA)[A-Z0-9]{12,}"
    r"|(eyJ)[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"
    r"|((?i:bearer|basic)\s+)(?=\S*[0-9])[A-Za-z0-9._~+/=-]{8,}"
    r"|((?i:[a-z0-9_-]{0,40}(?:api_?-?key|token|secret|password|passwd))=)[^\s'\"&,;]{4,}"
    r"|([a-z][a-z0-9+.-]{1,20}://)[^\s/@'\"]*:[^\s/@'\"]+@"
    r")")
_AT = "://"


def masked(text: str) -> str:
    """The text with stars in place of what looks like a key: a value that was given to the wrong option is quoted back,
    and ends in a pipeline's log.

    Keys are told by what their issuers let them begin with, by a name that says so (`api_key=`, `Bearer`), and by their
    place in an address.
    """
    return _KEY.sub(_starred, text)


def _starred(found: re.Match[str]) -> str:
    begin = next(group for group in found.groups() if group is not None)
    return f"{begin}***@" if begin.endswith(_AT) else f"{begin}***"
