"""Chat messages as clients write them."""

from __future__ import annotations


def content_text(content: object) -> str | None:
    """The text of a message's `content`: as it is, or its parts put together; None where it is neither.

    Raises ValueError where a part is no text. A picture can't be left out: what was said then answers something else.
    """
    if isinstance(content, list):
        if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
            raise ValueError("a message has parts other than text")
        return "".join(part["text"] for part in content)
    return content if isinstance(content, str) else None
