"""Where a server answers, as it may be stored and printed: without user, password, query and fragment."""

from __future__ import annotations

import re


def without_secrets(source: str, mark: str = "") -> str:
    """A URL, host:port or user:password@host without what may be a secret; anything else as it is.

    `mark` takes the place of the user and password. Works on text that is no valid URL too: an error sentence must not
    show the password of a mistyped one.
    """
    scheme, separator, rest = source.partition("://")
    if not separator:
        scheme, rest = "", source
        if not re.match(r"[^/?#@]*:", rest) and not re.match(r"[^/?#@]*@", rest):
            return re.split(r"[?#](?=[^?#]*=)", source, maxsplit=1)[0]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        rest = mark + rest[authority.rindex("@") + 1:]
    elif "@" in rest and not re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", authority):
        # `user:pa/ss@host`: what looks like the port is the password's beginning.
        rest = mark + rest.rpartition("@")[2]
    return scheme + separator + re.split(r"[?#]", rest, maxsplit=1)[0]
