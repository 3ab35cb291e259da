"""What is read from an engine's source, on small synthetic sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiles.catalog.derive import derive, differences, find_source
from profiles.catalog.releases import release
from profiles.errors import InputError

SPECULATIVE = '''
MTPModelTypes = Literal["deepseek_mtp", "mtp"]
SpeculativeMethod = Literal["ngram", MTPModelTypes]
RejectionSampleMethod = Literal["standard"]
class SpeculativeConfig:
    method: SpeculativeMethod | None = None
    num_speculative_tokens: int = None
    def check(self):
        eagle3_target_supported = ["llama", "qwen"]
'''
VLLM = '''
class VllmConfig:
    def _get_v2_model_runner_unsupported_features(self):
        if spec.method in ("suffix", "medusa"):
            pass
'''
REGISTRY = (
    '_MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "Other": ("other", "Other"), '
    '"Plain": ("plain", "Plain")}'
)
LLAMA = "from .interfaces import SupportsEagle3\nclass LlamaForCausalLM(SupportsEagle3):\n    pass\n"
OTHER = "from .llama import LlamaForCausalLM\nclass Other(LlamaForCausalLM):\n    pass\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    files = {
        "vllm/config/speculative.py": SPECULATIVE, "vllm/config/vllm.py": VLLM,
        "vllm/model_executor/models/registry.py": REGISTRY, "vllm/model_executor/models/llama.py": LLAMA,
        "vllm/model_executor/models/other.py": OTHER, "vllm/model_executor/models/plain.py": "class Plain:\n    pass\n",
        "vllm-0.32.0.dist-info/METADATA": "Name: vllm\nVersion: 0.32.0+cpu\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_keys_methods_targets_and_runner_gaps_are_read_without_running_anything(package: Path) -> None:
    folder, version = find_source(package)
    assert version == "0.32.0+cpu"
    facts = derive(folder)
    assert facts["speculative_keys"] == ["method", "num_speculative_tokens"]
    assert facts["methods"] == ["ngram", "deepseek_mtp", "mtp"]
    assert facts["eagle3_model_types"] == ["llama", "qwen"]
    assert facts["eagle3_architectures"] == ["LlamaForCausalLM", "Other"]
    assert facts["not_on_v2"] == ["medusa", "suffix"]


def test_differences_name_what_either_side_lacks(package: Path) -> None:
    found = differences(derive(find_source(package)[0]), release("0.32.0"))
    assert "eagle3_architectures: Other is not in the catalog" in found
    assert "speculative_keys: model is in the catalog only" in found


def test_a_folder_without_an_engine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="which vLLM it is"):
        find_source(tmp_path)
