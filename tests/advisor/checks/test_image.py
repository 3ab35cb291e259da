"""An image's tag says which release will start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.checks.image import image_notices
from advisor.checks.serve_config import from_values
from profiles.catalog.releases import release


@pytest.mark.parametrize(("image", "checked", "said"), [
    ("vllm/vllm-openai:v0.31.0", "0.32.0", True), ("vllm/vllm-openai:v0.32.0", "0.32.0", False),
    ("vllm/vllm-openai:0.32", "v0.32.0", False), ("registry:5000/vllm-openai:v0.32.0-cu129", "0.32.0", False),
    ("registry:5000/vllm-openai", "0.32.0", False), ("vllm/vllm-openai:latest", "0.32.0", False),
    ("vllm/vllm-openai:v0.31.0@sha256:abc", "0.32.0", True), ("vllm/vllm-openai:v0.32.0", "nightly", True),
    ("", "0.32.0", False),
])
def test_a_tag_of_another_release_is_said(image: str, checked: str, said: bool):
    config = replace(from_values({}), image=image, first_line=4)
    found = list(image_notices(config, release(checked)))
    assert [(finding.code, finding.line) for finding in found] == ([("SPD905", 4)] if said else [])
