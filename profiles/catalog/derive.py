"""`python -m profiles.catalog.derive [FOLDER]`: what an installed vLLM says of itself, and where the catalog differs.

Reads the source as text (nothing of the engine is imported or run): keys and methods of `--speculative-config`,
options of the server, the targets that EAGLE-3 heads work on, and what the V2 model runner leaves to V1. FOLDER holds a
`vllm` package (a site-packages folder, an unpacked source distribution); without it, the one that Python finds. What
only running shows (faults, limits, what a runner really does with a setting) is read by people and stands in
`data/releases.yaml`.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from profiles.catalog.derive_options import serve_options
from profiles.catalog.options import option_names
from profiles.catalog.releases import Release, release
from profiles.errors import InputError, SpecadviseError

_CONFIG_FILES = ("config/speculative.py", "config/__init__.py", "config.py")
_INTERFACE = "SupportsEagle3"


def find_source(folder: Path | None = None) -> tuple[Path, str]:
    """The `vllm` package folder and its version. InputError where there is none."""
    if folder is None:
        spec = importlib.util.find_spec("vllm")
        if spec is None or spec.origin is None:
            raise InputError("no vLLM is installed here: name a folder that holds a `vllm` package")
        package = Path(spec.origin).parent
    else:
        package = folder / "vllm" if (folder / "vllm").is_dir() else folder
    for info in sorted(package.parent.glob("vllm*.dist-info/METADATA")):
        found = re.search(r"^Version: (\S+)", info.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            return package, found[1]
    version_file = package / "_version.py"
    if version_file.is_file():
        found = re.search(r"version = '([^']+)'", version_file.read_text(encoding="utf-8"))
        if found:
            return package, found[1]
    raise InputError(f"{package} does not say which vLLM it is: expected a dist-info folder beside it or _version.py")


def derive(package: Path) -> dict[str, Any]:
    """Facts by name; a fact that this release has no place for is left out."""
    tree = _speculative_tree(package)
    literals = _literals(tree)
    facts: dict[str, Any] = {"speculative_keys": _fields(tree, "SpeculativeConfig")}
    if "SpeculativeMethod" in literals:
        facts["methods"] = literals["SpeculativeMethod"]
    if "MTPModelTypes" in literals:
        facts["mtp_spellings"] = [name for name in literals["MTPModelTypes"] if name != "mtp"]
    if "RejectionSampleMethod" in literals:
        facts["rejection_methods"] = literals["RejectionSampleMethod"]
    targets = _eagle3_model_types(tree)
    if targets:
        facts["eagle3_model_types"] = targets
    facts["eagle3_architectures"] = _with_interface(package)
    options = serve_options(package)
    if options:
        facts["serve_options"] = list(options)
    unsupported = _not_on_v2(package)
    if unsupported:
        facts["not_on_v2"] = unsupported
    return facts


def differences(facts: dict[str, Any], known: Release) -> list[str]:
    """Where the catalog says otherwise, one line each."""
    found = []
    pairs = {
        "speculative_keys": known.speculative_keys | known.internal_keys,
        "methods": known.methods | set(known.method_spellings),
        "rejection_methods": known.rejection_methods,
        "eagle3_architectures": known.eagle3_architectures,
        "serve_options": option_names(known.rules),
    }
    for name, catalog in pairs.items():
        if name not in facts:
            continue
        derived = set(facts[name])
        found += [f"{name}: {item} is not in the catalog" for item in sorted(derived - catalog)]
        found += [f"{name}: {item} is in the catalog only" for item in sorted(catalog - derived)]
    return found


# --- reading the source -------------------------------------------------------------------------------------------
def _speculative_tree(package: Path) -> ast.Module:
    for name in _CONFIG_FILES:
        path = package / name
        if path.is_file():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if any(isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig" for node in ast.walk(tree)):
                return tree
    raise InputError(f"{package} has no SpeculativeConfig in {', '.join(_CONFIG_FILES)}: expected a vLLM of 0.6 or "
                     f"newer")


def _fields(tree: ast.Module, class_name: str) -> list[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return [item.target.id for item in node.body
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
    return []


def _literals(tree: ast.Module) -> dict[str, list[str]]:
    """`X = Literal[...]` by name, nested names replaced by what they stand for."""
    found: dict[str, list[str]] = {}
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
                and isinstance(node.value, ast.Subscript) and getattr(node.value.value, "id", "") == "Literal"):
            continue
        inner = node.value.slice
        values: list[str] = []
        for item in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                values.append(item.value)
            elif isinstance(item, ast.Name):
                values += found.get(item.id, [])
        found[node.targets[0].id] = values
    return found


def _eagle3_model_types(tree: ast.Module) -> list[str]:
    """Parts of a target's model_type that EAGLE-3 was limited to, before the class alone decided."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.List)
                and node.targets[0].id in ("eagle3_target_supported", "aux_hidden_states_supported")):
            return [str(item.value) for item in node.value.elts if isinstance(item, ast.Constant)]
    return []


def _not_on_v2(package: Path) -> list[str]:
    """Method names in what vLLM calls features that the V2 runner does not support."""
    path = package / "config" / "vllm.py"
    if not path.is_file():
        return []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == "_get_v2_model_runner_unsupported_features":
            return sorted({
                item.value
                for compare in ast.walk(node)
                if isinstance(compare, ast.Compare) and isinstance(compare.ops[0], ast.In)
                and getattr(compare.left, "attr", "") == "method"
                for item in ast.walk(compare)
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            })
    return []


def _with_interface(package: Path) -> list[str]:
    """Architectures whose class, or a class it is built on, has the EAGLE-3 interface."""
    models = package / "model_executor" / "models"
    registry = models / "registry.py"
    if not registry.is_file():
        return []
    reader = _Classes(models)
    found = set()
    for node in ast.walk(ast.parse(registry.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if (isinstance(key, ast.Constant) and isinstance(value, ast.Tuple) and len(value.elts) == 2
                    and all(isinstance(item, ast.Constant) for item in value.elts)):
                module, name = (str(item.value) for item in value.elts if isinstance(item, ast.Constant))
                if reader.has(module, name, 0):
                    found.add(str(key.value))
    return sorted(found)


class _Classes:
    """Bases of the classes in a folder of modules, followed across `from .module import Name`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[dict[str, list[str]], dict[str, str]]] = {}

    def _module(self, name: str) -> tuple[dict[str, list[str]], dict[str, str]]:
        if name not in self._read:
            path = self._folder / f"{name}.py"
            classes: dict[str, list[str]] = {}
            imported: dict[str, str] = {}
            if path.is_file():
                for node in ast.parse(path.read_text(encoding="utf-8")).body:
                    if isinstance(node, ast.ClassDef):
                        classes[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
                    elif isinstance(node, ast.ImportFrom) and node.module:
                        for alias in node.names:
                            imported[alias.asname or alias.name] = node.module.rsplit(".", 1)[-1]
            self._read[name] = (classes, imported)
        return self._read[name]

    def has(self, module: str, name: str, depth: int) -> bool:
        """Whether a class is, or is built on, the interface."""
        if name in (_INTERFACE, "SupportsEagle3", "EagleModelMixin3") or depth > 8:
            return name == _INTERFACE
        classes, imported = self._module(module)
        if name in classes:
            return any(self.has(module, base, depth + 1) for base in classes[name])
        return name in imported and imported[name] != module and self.has(imported[name], name, depth + 1)


def main(argv: list[str]) -> int:
    """Facts as YAML on stdout, differences on stderr; 1 where there are some."""
    try:
        package, version = find_source(Path(argv[0]) if argv else None)
        facts = derive(package)
        known = release(version)
    except SpecadviseError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(yaml.safe_dump({"version": version, **facts}, sort_keys=False, width=118))
    found = differences(facts, known)
    sys.stderr.write("".join(f"{line}\n" for line in found) or "the catalog agrees\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
