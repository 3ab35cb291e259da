"""LiteLLM spend logs: rows of its SpendLogs table as JSON, JSONL, CSV or Parquet."""

from probes.requests.shapes import Place, TableFormat

FORMAT = TableFormat(
    name="litellm",
    title="LiteLLM spend log",
    recognises=lambda head: head.has("startTime", "endTime", "prompt_tokens", "completion_tokens"),
    columns={
        "arrival": (Place("startTime"),),
        "end": (Place("endTime"),),
        "first": (Place("completionStartTime"),),
        "status": (Place("status"),),
        "cached": (),
    },
    rank=30,
)
