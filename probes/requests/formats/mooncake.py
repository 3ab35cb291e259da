"""Mooncake traces and those that share their block ids: one request a line, lengths and hash_ids of prompt blocks."""

from probes.requests.shapes import Place, TableFormat

BLOCKS = "hash_ids"
"""Ids of the prompt's blocks; an id seen before is a block that a prefix cache could hold."""

FORMATS = (
    TableFormat(
        name="bailian",
        title="Qwen-Bailian usage trace",
        recognises=lambda head: head.has("chat_id", "timestamp", "input_length", "output_length"),
        columns={"arrival": (Place("timestamp", "s"),), "model": ()},
        rank=40,
    ),
    TableFormat(
        name="mooncake",
        title="Mooncake trace",
        recognises=lambda head: head.container == "jsonl" and head.has("timestamp", "input_length", "output_length"),
        # Milliseconds from the trace's start.
        columns={"arrival": (Place("timestamp", "ms"),), "model": ()},
    ),
)
