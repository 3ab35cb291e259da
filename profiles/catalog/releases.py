"""vLLM releases: what each accepts and does as far as speculation is concerned, read from `data/releases.yaml`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from profiles.catalog.compiled import compiled
from profiles.errors import InputError
from profiles.schema import Schema

Version = tuple[int, int, int]

_VERSION = re.compile(
    r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?(?P<rest>[.\-_]?(?:rc|a|b|alpha|beta|dev|post|pre)[.\-_]?\d*"
    r"(?:\.dev\d+)?|\.\d+)?(?:\+[\w.]+)?",
    re.IGNORECASE,
)
_MOVING = frozenset({"nightly", "latest", "main", "master", "dev", "head"})


class Limits(Schema):
    """Sizes the OpenAI server takes when nobody states them."""

    max_num_seqs: int
    """Most requests in one step."""
    max_num_batched_tokens: int
    """Most tokens in one step, drafts included."""


class Release(Schema):
    """One vLLM release. Ask for facts by name; nothing else in the tool compares version numbers."""

    version: str
    """As asked for, without a leading v."""
    rules: str
    """The release whose rules are applied: the same one, or the nearest that was read."""
    known: bool
    """False for anything but a final release between the oldest and newest that the catalog covers."""
    speculative_keys: frozenset[str]
    """Keys of --speculative-config that may be emitted; empty before 0.8 (separate options then)."""
    internal_keys: frozenset[str]
    """Declared keys that no user may set: filled by vLLM itself, or refused at once."""
    methods: frozenset[str]
    """Values of `method` that start an engine."""
    method_spellings: dict[str, str] = Field(default_factory=dict)
    """Other accepted spellings, and the method each becomes."""
    rejection_methods: frozenset[str]
    """Values of `rejection_sample_method`."""
    serve_options: frozenset[str]
    """Options of `vllm serve` that concern speculation, without leading dashes."""
    features: frozenset[str]
    """Named behaviours that hold in this release."""
    default_runner: Literal["v1", "v2"]
    """GPU model runner taken when VLLM_USE_V2_MODEL_RUNNER is not set."""
    default_gpu_memory_utilization: float
    """Share of each GPU's memory taken when nobody states one."""
    runner_by_architecture: bool
    """True where V2 is taken for some targets only (0.22 to 0.28); `picks_v2` says for which."""
    v1_methods: frozenset[str] = frozenset()
    """Methods that the V1 engine (from 0.12 on its V1 runner) has."""
    v2_methods: frozenset[str] = frozenset()
    """Methods that the V2 runner has; forcing it with another one is refused."""
    eagle3_model_types: tuple[str, ...] = ()
    """Parts of a target's model_type that EAGLE-3 is limited to; empty where only the class decides."""
    eagle3_architectures: frozenset[str] = frozenset()
    """Target classes with the EAGLE-3 interface."""
    eagle_head_architectures: frozenset[str] = frozenset()
    """Classes of EAGLE heads; empty before the V1 engine ran them."""

    def has(self, feature: str) -> bool:
        """Whether a named behaviour holds here. KeyError for a name the catalog does not have."""
        if feature not in compiled("releases")["features"]:
            raise KeyError(f"unknown feature {feature!r}: expected one of {', '.join(sorted(all_features()))}")
        return feature in self.features

    def follows(self, version: str) -> bool:
        """Whether what came with `version` is in this release."""
        return _at_least(self.rules, version)

    def picks_v2(self, architectures: Collection[str], *, moe: bool, hybrid: bool, quantized: bool) -> bool:
        """Whether this release takes the V2 runner for a target when no variable forces one."""
        span = _span(compiled("releases")["runners"], self.rules)
        listed = any(name in span.get("architectures", ()) for name in architectures)
        if span["picks"] == "listed":
            return listed and not moe and not quantized
        if span["picks"] == "dense":
            return not hybrid and (listed or not moe)
        return bool(span["picks"] == "all")

    def accepts(self, key: str) -> bool:
        """Whether --speculative-config takes this key; dashes count as underscores, as vLLM has it."""
        return key.replace("-", "_") in self.speculative_keys

    def refuse_key(self, key: str) -> str | None:
        """Why a key is not accepted, in one sentence; None where it is."""
        name = key.replace("-", "_")
        if name in self.speculative_keys:
            return None
        fact = compiled("releases")["speculative_keys"].get(name)
        if fact is None:
            return f"vLLM {self.version} knows no speculative-config key {key!r}"
        note = f" ({fact['note']})" if fact.get("note") else ""
        if fact.get("kind") == "refused":
            return f"speculative-config key {key!r} is refused whatever its value{note}"
        if fact.get("kind") == "internal":
            return f"speculative-config key {key!r} is filled by vLLM itself and must not be set"
        if "until" in fact and _at_least(self.rules, fact["until"]):
            return f"speculative-config key {key!r} was removed in vLLM {fact['until']}{note}"
        return f"speculative-config key {key!r} came with vLLM {fact['since']}{note}"

    def default_limits(
        self, memory_gib: float | None, gpu_name: str = "", *, cpu: bool = False, workers: int = 1
    ) -> Limits:
        """max_num_seqs and max_num_batched_tokens when left out.

        Args:
            memory_gib: memory of one GPU as the driver reports it; None is treated as a small card.
            gpu_name: its name; A100 keeps the small figures.
            cpu: the CPU engine, whose figures grow with `workers` (its tensor- and pipeline-parallel processes).
            workers: only read on the CPU engine.
        """
        facts = compiled("releases")
        if cpu:
            per_worker = facts["cpu_limits"]
            return Limits(
                max_num_seqs=per_worker["max_num_seqs"] * workers,
                max_num_batched_tokens=per_worker["max_num_batched_tokens"] * workers,
            )
        for band in facts["limits"]:
            excluded = band.get("not_named", "\0") in gpu_name.lower()
            if (memory_gib or 0.0) >= band["min_memory_gib"] and not excluded:
                break
        return Limits(max_num_seqs=band["max_num_seqs"], max_num_batched_tokens=band["max_num_batched_tokens"])

    def capture_ceiling(self, max_num_seqs: int, k: int, compute_capability: str | None = None) -> int:
        """Largest batch, in TOKENS, that runs under CUDA graphs when no capture size is stated.

        A decode batch of N requests is N * (k + 1) tokens; beyond the ceiling a step runs without full graphs.
        """
        facts = compiled("releases")["capture"]
        family = (compute_capability or "").split(".")[0]
        wide = family == "10" and self.has("capture_1024_on_blackwell")
        ceiling = facts["ceiling_data_centre_blackwell" if wide else "ceiling"]
        per_request = k + 1 if self.has("capture_counts_drafts") else 1
        return int(min(facts["factor"] * max_num_seqs * per_request, ceiling))


def all_features() -> frozenset[str]:
    """Every named behaviour."""
    return frozenset(compiled("releases")["features"])


def newest() -> str:
    """The newest release whose rules are known, e.g. `0.33`."""
    return str(compiled("releases")["newest"])


def oldest() -> str:
    return str(compiled("releases")["oldest"])


def version_tuple(version: str) -> Version:
    """(major, minor, patch) of a version in any usual spelling; a missing patch is 0. ValueError otherwise."""
    match = _VERSION.fullmatch(version.strip())
    if match is None:
        raise ValueError(f"{version!r} is not a version")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def _at_least(version: str, since: str) -> bool:
    return version_tuple(version) >= version_tuple(since)


def _holds(fact: Mapping[str, Any], rules: str) -> bool:
    return _at_least(rules, fact["since"]) and not ("until" in fact and _at_least(rules, fact["until"]))


def _span(spans: Sequence[Mapping[str, Any]], rules: str) -> Mapping[str, Any]:
    return next(span for span in spans if _holds(span, rules))


@lru_cache(maxsize=64)
def release(version: str) -> Release:
    """The facts of a release: `0.32`, `0.32.1`, `v0.32.0`, `0.33.0rc1`, `0.32.0+cpu`, `nightly`.

    A newer or moving version (`nightly`, `main`, a release candidate, a development build) gets the newest rules that
    apply and `known=False`; so does one older than the oldest covered, with the oldest rules.

    Raises:
        InputError: the text is no version.
    """
    facts = compiled("releases")
    text = version.strip()
    if text.lower() in _MOVING:
        rules, known = facts["newest"], False
    else:
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InputError(
                f"vllm_version is {version!r}: expected a release such as {facts['newest']}.0, or nightly; "
                "`vllm --version` prints the installed one"
            )
        parsed = version_tuple(text)
        known = True
        rules = ".".join(map(str, parsed))
        if parsed[:2] > version_tuple(facts["newest"])[:2]:
            rules, known = facts["newest"], False
        elif parsed < version_tuple(facts["oldest"]):
            rules, known = facts["oldest"], False
        elif re.search(r"rc|a\d|b\d|alpha|beta|dev|pre", (match["rest"] or "").lower()):
            known = False
    runner = _span(facts["runners"], rules)
    limited = next((span["types"] for span in facts["eagle3_model_types"] if _holds(span, rules)), ())

    def names(section: str) -> frozenset[str]:
        return frozenset(name for name, fact in facts[section].items() if _holds(fact, rules))

    def listed(section: str) -> frozenset[str]:
        return frozenset(name for span in facts[section] if _holds(span, rules) for name in span["names"])

    keys = names("speculative_keys")
    internal = frozenset(name for name in keys if facts["speculative_keys"][name].get("kind"))
    methods = frozenset(name for name, spans in facts["methods"].items() if any(_holds(span, rules) for span in spans))
    return Release(
        version=text.lstrip("vV") if text[:1] in "vV" and text[1:2].isdigit() else text,
        rules=rules,
        known=known,
        speculative_keys=keys - internal,
        internal_keys=internal,
        methods=methods,
        method_spellings={
            old: name
            for name, spellings in facts["method_spellings"].items()
            for old, since in spellings.items()
            if _at_least(rules, since)
        },
        rejection_methods=names("rejection_methods"),
        serve_options=names("serve_options"),
        features=names("features"),
        default_runner=runner["default"],
        default_gpu_memory_utilization=next(
            span["value"] for span in facts["gpu_memory_utilization"] if _holds(span, rules)
        ),
        runner_by_architecture=runner["allow_list"],
        v1_methods=names("v1_methods"),
        v2_methods=names("v2_methods"),
        eagle3_model_types=tuple(limited),
        eagle3_architectures=listed("eagle3_architectures"),
        eagle_head_architectures=listed("eagle_head_architectures"),
    )
