"""Container images of vLLM releases, by who made the accelerator.

Names and tags as public deployment files use them (read November 2026): `vllm/vllm-openai:v0.6.4` to `v0.30.0`,
`vllm/vllm-openai-rocm:v0.14.0` to `v0.30.0`, `vllm/vllm-openai-cpu:v0.16.0` to `v0.30.0`,
`vllm/vllm-openai-xpu:v0.30.0`; CPU images of earlier releases in vLLM's public ECR repository
(docs.vllm.ai, deployment/docker). No registry is asked: that a tag exists is for whoever pulls it to see.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiles.catalog.releases import Release, Version, version_tuple
from profiles.errors import InputError


@dataclass(frozen=True)
class Image:
    """An image by its full name."""

    name: str
    """`vllm/vllm-openai:v0.32.0`."""
    note: str | None = None
    """What the reader must do about it; None where nothing."""

    @property
    def repository(self) -> str:
        return self.name.rpartition(":")[0]

    @property
    def tag(self) -> str:
        return self.name.rpartition(":")[2]


@dataclass(frozen=True)
class _Published:
    repository: str
    since: Version
    """First release seen under this name."""
    before: str | None
    """Where earlier releases are found; None where nowhere under a name known here."""


_BY_VENDOR = {
    "nvidia": _Published("vllm/vllm-openai", (0, 0, 0), None),
    "amd": _Published("vllm/vllm-openai-rocm", (0, 14, 0), None),
    "cpu": _Published("vllm/vllm-openai-cpu", (0, 16, 0), "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo"),
    "intel": _Published("vllm/vllm-openai-xpu", (0, 30, 0), None),
}
_NO_IMAGE = "registry.example.com/vllm"
_OLDER = {"amd": "; AMD's own are called rocm/vllm, with tags of their own"}


def image_of(release: Release, vendor: str) -> Image:
    """The image that serves a release on accelerators of a vendor (nvidia, amd, intel, google, or cpu).

    Where none is known, a name that cannot be pulled stands in, and the note says so.
    """
    tag = _tag(release)
    published = _BY_VENDOR.get(vendor)
    version = _version(release)
    if published is not None and (version is None or version >= published.since):
        unsure = None if release.known else (
            f"whether vLLM {release.version} is published as {published.repository}:{tag} was not looked up"
        )
        return Image(f"{published.repository}:{tag}", unsure)
    if published is not None and published.before is not None:
        return Image(f"{published.before}:{tag}")
    return Image(
        f"{_NO_IMAGE}-{vendor}:{tag}",
        f"no image of vLLM {release.version} for {vendor} is known here{_OLDER.get(vendor, '')}: put the one you use "
        f"in place of {_NO_IMAGE}-{vendor}:{tag}",
    )


def _version(release: Release) -> Version | None:
    """None for moving versions."""
    try:
        return version_tuple(release.version)
    except (ValueError, InputError):
        return None


def _tag(release: Release) -> str:
    """`v0.32.0` for 0.32, the text itself for what is no plain release (a `+cpu` build is the same release)."""
    text = release.version.partition("+")[0]
    version = _version(release)
    if version is None:
        return "nightly"
    return "v" + (".".join(map(str, version)) if text.replace(".", "").isdigit() else text)
