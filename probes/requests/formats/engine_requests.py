"""Requests with the engine's own times: arrival on the wall clock, the rest on the process's monotonic clock."""

from probes.requests.shapes import TableFormat

FORMAT = TableFormat(
    name="engine_requests",
    title="requests with the engine's own times",
    recognises=lambda head: head.has("arrival_time", "queued_ts", "last_token_ts"),
    rank=30,
)
