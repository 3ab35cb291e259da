"""A container image names its release in its tag: judging a config by another one says little about what will start."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.checks.finding import Finding
from advisor.checks.notice import Notice
from advisor.checks.serve_config import ServeConfig
from profiles.catalog.releases import Release, version_tuple

OTHER_RELEASE = Notice("SPD905", "The image runs another release than the one checked for", "warn", "releases",
                       "Keys, methods and runners differ from release to release, and the image decides which one "
                       "starts.",
                       "Give the image's release with --vllm-version, or change the image.")
NOTICES = (OTHER_RELEASE,)

_TAG = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)(?![\d.])[^:/]*$")


def image_notices(config: ServeConfig, release: Release) -> Iterator[Finding]:
    """A finding where the tag names a release, and it is not the one that the rules were applied for."""
    match = _TAG.search(config.image.partition("@")[0])
    if match is None:
        return
    try:
        same = version_tuple(match[1]) == version_tuple(release.version)
    except ValueError:
        # nightly and its like: no tag with numbers is that.
        same = False
    if not same:
        yield OTHER_RELEASE.finding(f"The image {config.image[:80]} runs vLLM {match[1]}, the config was checked for "
                                    f"{release.version}", line=config.first_line)
