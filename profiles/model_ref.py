"""The name of a model: an id on the hub, or a folder."""

from __future__ import annotations

from pydantic import Field, model_validator

from profiles.schema import Schema


class ModelRef(Schema):
    """A model: an HF id or a folder. A plain string is taken as `id`."""

    id: str = Field(min_length=1)
    """HF id (org/name) or a folder with config.json; a relative folder is relative to the deployment file."""
    revision: str | None = None
    """Branch, tag or commit on the hub."""

    @model_validator(mode="before")
    @classmethod
    def _string_is_id(cls, value: object) -> object:
        return {"id": value} if isinstance(value, str) else value
