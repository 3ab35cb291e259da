"""Whatever stands in a document, what is said of it is in this tool's words and names the field."""

from __future__ import annotations

import importlib
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ValidationError

from profiles import mistakes
from profiles.catalog.prices import PriceTable
from profiles.deployment import Deployment
from profiles.evidence import Evidence
from profiles.policy import Policy
from profiles.schema import Schema

FOREIGN = re.compile(
    r"Input should|String should|List should|Tuple should|Dictionary should|Value error|Field required|Extra inputs|"
    r"valid (?:string|integer|number|boolean|dictionary|list|tuple)|unable to parse|NoneType|\bdict\b|\bint\b|\bstr\b|"
    r"\btuple\b|instance of|\bNone\b|\bTrue\b|\bFalse\b|datetime\.|pydantic|validation error|could not convert")
"""Words of the validator and of Python."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "1e5", "-1", "0.5", "H100"])
    | st.dates() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abk_", max_size=4), inner, max_size=3),
    max_leaves=6)


def shaped(model: type[BaseModel], depth: int = 0) -> st.SearchStrategy[Any]:
    """Documents with the model's own names, and anything at all behind them."""
    def inner(annotation: Any) -> st.SearchStrategy[Any]:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and depth < 4:
            return shaped(annotation, depth + 1) | VALUES
        if origin in (typing.Union, types.UnionType, typing.Annotated):
            return st.one_of([inner(one) for one in arguments if one is not type(None)][:3])
        if origin is tuple:
            return st.lists(inner(arguments[0]), max_size=2) | VALUES
        return VALUES

    fields = {name: inner(info.annotation) for name, info in model.model_fields.items()}
    return st.fixed_dictionaries({}, optional={**fields, "misspelt": VALUES})


@pytest.mark.parametrize("model", [Deployment, Evidence, Policy, PriceTable])
def test_no_document_makes_the_validator_speak(model: type[BaseModel]) -> None:
    @settings(max_examples=150, deadline=None)
    @given(shaped(model))
    def holds(document: dict[str, Any]) -> None:
        try:
            model.model_validate(document)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                said = mistakes.mistake(detail)
                assert not FOREIGN.search(said), said
                assert "\n" not in said
                assert said.startswith(mistakes.dotted(mistakes.place_of(detail))[:3] or "the document") \
                    or "has no field" in said

    holds()


def unions(annotation: Any, *, behind_one_check: bool = False) -> Iterator[Any]:
    """Every place in an annotation where one of several kinds is tried after the other."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    several = origin in (typing.Union, types.UnionType) and len(set(arguments) - {types.NoneType}) > 1
    if several and not behind_one_check:
        yield annotation
    if origin is typing.Annotated:
        arguments, checks = arguments[:1], arguments[1:]
        behind_one_check = any(isinstance(check, BeforeValidator) for check in checks)
    for inner in arguments:
        yield from unions(inner, behind_one_check=behind_one_check)


def documents(base: type[Schema] = Schema) -> Iterator[type[Schema]]:
    for model in base.__subclasses__():
        yield model
        yield from documents(model)


def test_a_value_that_may_be_of_several_kinds_is_refused_in_one_sentence() -> None:
    """A bare union is refused once for each kind, and the kind stands in the place: `settings.k.int is empty`."""
    importlib.import_module("advisor.record")
    bare = [(model.__name__, name) for model in documents() for name, info in model.model_fields.items()
            if list(unions(info.rebuild_annotation()))]
    assert bare == []


class Small(Schema):
    """Every kind of field that a document here may have."""

    whole: int | None = None
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(("document", "said"), [
    ({"whole": "x"}, "whole is 'x': expected a whole number"),
    ({"whole": 1.5}, "whole is 1.5: expected a whole number"),
    ({"names": {}}, "names is a mapping: expected a list"), ({"names": [None]}, "names[0] is empty: expected text"),
    ({"names": [True]}, "names[0] is true: expected text"),
    ({"whol": 1}, "the file has no field 'whol': did you mean 'whole'?"),
    ({"x": 1}, "the file has no field 'x': expected one of whole, names"),
    ([], "the file is a list: expected a mapping"),
])
def test_a_mistake_is_its_field_its_value_and_what_was_expected(document: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Small.model_validate(document)
    assert mistakes.first_mistake(caught.value, "the file", tuple(Small.model_fields)).startswith(said)


def test_further_mistakes_are_counted() -> None:
    with pytest.raises(ValidationError) as caught:
        Small.model_validate({"whole": "x", "names": 1, "y": 2})
    assert mistakes.first_mistake(caught.value).endswith("(and 2 more)")


def test_a_kind_of_error_that_nobody_has_met_is_still_said_in_words() -> None:
    detail: Any = {"type": "url_parsing", "loc": ("a",), "msg": "Input should be a valid URL", "input": "x"}
    assert mistakes.mistake(detail) == "a is 'x': expected another kind of value"
