"""Acceptance of draft models over recorded outputs, by one pass of each over them: nothing is generated."""

from probes.scoring.probe import Plan, probe_scoring
from probes.scoring.sampling import SampledAs

__all__ = ["Plan", "SampledAs", "probe_scoring"]
