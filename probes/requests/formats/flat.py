"""Any table whose columns go by names that are commonly used: the last resort before --columns."""

from probes.requests.shapes import Head, TableFormat
from probes.requests.vocabulary import has_counts, has_field


def _timed(head: Head) -> bool:
    return not has_field(head, "prompt") and has_field(head, "latency") and (
        has_field(head, "arrival") or has_field(head, "status"))


FORMATS = (
    TableFormat(name="columns", title="rows with token counts", recognises=has_counts, rank=80),
    TableFormat(name="latencies", title="rows with latencies, no token counts", recognises=_timed, needs=("latency",),
                rank=95),
)
