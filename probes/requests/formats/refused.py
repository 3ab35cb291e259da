"""Files that people take for request logs and that are none: each says what it is and what to give instead."""

from __future__ import annotations

from probes.requests.shapes import Head, Recogniser, RecordFormat


def _servegen(head: Head) -> bool:
    if head.container == "csv":
        rows = [line.split(",") for line in head.lines[:20] if line]
        return not head.header and bool(rows) and all(
            len(row) == 6 and not row[3].strip().lstrip("-").replace(".", "").isdigit() for row in rows)
    inner = next(iter(head.first().values()), None) if head.first() else None
    return isinstance(inner, dict) and {"input_tokens", "output_tokens"} <= set(inner) and isinstance(
        inner["input_tokens"], str)


def _gpu(head: Head) -> bool:
    inner = next(iter(head.first().values()), None) if head.first() else None
    return isinstance(inner, dict) and "GPU_total_mem" in inner and "in_len" not in inner


def _metadata(head: Head) -> bool:
    first = head.first()
    return len(head.records) == 1 and bool(
        {"engine_kwargs", "harness_version", "kv_cache"} & set(first)) and "requests" not in first


def _sglang_log(head: Head) -> bool:
    return head.container == "text" and any(
        "Decode batch, #running-req" in line or "Prefill batch, #new-seq" in line
        or ("sglang" in line.lower() and "server_args" in line) for line in head.lines)


def _refused(name: str, title: str, recognises: Recogniser) -> RecordFormat:
    return RecordFormat(name=name, title=title, recognises=recognises, read=lambda records: iter(()),
                        refused=True, rank=10)


FORMATS = (
    _refused("servegen", "ServeGen's statistics per time window (rates or length histograms)", _servegen),
    _refused("gpu_samples", "samples of a GPU's memory and use", _gpu),
    _refused("metadata", "the description of a run", _metadata),
    _refused("sglang_log", "the log of an SGLang server, which names no request", _sglang_log),
)
