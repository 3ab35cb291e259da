"""Which image serves a release, and that a made-up one is never passed off as published."""

from __future__ import annotations

import pytest

from profiles.catalog.images import image_of
from profiles.catalog.releases import release


@pytest.mark.parametrize(("version", "vendor", "name"), [
    ("0.32.0", "nvidia", "vllm/vllm-openai:v0.32.0"),
    ("v0.32", "nvidia", "vllm/vllm-openai:v0.32.0"),
    ("0.32.0+cpu", "cpu", "vllm/vllm-openai-cpu:v0.32.0"),
    ("0.12.0", "cpu", "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.12.0"),
    ("0.25.1", "amd", "vllm/vllm-openai-rocm:v0.25.1"),
])
def test_a_plain_release_has_the_image_of_its_number(version: str, vendor: str, name: str) -> None:
    image = image_of(release(version), vendor)
    assert (image.name, image.note) == (name, None)
    assert f"{image.repository}:{image.tag}" == name


@pytest.mark.parametrize(("version", "vendor"), [("0.10.0", "amd"), ("0.32.0", "google"), ("0.20.0", "intel")])
def test_where_none_is_known_the_name_cannot_be_pulled_and_the_note_says_what_to_do(version: str, vendor: str) -> None:
    image = image_of(release(version), vendor)
    assert image.name.startswith("registry.example.com/")
    assert image.note is not None
    assert "put the one you use in place" in image.note


@pytest.mark.parametrize(("version", "tag"), [("nightly", "nightly"), ("0.33.0rc1", "v0.33.0rc1"), ("9.9.9", "v9.9.9")])
def test_what_is_no_known_release_gets_a_tag_and_a_warning(version: str, tag: str) -> None:
    image = image_of(release(version), "nvidia")
    assert image.tag == tag
    assert image.note is not None
    assert "was not looked up" in image.note
