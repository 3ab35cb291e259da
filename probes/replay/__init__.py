"""Acceptance of methods that copy from text, over recorded prompts and outputs: no engine, no torch, no generating."""

from probes.replay.probe import Plan, can_replay, probe_replay
from probes.replay.tokens import TokenRequests, token_requests

__all__ = ["Plan", "TokenRequests", "can_replay", "probe_replay", "token_requests"]
