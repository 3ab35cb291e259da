"""What `vllm serve` takes, read from a release's source as text: options, their kinds, choices and bounds, and the keys
of options that hold a mapping.

Options come from the calls of `add_argument` and from the fields of the server's own arguments; what a value may be
comes from the config class that an option is made from (its annotation and the bounds of its `Field`). Where the source
computes something that only running it would tell, nothing is said about it: an option is then known by name alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCES = ("engine/arg_utils.py", "engine/async_llm_engine.py", "entrypoints/openai/cli_args.py",
           "entrypoints/launchers/cli_args.py", "entrypoints/cli/serve.py")
"""Files that define options of the server, of any release."""
FRONTENDS = ("BaseFrontendArgs", "FrontendArgs")
"""Classes whose fields are options."""
WINDOWS = frozenset({"max_model_len"})
"""Sizes that may be left to the engine: `auto` or -1."""
SIZES = frozenset({"max_num_batched_tokens", "max_num_scheduled_tokens", "kv_cache_memory_bytes",
                   "safetensors_prefetch_block_size", "max_num_queued_tokens"})
"""Whole numbers that may be written 8k or 8K."""
BOUNDS = {"gt": "above", "ge": "min", "lt": "below", "le": "max"}
_CONFIGS = ("config", "config.py")
_MOST_CHOICES = 40
_OF_TYPE = {"int": "int", "float": "float", "str": "text", "human_readable_int": "size",
            "human_readable_int_or_auto": "window"}

Fact = dict[str, Any]
"""`kind`, and where the source says so `optional`, `choices`, `of` (kind of a list's items), `above`, `min`, `below`,
`max`."""


@dataclass
class Classes:
    """Config classes and named types of a package."""

    fields: dict[str, dict[str, tuple[ast.expr, ast.expr | None]]] = field(default_factory=dict)
    """Class to its annotated fields: annotation and default."""
    bases: dict[str, list[str]] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    """`X = Literal[...]` and its kin."""
    enums: set[str] = field(default_factory=set)

    def field_of(self, owner: str, name: str) -> tuple[ast.expr, ast.expr | None] | None:
        """A field of a class or of what it is built on."""
        found = self.fields.get(owner, {}).get(name)
        if found is not None:
            return found
        return next((found for base in self.bases.get(owner, []) if (found := self.field_of(base, name))), None)


def serve_options(package: Path) -> dict[str, Fact]:
    """Every option of `vllm serve`, without leading dashes, and what it takes."""
    classes = read_classes(package)
    found: dict[str, Fact] = {}
    for name in SOURCES:
        path = package / name
        if path.is_file():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            _collect(tree, classes)
            found.update(_Parser(tree, classes).options())
    for owner in FRONTENDS:
        for name, (annotation, default) in classes.fields.get(owner, {}).items():
            found.setdefault(name.replace("_", "-"), describe(name, annotation, default, classes))
    return dict(sorted(found.items()))


def mapping_keys(package: Path) -> dict[str, dict[str, Fact]]:
    """Options that hold a mapping with fixed keys, and what each key takes."""
    classes = read_classes(package)
    found: dict[str, dict[str, Fact]] = {}
    for option, fact in serve_options(package).items():
        owner = fact.get("keys_of")
        if owner in classes.fields:
            found[option] = {
                name: describe(name, annotation, default, classes)
                for name, (annotation, default) in classes.fields[owner].items()
                if not name.startswith("_") and not _is_class_variable(annotation)
            }
    if "speculative-config" not in found and "SpeculativeConfig" in classes.fields:
        found["speculative-config"] = {
            name: describe(name, annotation, default, classes)
            for name, (annotation, default) in classes.fields["SpeculativeConfig"].items()
        }
    return found


def forbids_unknown_keys(package: Path) -> bool:
    """Whether config classes refuse keys they do not have (they drop them silently where not)."""
    return any('extra="forbid"' in path.read_text(encoding="utf-8")
               for path in (package / "config" / "utils.py", package / "config" / "speculative.py") if path.is_file())


# --- classes and named types --------------------------------------------------------------------------------------
def read_classes(package: Path) -> Classes:
    """Every class and named type of the package's config modules."""
    found = Classes()
    for name in _CONFIGS:
        place = package / name
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place] if place.is_file() else []:
            _collect(ast.parse(path.read_text(encoding="utf-8")), found)
    return found


def _collect(tree: ast.Module, into: Classes) -> None:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = [base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases]
            if any(name.endswith("Enum") for name in names):
                into.enums.add(node.name)
            into.bases[node.name] = [name for name in names if name]
            into.fields[node.name] = {
                item.target.id: (item.annotation, item.value) for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            }
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, (ast.Subscript, ast.BinOp)):
                into.aliases[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            into.aliases[node.target.id] = node.value


def _is_class_variable(annotation: ast.expr) -> bool:
    return isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "ClassVar"


# --- one value ------------------------------------------------------------------------------------------------------
def describe(name: str, annotation: ast.expr, default: ast.expr | None, classes: Classes) -> Fact:
    """What a field takes, in the order in which vLLM's own parser asks for it."""
    leaves = list(_leaves(annotation, classes, 0))
    kinds = {kind for kind, _ in leaves}
    fact: Fact = {}
    if "mapping" in kinds:
        fact["kind"] = "json"
        fact["keys_of"] = next(owner for kind, owner in leaves if kind == "mapping")
    elif {"switch", "text"} <= kinds:
        fact["kind"] = "switch or text"
    elif "switch" in kinds:
        fact["kind"] = "switch"
    elif "choice" in kinds:
        choices = [value for kind, values in leaves if kind == "choice" for value in values]
        closed = "text" not in kinds and "other" not in kinds and len(choices) <= _MOST_CHOICES
        fact = {"kind": "choice", "choices": choices} if closed else {"kind": "any"}
    elif "list" in kinds:
        fact["kind"] = "list"
        inner = [kind for item, parts in leaves if item == "list" for kind, _ in parts]
        if inner and set(inner) <= {"int"}:
            fact["of"] = "int"
    elif "int" in kinds:
        fact["kind"] = "window" if name in WINDOWS else "size" if name in SIZES else "int"
        if "float" in kinds:
            fact["kind"] = "float"
    elif "float" in kinds:
        fact["kind"] = "float"
    elif "json" in kinds and not kinds & {"text", "other"}:
        fact["kind"] = "json"
    else:
        fact["kind"] = "any" if "other" in kinds or "json" in kinds else "text"
    if "none" in kinds:
        fact["optional"] = True
    return {**fact, **_bounds(annotation, default)}


def _leaves(node: ast.expr, classes: Classes, depth: int) -> Iterator[tuple[str, Any]]:
    """The plain types of an annotation: (kind, choices | inner leaves | class name | None)."""
    if depth > 8:
        yield "other", None
    elif isinstance(node, ast.Constant):
        if node.value is None:
            yield "none", None
        elif isinstance(node.value, str):
            yield from _leaves(ast.parse(node.value, mode="eval").body, classes, depth + 1)
    elif isinstance(node, ast.BinOp):
        yield from _leaves(node.left, classes, depth + 1)
        yield from _leaves(node.right, classes, depth + 1)
    elif isinstance(node, ast.Subscript):
        yield from _subscript(node, classes, depth)
    else:
        name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
        plain = {"int": "int", "float": "float", "bool": "switch", "str": "text", "None": "none", "dict": "json",
                 "Dict": "json", "list": "list", "set": "list", "tuple": "list"}.get(name)
        if plain is not None:
            yield plain, [] if plain == "list" else None
        elif name == "dtype":
            # torch.dtype beside a list of names: only the names come from a command line.
            return
        elif name in classes.aliases:
            yield from _leaves(classes.aliases[name], classes, depth + 1)
        elif name in classes.fields and name not in classes.enums:
            yield "mapping", name
        else:
            yield "other", None


def _subscript(node: ast.Subscript, classes: Classes, depth: int) -> Iterator[tuple[str, Any]]:
    name = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        yield "choice", list(_literal(parts, classes))
    elif name in ("Optional", "Union"):
        for part in parts:
            yield from _leaves(part, classes, depth + 1)
        if name == "Optional":
            yield "none", None
    elif name in ("Annotated", "SkipValidation", "InitVar", "ClassVar", "Final"):
        yield from _leaves(parts[0], classes, depth + 1)
    elif name in ("list", "List", "set", "Set", "tuple", "Tuple", "Sequence"):
        yield "list", [leaf for part in parts if not _is_ellipsis(part) for leaf in _leaves(part, classes, depth + 1)]
    elif name in ("dict", "Dict", "Mapping"):
        yield "json", None
    else:
        yield "other", None


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _literal(parts: list[ast.expr], classes: Classes) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is not None:
            yield part.value
        elif isinstance(part, ast.Name) and isinstance(alias := classes.aliases.get(part.id), ast.Subscript):
            inner = alias.slice
            yield from _literal(list(inner.elts) if isinstance(inner, ast.Tuple) else [inner], classes)


def _bounds(annotation: ast.expr, default: ast.expr | None) -> Fact:
    """gt, ge, lt, le of the `Field` that a field is declared with."""
    found: Fact = {}
    for place in (annotation, default):
        for call in ast.walk(place) if place is not None else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Field":
                for keyword in call.keywords:
                    if keyword.arg in BOUNDS:
                        try:
                            found[BOUNDS[keyword.arg]] = ast.literal_eval(keyword.value)
                        except ValueError:
                            continue
    return found


# --- calls of add_argument ------------------------------------------------------------------------------------------
class _Parser:
    """The options that a module's calls of `add_argument` define."""

    def __init__(self, tree: ast.Module, classes: Classes) -> None:
        self._tree = tree
        self._classes = classes
        self._made_from: dict[str, str] = {}
        """Variable to the config class whose fields it holds."""
        self._field: dict[str, tuple[str, str]] = {}
        """Variable to the one field it holds: (variable of the class, field)."""
        self._loose: set[str] = set()
        """Variables whose text is changed before it is compared."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assigned(node.targets[0], node.value)

    def options(self) -> dict[str, Fact]:
        """Option to what it takes; `aliases` are its other long names."""
        found: dict[str, Fact] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                names = [item.value[2:] for item in node.args
                         if isinstance(item, ast.Constant) and isinstance(item.value, str)
                         and item.value.startswith("--")]
                for name in names:
                    found[name.replace("_", "-")] = self._fact(node)
        return found

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            field_name = _constant(value.slice) if isinstance(value, ast.Subscript) else None
            if isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("get_kwargs", "_compute_kwargs"):
                owner = value.args[0] if value.args else None
                if isinstance(owner, ast.Name):
                    self._made_from[target.id] = owner.id
            elif isinstance(value, ast.Subscript) and field_name is not None:
                inner = value.value
                if isinstance(inner, ast.Name):
                    self._field[target.id] = (inner.id, field_name)
                elif isinstance(inner, ast.Call) and inner.args and isinstance(inner.args[0], ast.Name):
                    self._made_from[f"{target.id}()"] = inner.args[0].id
                    self._field[target.id] = (f"{target.id}()", field_name)
        elif (isinstance(target, ast.Subscript) and _constant(target.slice) == "type"
                and isinstance(target.value, ast.Name) and isinstance(value, ast.Lambda)):
            self._loose.add(target.value.id)

    def _fact(self, call: ast.Call) -> Fact:
        fact: Fact = {"kind": "any"}
        for keyword in call.keywords:
            if keyword.arg is None:
                fact.update(self._taken_over(keyword.value))
        stated = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        return _stated(stated) if stated.keys() & {"type", "action", "choices", "nargs"} else fact

    def _taken_over(self, value: ast.expr) -> Fact:
        """`**kwargs["field"]`, `**{**kwargs["field"], ...}` or `**field_kwargs`."""
        if isinstance(value, ast.Dict):
            merged: Fact = {}
            for key, inner in zip(value.keys, value.values, strict=True):
                if key is None:
                    merged.update(self._taken_over(inner))
            return merged
        loose = isinstance(value, ast.Name) and value.id in self._loose
        if isinstance(value, ast.Name) and value.id in self._field:
            variable, name = self._field[value.id]
        elif isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
            variable, name = value.value.id, _constant(value.slice) or ""
        else:
            return {}
        owner = self._made_from.get(variable)
        found = self._classes.field_of(owner, name) if owner is not None else None
        if found is None:
            return {}
        fact = describe(name, *found, self._classes)
        return {**fact, "loose": True} if loose and fact["kind"] == "choice" else fact


def _constant(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _stated(keywords: Mapping[str, ast.expr]) -> Fact:
    """What an option takes that states type, action or choices itself."""
    action, kind = keywords.get("action"), "any"
    if action is not None:
        if _constant(action) in ("store_true", "store_false"):
            kind = "flag"
        elif getattr(action, "attr", "") == "BooleanOptionalAction":
            kind = "switch"
    elif "nargs" in keywords:
        kind = "list" if _constant(keywords["nargs"]) in ("+", "*") else "any"
    elif "choices" in keywords:
        choices = keywords["choices"]
        if isinstance(choices, (ast.List, ast.Tuple)) and all(isinstance(item, ast.Constant) for item in choices.elts):
            return {"kind": "choice", "choices": [ast.literal_eval(item) for item in choices.elts], "optional": True}
    else:
        kind = _OF_TYPE.get(getattr(keywords["type"], "id", ""), "any")
    return {"kind": kind}
