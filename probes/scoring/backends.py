"""What runs a model over recorded text, inside the scoring child: vLLM's prompt log probabilities, or plain
transformers. Both answer the same two questions; the engine's libraries are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from probes.scoring.sampling import SampledAs, chance_among

Ids = Sequence[int]
LIKELIEST = 20
"""Tokens of each position whose probability is asked of vLLM: its own default limit."""


class Backend(Protocol):
    """A loaded model."""

    def choices(self, ids: Ids, prompt_tokens: int) -> list[int]:
        """The model's first choice at each step offset: for the token behind output token t, for every t but the
        last."""

    def chances(self, ids: Ids, prompt_tokens: int, choices: Sequence[Ids],
                sampled: SampledAs) -> tuple[list[int], list[list[float]]]:
        """Its own choices, and for each list of choices the probability with which it would take each of them."""

    def generate(self, prompts: Sequence[Ids], lengths: Sequence[int], sampled: SampledAs,
                 seed: int) -> list[list[int]]:
        """Answers of at most the given lengths; the end token included where it came."""


class VllmBackend:
    """The real engine: one prefill a request, nothing generated."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        import os

        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import vllm

        self._vllm = vllm
        self._llm = vllm.LLM(**arguments)

    def _logprobs(self, ids: Ids, wanted: int) -> list[dict[int, Any]]:
        params = self._vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=wanted, detokenize=False)
        (answer,) = self._llm.generate([{"prompt_token_ids": list(ids)}], params, use_tqdm=False)
        found: list[dict[int, Any]] = answer.prompt_logprobs
        return found

    def choices(self, ids: Ids, prompt_tokens: int) -> list[int]:
        return [_first(at) for at in self._logprobs(ids, 1)[prompt_tokens + 1 :]]

    def chances(self, ids: Ids, prompt_tokens: int, choices: Sequence[Ids],
                sampled: SampledAs) -> tuple[list[int], list[list[float]]]:
        behind = self._logprobs(ids, LIKELIEST)[prompt_tokens + 1 :]
        # The recorded token comes along even where it is not among the likeliest.
        likely = [{token: entry.logprob for token, entry in at.items()} for at in behind]
        return ([_first(at) for at in behind],
                [[chance_among(choice, at, sampled) for choice, at in zip(own, likely, strict=True)]
                 for own in choices])

    def generate(self, prompts: Sequence[Ids], lengths: Sequence[int], sampled: SampledAs,
                 seed: int) -> list[list[int]]:
        params = [self._vllm.SamplingParams(max_tokens=length, temperature=sampled.temperature, top_p=sampled.top_p,
                                            top_k=sampled.top_k, seed=seed + i if sampled.temperature > 0 else None,
                                            detokenize=False) for i, length in enumerate(lengths)]
        answers = self._llm.generate([{"prompt_token_ids": list(ids)} for ids in prompts], params, use_tqdm=False)
        return [list(answer.outputs[0].token_ids) for answer in answers]


def _first(at: dict[int, Any]) -> int:
    return min(at.items(), key=lambda item: (item[1].rank, -item[1].logprob))[0]


class TransformersBackend:
    """Plain transformers: no engine needed, exact probabilities."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        kind = arguments.get("dtype", "auto")
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = AutoModelForCausalLM.from_pretrained(
            arguments["model"], dtype=kind if kind == "auto" else getattr(torch, kind)).to(self._device).eval()

    def _logits(self, ids: Ids, prompt_tokens: int) -> Any:
        """(step offsets, vocabulary) in single precision."""
        with self._torch.inference_mode():
            given = self._torch.tensor([list(ids[:-1])], device=self._device)
            wanted = len(ids) - 1 - prompt_tokens
            return self._model(given, logits_to_keep=wanted).logits[0, -wanted:].float()

    def choices(self, ids: Ids, prompt_tokens: int) -> list[int]:
        found: list[int] = self._logits(ids, prompt_tokens).argmax(-1).tolist()
        return found

    def chances(self, ids: Ids, prompt_tokens: int, choices: Sequence[Ids],
                sampled: SampledAs) -> tuple[list[int], list[list[float]]]:
        torch, logits = self._torch, self._logits(ids, prompt_tokens)
        own: list[int] = logits.argmax(-1).tolist()
        if sampled.temperature <= 0:
            return own, [[float(a == b) for a, b in zip(own, one, strict=True)] for one in choices]
        scores, order = (logits / sampled.temperature).sort(dim=-1, descending=True)
        if sampled.top_k > 0:
            scores[:, sampled.top_k :] = -torch.inf
        shares = scores.softmax(-1)
        shares[shares.cumsum(-1) - shares >= sampled.top_p] = 0.0
        shares = torch.zeros_like(shares).scatter(-1, order, shares / shares.sum(-1, keepdim=True))
        rows = torch.arange(len(own), device=shares.device)
        return own, [shares[rows, torch.tensor(list(one), device=shares.device)].tolist() for one in choices]

    def generate(self, prompts: Sequence[Ids], lengths: Sequence[int], sampled: SampledAs,
                 seed: int) -> list[list[int]]:
        torch = self._torch
        drawn: dict[str, Any] = {"do_sample": False} if sampled.temperature <= 0 else {
            "do_sample": True, "temperature": sampled.temperature, "top_p": sampled.top_p,
            "top_k": max(0, sampled.top_k)}
        found = []
        for i, (ids, length) in enumerate(zip(prompts, lengths, strict=True)):
            torch.manual_seed(seed + i)
            given = torch.tensor([list(ids)], device=self._device)
            with torch.inference_mode():
                answer = self._model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=length,
                                              **drawn)
            found.append(answer[0, len(ids) :].tolist())
        return found


BACKENDS: dict[str, Callable[[dict[str, Any]], Backend]] = {"vllm": VllmBackend, "transformers": TransformersBackend}
"""By name: from the arguments of the start command to a loaded model."""
