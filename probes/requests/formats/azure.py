"""Azure's public LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens (2023 and 2024)."""

from probes.requests.shapes import Place, TableFormat

FORMAT = TableFormat(
    name="azure",
    title="Azure LLM inference trace",
    recognises=lambda head: head.has("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    columns={"arrival": (Place("TIMESTAMP"),), "prompt": (Place("ContextTokens"),),
             "output": (Place("GeneratedTokens"),)},
    vocabulary=False,
)
