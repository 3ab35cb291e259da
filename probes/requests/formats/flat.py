"""Any table whose columns go by names that are commonly used: the last resort before --columns."""

from probes.requests.shapes import Head, TableFormat
from probes.requests.vocabulary import VOCABULARY


def _has(head: Head, field: str) -> bool:
    return any(head.has(place.path) for place in VOCABULARY[field])


def _known(head: Head) -> bool:
    return _has(head, "prompt") and _has(head, "output")


def _timed(head: Head) -> bool:
    return not _has(head, "prompt") and _has(head, "latency") and (_has(head, "arrival") or _has(head, "status"))


FORMATS = (
    TableFormat(name="columns", title="rows with token counts", recognises=_known, rank=80),
    TableFormat(name="latencies", title="rows with latencies, no token counts", recognises=_timed, needs=("latency",),
                rank=95),
)
