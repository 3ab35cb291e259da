"""Whether the server that answers is the one a record speaks of: engine, model, release, speculation, k.

A metrics page names no method and no draft: two drafts with the same k cannot be told apart.
"""

from __future__ import annotations

import math

from advisor.promise import k_loaded
from advisor.record import Record
from advisor.verdict import Promise, Verdict
from profiles.evidence import ServerEvidence


def identity(record: Record, server: ServerEvidence, named: str | None = None) -> list[Promise]:
    """Promises about what runs. named: the served model that the user says is the recorded target."""
    found = [_engine(server), _model(record, server, named)]
    decided = record.provenance.vllm_version
    if server.engine_version is not None and _release(server.engine_version) != _release(decided):
        found.append(Promise(code="release", verdict="noted",
                             sentence=f"The server runs release {server.engine_version}, decided for {decided}: step "
                                      "times and options may differ."))
    found.append(_speculation(record, server))
    if found[-1].verdict == "held" and k_loaded(record) > 0:
        found.append(_k(record, server))
    return found


def _engine(server: ServerEvidence) -> Promise:
    if server.engine != "vllm":
        return Promise(code="engine", verdict="broken",
                       sentence=f"The server is {server.engine}, and the record is for vLLM.")
    return Promise(code="engine", verdict="held", sentence="The server is vLLM, as recorded.")


def _release(text: str) -> str:
    """Without what a build adds to it: 0.32.0+cpu is 0.32.0."""
    return text.partition("+")[0].removeprefix("v").strip()


def _last(name: str) -> str:
    """Folder or hub id, whatever stands before its last part: the same model lies in different places."""
    return name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].casefold()


def _model(record: Record, server: ServerEvidence, named: str | None) -> Promise:
    target = record.provenance.target.id
    stated = record.deployment.target.id
    served = record.deployment.engine.extra_args.get("served-model-name",
                                                     record.deployment.engine.extra_args.get("served_model_name"))
    expected = {_last(target), _last(stated)}
    aliases = {str(one) for one in (served if isinstance(served, (list, tuple)) else [served]) if one}
    names = ", ".join(server.models) or "no model"
    roots = {root for name, root in server.model_roots.items() if name in server.models}
    if roots:
        same = any(_last(root) in expected for root in roots)
        shown = ", ".join(sorted(roots))
        return Promise(code="model", verdict="held" if same else "broken",
                       sentence=f"The server serves {shown}, as recorded." if same else
                       f"The server loaded {shown}, and the record is for {target}.")
    if named is not None or any(_last(name) in expected or name in aliases for name in server.models):
        return Promise(code="model", verdict="held", sentence=f"The server serves {named or names}, as recorded.")
    # A served name with a slash is a model id or a folder; a plain one may be any name the operator chose.
    verdict: Verdict = "broken" if any("/" in name for name in server.models) else "noted"
    return Promise(code="model", verdict=verdict,
                   sentence=f"The server serves {names}, and the record is for {target}: if that is its name there, "
                            "say so with --model.")


def _speculation(record: Record, server: ServerEvidence) -> Promise:
    runs = server.speculation is not None and server.speculation.enabled
    wanted = record.decision.enable is True
    if runs == wanted:
        return Promise(code="speculation", verdict="held",
                       sentence="Speculation is on, as recorded." if wanted else "Speculation is off, as recorded.")
    if wanted:
        words = (f"The server runs without speculation, and the record turned it on ({record.decision.method}, k = "
                 f"{k_loaded(record)}).")
    elif record.decision.enable is False:
        words = "The server speculates, and the record turned it off."
    else:
        words = "The server speculates, and the record could not decide: its config has no speculation."
    return Promise(code="speculation", verdict="broken", sentence=words)


def _k(record: Record, server: ServerEvidence) -> Promise:
    counters, wanted = server.speculation, k_loaded(record)
    runs = len(counters.per_position) if counters is not None else 0
    if not runs and counters is not None and counters.drafts > 0:
        # Without positions the mean draft tells: drafts may be shorter than k, never longer.
        mean = math.ceil(counters.draft_tokens / counters.drafts - 1e-9)
        runs = mean if mean > wanted else wanted
    if not runs:
        return Promise(code="k", verdict="noted", sentence=f"Nothing was drafted yet: k = {wanted} cannot be seen.")
    if runs == wanted:
        return Promise(code="k", verdict="held", sentence=f"k = {wanted}, as recorded.")
    return Promise(code="k", verdict="broken",
                   sentence=f"The server runs with k = {runs}, and the record with k = {wanted}.")
