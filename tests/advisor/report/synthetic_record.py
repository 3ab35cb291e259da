"""Synthetic records, built through the real models: invented numbers that hang together, not a measurement.

Three decisions: `enabled()`, `off()`, `abstained()`; `hostile()` carries names that try to break out of every format.
"""

from __future__ import annotations

from advisor.checks.finding import CheckResult, Finding
from advisor.record import (
    Decision,
    DraftMap,
    DraftMapRow,
    EmittedConfig,
    Memory,
    Priced,
    Proposal,
    Provenance,
    Reason,
    Record,
)
from profiles.catalog.shapes import AttentionGroup, ModelShape
from profiles.deployment import Candidate, Deployment, Engine, Hardware, Objective
from profiles.evidence import (
    ArmEvidence,
    ArmStatus,
    Evidence,
    GpuDevice,
    GpuEvidence,
    Implausibility,
    PairedBlock,
    PairedComparison,
    PromptSummary,
    RequestAcceptance,
    ServerEvidence,
    SpeculationCounters,
    StepSample,
    TrialEvidence,
)
from profiles.model_ref import ModelRef
from profiles.schema import Quantity, Source, measured, modelled
from profiles.workload import Lengths, Sampling, Task, Workload

TARGET = "acme/Target-8B-Instruct"
DRAFT = "acme/Draft-1B-Instruct"
LOADS = (1, 2, 4, 8, 16, 32, 64)
DRAFT_MODEL = Candidate(method="draft_model", draft=ModelRef(id=DRAFT), k=(1, 2, 3, 4, 5))
HEAD = Candidate(method="eagle3", draft=ModelRef(id="acme/Head-8B-EAGLE3"), k=(1, 2, 3))
NGRAM = Candidate(method="ngram", k=(2, 4), settings={"prompt_lookup_max": 4})
NONE = Candidate(method="none", k=(1,))


def shape(id: str, params: int) -> ModelShape:
    return ModelShape(
        id=id,
        revision="main",
        config_hash="ab" * 32,
        params=params,
        active_params=params,
        num_layers=32,
        hidden_size=4096,
        num_attention_heads=32,
        vocab_size=128256,
        origin="catalog",
        attention=(AttentionGroup(kind="full", layers=32, kv_heads=8, head_dim=128),),
    )


def priced(
    candidate: Candidate, k: int, running: int, acceptance: float, draft_ms: float, head: float, source: Source
) -> Priced:
    base = 11.0 + 0.09 * running
    verify = base + 0.17 * running * k
    draft = draft_ms * k
    step = verify + draft + 0.4
    length = (1 - acceptance ** (k + 1)) / (1 - acceptance)
    decode = length * base / step
    speedup = 1 + (decode - 1) * head
    wide = 0.05 if source is Source.MEASURED else 0.14

    def q(value: float, spread: float = wide) -> Quantity:
        return Quantity(
            value=value,
            low=value * (1 - spread),
            high=value * (1 + spread),
            source=source,
            n=24 if source is Source.MEASURED else None,
        )

    margin = (speedup - 1.05) / (speedup * wide / 1.28)
    return Priced(
        candidate=candidate,
        label=candidate.label,
        k=k,
        running=running,
        acceptance_length=q(length, 0.03),
        step_ms=q(step, 0.02),
        draft_ms=draft,
        verify_ms=verify,
        overhead_ms=0.4,
        baseline_step_ms=q(base, 0.02),
        decode_speedup=q(decode),
        speedup=q(speedup),
        tpot_ms=q(base / speedup),
        ttft_ms=q(60 + running * 4),
        tokens_per_s=q(1000 * running * speedup / base),
        probability_of_gain=min(0.999, max(0.001, 0.5 + margin / 4)),
        fits=True,
        limited_by="verify_compute" if running >= 32 else "draft_time" if k >= 4 else "acceptance",
    )


def null(running: int) -> Priced:
    base = 11.0 + 0.09 * running
    one = modelled(1.0, 1.0, 1.0)
    return Priced(
        candidate=NONE,
        label="none",
        k=0,
        running=running,
        acceptance_length=one,
        step_ms=modelled(base),
        draft_ms=0,
        verify_ms=base,
        overhead_ms=0,
        baseline_step_ms=modelled(base),
        decode_speedup=one,
        speedup=one,
        tpot_ms=modelled(base),
        tokens_per_s=modelled(1000 * running / base),
        probability_of_gain=0.0,
    )


def all_priced(quality: float = 1.0) -> tuple[Priced, ...]:
    cells = [null(load) for load in LOADS]
    for load in LOADS:
        cells += [priced(DRAFT_MODEL, k, load, 0.72 * quality, 1.45, 0.92, Source.MEASURED) for k in DRAFT_MODEL.k]
        cells += [priced(HEAD, k, load, 0.55 * quality, 1.1, 0.92, Source.MODELLED) for k in HEAD.k]
        cells += [priced(NGRAM, k, load, 0.22 * quality, 0.1, 0.92, Source.MEASURED) for k in NGRAM.k]
    return tuple(cells)


PROPOSALS = (
    Proposal(label="draft_model Llama-3.2-1B", method="draft_model", draft=DRAFT, taken=True, reason="its own series"),
    Proposal(label="dflash x", method="dflash", draft="org/x", taken=False, reason="vLLM 0.14.1 does not start dflash"),
)
DRAFT_MAP = DraftMap(
    running=8,
    reference_k=5,
    acceptance_lengths=(1.5, 2.5, 3.5, 4.5),
    rows=(
        DraftMapRow(method="eagle3", params=285_000_000, fits=True, speedup=(1.1, 1.5, 1.9, 2.4), k=(1, 3, 4, 6),
                    break_even_acceptance_length=1.25),
        DraftMapRow(method="draft_model", params=3_000_000_000, fits=True, speedup=(0.8, 1.02, 1.1, 1.2),
                    k=(1, 1, 2, 3), break_even_acceptance_length=2.4),
        DraftMapRow(method="draft_model", params=30_000_000_000, fits=False, speedup=(None,) * 4, k=(None,) * 4,
                    break_even_acceptance_length=None),
    ),
    cost_source="modelled from facts",
)  # fmt: skip


def memory() -> Memory:
    return Memory(
        fits=True,
        gpu_memory_gib=79.6,
        usable_gib=71.7,
        target_weights_gib=15.0,
        draft_weights_gib=2.3,
        overhead_gib=2.1,
        kv_bytes_per_token_target=131072,
        kv_bytes_per_token_draft=32768,
        kv_tokens_without=447283,
        kv_tokens_with=342753,
        max_concurrency_without=349.4,
        max_concurrency_with=267.8,
        notes=("Both models share one KV pool.",),
    )


def trial() -> TrialEvidence:
    requests = tuple(
        RequestAcceptance(
            task=Task.CODE, prompt_tokens=90 + i, output_tokens=48, steps=20, drafted=(20, 20, 20), accepted=(15, 11, 8)
        )
        for i in range(24)
    )
    steps = (
        StepSample(
            k=3, running=4, context_tokens=140, tokens_per_step=16, step_ms=(16.1, 16.4, 15.9), output_tokens=30
        ),
    )
    return TrialEvidence(
        engine_version="0.32.0",
        device="H100",
        hardware="1 x H100 80 GB",
        target=TARGET,
        max_tokens=48,
        prompts=PromptSummary(
            source="built-in", count=48, by_task={Task.CODE: 24, Task.JSON_SQL: 24}, mean_prompt_tokens=96.0
        ),
        arms=(
            ArmEvidence(candidate=NONE, status=ArmStatus.DONE, start_s=21.0, engine_s=64.0),
            ArmEvidence(
                candidate=DRAFT_MODEL,
                status=ArmStatus.DONE,
                start_s=29.0,
                engine_s=118.0,
                steps=steps,
                requests=requests,
            ),
            ArmEvidence(
                candidate=Candidate(method="eagle", draft=ModelRef(id="acme/Head-EAGLE")),
                status=ArmStatus.REFUSED,
                engine_s=12.0,
                error="ValueError: the head's hidden size 5120 is not the target's 4096",
            ),
        ),
        comparison=PairedComparison(
            candidate=DRAFT_MODEL,
            k=3,
            running=4,
            mode="both_resident",
            stopped="the interval is clear of the worthwhile gain",
            within_run_spread=0.021,
            between_run_spread=0.034,
            pairs=tuple(
                PairedBlock(
                    running=4,
                    baseline_s=10.0,
                    speculative_s=6.5 + 0.06 * i,
                    baseline_tokens=900,
                    speculative_tokens=900,
                )
                for i in range(5)
            ),
        ),
        engine_s=194.0,
        budget_s=600.0,
    )


def evidence(with_fault: bool = False) -> tuple[Evidence, ...]:
    found = trial()
    if with_fault:
        found = found.model_copy(
            update={
                "implausible": (
                    Implausibility(
                        code="later_positions_never_accepted",
                        arm="ngram max=4",
                        severity="error",
                        message="positions 2 and later were never accepted in 1,204 drafts",
                    ),
                )
            }
        )
    gpu = GpuEvidence(
        driver="580.65",
        cuda="13.0",
        window_s=2.0,
        devices=(
            GpuDevice(
                index=0,
                name="H100 80GB HBM3",
                total_bytes=85520809984,
                used_bytes=0,
                free_bytes=85000000000,
                utilization=measured(0.41, 0.38, 0.44, n=20),
            ),
        ),
    )
    server = ServerEvidence(
        url="http://127.0.0.1:8000",
        engine="vllm",
        engine_version="0.32.0",
        models=(TARGET,),
        window_s=15.0,
        running=Quantity(value=4.1, low=3, high=6, n=2, source=Source.RECORDED),
        waiting=None,
        kv_cache_usage=Quantity(value=0.07, source=Source.RECORDED, n=2),
        tpot_ms=Quantity(value=11.6, source=Source.RECORDED, n=310),
        speculation=SpeculationCounters(
            enabled=True,
            drafts=4100,
            draft_tokens=12300,
            accepted_tokens=7100,
            per_position=(0.74, 0.56, 0.43),
            acceptance_length=2.73,
        ),
    )
    common = {"collected_at": "2026-01-05T10:00:00Z", "tool_version": "0.1.0"}
    return (
        Evidence(kind="gpu", command="specadvise probe gpu", gpu=gpu, **common),
        Evidence(kind="server", command="specadvise probe server URL", server=server, **common),
        Evidence(kind="trial", command="specadvise trial deployment.yaml", trial=found, **common),
    )


YAML = """\
# Speculation is on: 1.6x end to end at 4 running requests (80 % interval), measured.
model: acme/Target-8B-Instruct
max-model-len: 8192
gpu-memory-utilization: 0.9
speculative-config:
  method: draft_model
  model: acme/Draft-1B-Instruct
  num_speculative_tokens: 3
"""
OFF_YAML = "# Speculation is off.\nmodel: acme/Target-8B-Instruct\nmax-model-len: 8192\ngpu-memory-utilization: 0.9\n"

WORDS_FOR = (
    Reason(
        question="predictable_text",
        for_or_against="for",
        sentence="The text is predictable: 75 % of first drafted tokens are accepted on code and JSON.",
    ),
    Reason(
        question="memory",
        for_or_against="for",
        sentence="There is memory: the draft takes 2.3 GiB and room for 342,753 tokens of KV cache stays.",
    ),
    Reason(
        question="creative_or_hot",
        for_or_against="for",
        sentence="Sampling is greedy, so a good draft is rarely refused by chance.",
    ),
)
WORDS_AGAINST = (
    Reason(
        question="concurrency",
        for_or_against="against",
        sentence="The gain shrinks with load: from 64 running requests on, verifying costs more than it saves.",
    ),
    Reason(question="cost_of_step", for_or_against="against", sentence="Each drafted token costs 1.45 ms on this GPU."),
)
NEUTRAL = (Reason(question="evidence", sentence="The speed-up is from 5 paired blocks on your own engine."),)


def deployment() -> Deployment:
    return Deployment(
        target=ModelRef(id=TARGET),
        engine=Engine(vllm_version="0.32.0", max_model_len=8192),
        hardware=Hardware(gpu="H100", count=1),
        candidates=(DRAFT_MODEL, HEAD, NGRAM),
        objective=Objective(tpot_ms=20.0),
        workload=Workload(
            concurrency=4,
            concurrency_p95=9,
            prompt_tokens=Lengths(mean=900),
            output_tokens=Lengths(mean=380),
            tasks={Task.CODE: 0.7, Task.JSON_SQL: 0.3},
            sampling=Sampling(temperature=0.0),
        ),
    )


def checklist(message: str = "The draft runs without CUDA graphs on this runner.") -> CheckResult:
    """A warning and a notice, as the checklist says them of the emitted config."""
    told = {"family": "graphs", "source": "engine code"}
    findings = (
        Finding(code="SPD344", severity="warn", message=message, remedy="Set `VLLM_USE_V2_MODEL_RUNNER=0`.",
                where="speculative-config.method", line=6, **told),
        Finding(code="SPD402", severity="info", message="The KV cache is smaller.", remedy="Check your load.",
                where="", **told),
    )  # fmt: skip
    return CheckResult(name="vllm.yaml", findings=findings, verdict="pass", vllm_version="0.32.0",
                       rules_version="0.32.0", checked=("SPD344", "SPD402", "SPD201"))  # fmt: skip


def enabled() -> Record:
    """Speculation on, measured: draft model, k = 3, at 4 running requests."""
    cells = all_priced()
    advised = next(c for c in cells if c.label == DRAFT_MODEL.label and c.running == 4 and c.k == 3)
    decision = Decision(
        enable=True,
        method="draft_model",
        draft=DRAFT,
        k=3,
        schedule=((1, 8, 3), (9, 32, 1), (33, 256, 0)),
        running=4,
        speedup=advised.speedup.value,
        speedup_low=advised.speedup.low,
        speedup_high=advised.speedup.high,
        speedup_source=Source.MEASURED,
        probability_of_gain=0.97,
        break_even_acceptance_length=1.44,
        crossover_load=64,
        reasons=tuple(r.sentence for r in (*WORDS_FOR, *WORDS_AGAINST, *NEUTRAL)),
    )
    positions = {
        DRAFT_MODEL.label: tuple(measured(p, p - 0.03, p + 0.03, n=480) for p in (0.75, 0.57, 0.43, 0.32, 0.24)),
        HEAD.label: tuple(
            Quantity(value=p, low=p - 0.11, high=p + 0.11, source=Source.MODELLED) for p in (0.55, 0.31, 0.17)
        ),
        NGRAM.label: tuple(measured(p, p * 0.8, p * 1.2, n=480) for p in (0.22, 0.11, 0.06, 0.04)),
    }
    return Record(
        decision=decision,
        reasons=(*WORDS_FOR, *WORDS_AGAINST, *NEUTRAL),
        candidates=cells,
        memory=memory(),
        memory_by_candidate={DRAFT_MODEL.label: memory()},
        emitted=EmittedConfig(
            vllm_yaml=YAML, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}, notes=("Restart the server to apply it.",)
        ),
        deployment=deployment(),
        evidence=evidence(),
        assumptions=("Prefix-cache hit rate: nobody stated it, taken as 0.", "Draft runs on the target's GPU."),
        provenance=Provenance(
            tool_version="0.1.0",
            created_at="2026-01-05T10:12:00Z",
            vllm_version="0.32.0",
            runner="v1",
            gpu="H100 80GB",
            gpu_count=1,
            target=shape(TARGET, 8_030_000_000),
            drafts=(shape(DRAFT, 1_240_000_000),),
            cost_source="measured on this engine",
        ),
        per_position=positions,
        proposals=PROPOSALS,
        draft_map=DRAFT_MAP,
        checklist=checklist(),
    )


def off() -> Record:
    """Speculation off: the best candidate loses; an implausible arm is reported."""
    cells = all_priced(quality=0.35)
    best = max((c for c in cells if c.label == DRAFT_MODEL.label and c.running == 32), key=lambda c: c.speedup.value)
    base = enabled()
    decision = base.decision.model_copy(
        update={
            "enable": False,
            "method": None,
            "draft": None,
            "settings": {},
            "schedule": None,
            "running": 32,
            "k": None,
            "speedup": best.speedup.value,
            "speedup_low": best.speedup.low,
            "speedup_high": best.speedup.high,
            "probability_of_gain": 0.01,
            "crossover_load": 8,
        }
    )
    return base.model_copy(
        update={
            "decision": decision,
            "candidates": cells,
            "evidence": evidence(with_fault=True),
            "reasons": (*WORDS_AGAINST, *NEUTRAL),
            "emitted": EmittedConfig(vllm_yaml=OFF_YAML),
            "warnings": ("The server carried other traffic while it was probed.",),
        }
    )


def abstained() -> Record:
    """Not decided: nothing measured, the modelled interval straddles the worthwhile gain."""
    base = enabled()
    cells = tuple(c for c in all_priced(quality=0.72) if c.label != DRAFT_MODEL.label)
    best = max((c for c in cells if c.label == HEAD.label and c.running == 4), key=lambda c: c.speedup.value)
    decision = base.decision.model_copy(
        update={
            "enable": None,
            "method": "eagle3",
            "draft": "acme/Head-8B-EAGLE3",
            "k": best.k,
            "schedule": None,
            "speedup": best.speedup.value,
            "speedup_low": 0.93,
            "speedup_high": 1.31,
            "speedup_source": Source.MODELLED,
            "probability_of_gain": 0.56,
            "crossover_load": None,
            "would_settle": "Run `specadvise trial deployment.yaml`: acceptance on your own prompts would decide it.",
        }
    )
    return base.model_copy(
        update={
            "decision": decision,
            "candidates": cells,
            "evidence": (),
            "reasons": NEUTRAL,
            "per_position": {HEAD.label: base.per_position[HEAD.label]},
            "emitted": EmittedConfig(vllm_yaml=OFF_YAML),
        }
    )


EVIL = "acme/</script><script>alert(1)</script>|`[x](javascript:alert(1))\x1b[31m\u202e{{7*7}}[bold]"


def hostile() -> Record:
    """The enabled record with a draft, reasons and a config that try to break out of page, table and terminal."""
    base = enabled()
    evil = Candidate(method="draft_model", draft=ModelRef(id=EVIL), k=(1, 2, 3, 4, 5))
    cells = tuple(
        c if c.label != DRAFT_MODEL.label else c.model_copy(update={"candidate": evil, "label": evil.label})
        for c in base.candidates
    )
    positions = {evil.label: base.per_position[DRAFT_MODEL.label]}
    sentence = 'Because <img src=x onerror="alert(1)"> | said so ]]> --> \u2028 ```'
    return base.model_copy(
        update={
            "decision": base.decision.model_copy(update={"draft": EVIL}),
            "candidates": cells,
            "per_position": positions,
            "reasons": (Reason(question="other", sentence=sentence, for_or_against="for"),),
            "warnings": (sentence,),
            "emitted": EmittedConfig(
                vllm_yaml=f"# </pre></script><b>x</b> ```\nmodel: '{EVIL}'\n", env={"VLLM_API_KEY": "sk-hidden"}
            ),
        }
    )
