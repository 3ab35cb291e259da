"""The HTML report: one file that loads nothing, runs only its own scripts, and says everything without them."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser

import pytest

from advisor.record import Record
from advisor.report import render
from tests.advisor.report import synthetic_record as synthetic

ALL = [synthetic.enabled, synthetic.off, synthetic.abstained, synthetic.hostile]
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags with their attributes, the text of each script, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.stack: list[str] = []
        self.errors: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.errors.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif self.stack and self.stack[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [a for name, a in self.tags if name == tag and all(a.get(k.rstrip("_")) == v for k, v in wanted.items())]


@pytest.fixture(scope="module")
def pages() -> dict[str, Page]:
    return {make.__name__: Page(render(make(), "html")) for make in ALL}


@pytest.mark.parametrize("name", [make.__name__ for make in ALL])
def test_tags_close_and_ids_are_unique(pages, name):
    page = pages[name]
    assert page.errors == []
    assert page.stack == []
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", [make.__name__ for make in ALL])
def test_nothing_is_loaded_from_anywhere(pages, name):
    page = pages[name]
    for tag, attributes in page.tags:
        for key in ("src", "srcset", "data", "action", "poster", "background", "ping"):
            assert key not in attributes, (tag, attributes)
        target = attributes.get("href")
        assert target is None or target.startswith("#") or target == "data:,", (tag, target)
    assert {tag for tag, _ in page.tags} & {"iframe", "object", "embed", "base", "img", "form"} == set()


def test_style_loads_nothing_either():
    text = render(synthetic.enabled(), "html")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("name", [make.__name__ for make in ALL])
def test_policy_forbids_the_network_and_allows_exactly_the_scripts_of_the_page(pages, name):
    page = pages[name]
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"] or ""
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";") if rule.strip()}
    assert rules["default-src"] == ["'none'"]
    assert "connect-src" not in rules
    run = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    hashes = ["'sha256-" + base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() + "'" for s in run]
    assert len(run) == 2
    assert rules["script-src"] == hashes


def test_vendored_bundle_cannot_end_its_own_script_element():
    text = render(synthetic.enabled(), "html")
    assert len(re.findall(r"</script", text, re.IGNORECASE)) == len(re.findall(r"<script[ >]", text, re.IGNORECASE))


def test_hostile_names_stay_text():
    text = render(synthetic.hostile(), "html")
    page = Page(text)
    assert "<script>alert(1)</script>" in page.text
    assert "onerror" not in {key for _, attributes in page.tags for key in attributes}
    assert not page.all("img")
    assert not page.all("b")
    assert all("alert(1)" not in s for a, s in page.scripts if a.get("type") != "application/json")
    assert "{{7*7}}" in page.text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "sk-hidden" not in text
    specs = [json.loads(s) for a, s in page.scripts if a.get("type") == "application/json"]
    assert any("</script>" in json.dumps(spec) or "script>" in json.dumps(spec) for spec in specs)


@pytest.mark.parametrize("name", ["enabled", "off", "abstained", "hostile"])
def test_each_chart_has_a_specification_a_name_and_a_table_under_it(pages, name):
    page = pages[name]
    specs = {a["id"]: json.loads(s) for a, s in page.scripts if a.get("type") == "application/json"}
    charts = [a for tag, a in page.tags if tag == "div" and a.get("class") == "chart"]
    assert len(charts) >= 4
    assert {a["data-spec"] for a in charts} == set(specs)
    assert all(a["role"] == "img" and a["aria-label"] for a in charts)
    assert len(page.all("details")) == len(charts)
    assert len(page.all("summary")) == len(charts)
    for spec in specs.values():
        assert spec["$schema"] == "https://vega.github.io/schema/vega-lite/v6.json"
        assert "url" not in spec["data"]


def test_load_chart_holds_every_interval_break_even_gain_and_crossover(pages):
    page = pages["enabled"]
    spec = next(json.loads(s) for a, s in page.scripts if a.get("id") == "load-0")
    record = synthetic.enabled()
    rows = spec["data"]["values"]
    priced = [c for c in record.candidates if c.label == synthetic.DRAFT_MODEL.label]
    assert {(r["load"], r["k"], r["speedup"], r["low"], r["high"]) for r in rows} == {
        (c.running, f"k={c.k}", c.speedup.value, c.speedup.low, c.speedup.high) for c in priced
    }
    named = [v for layer in spec["layer"] if "data" in layer for v in layer["data"]["values"]]
    assert {v["words"]: v.get("level", v["load"]) for v in named} == {
        "break-even": 1.0,
        "worthwhile, +5 %": 1.05,
        "decided for": 4,
        "crossover": 64,
    }
    picked = next(layer["params"][0]["value"] for layer in spec["layer"] if "params" in layer)
    assert picked == [{"k": "k=3"}]


SECTIONS = (
    "why", "load", "candidates", "acceptance", "step", "drafts", "memory", "config", "checklist", "evidence", "assumed",
    "provenance",
)  # fmt: skip


def test_all_sections_are_there_and_the_links_reach_them(pages):
    page = pages["enabled"]
    ids = {a["id"] for _, a in page.tags if "id" in a}
    assert set(SECTIONS) <= ids
    links = {(a["href"] or "")[1:] for a in page.all("a")}
    assert links == {"main", *SECTIONS}


def test_page_has_landmarks_one_first_heading_and_no_skipped_level(pages):
    for page in pages.values():
        for landmark in ("header", "main", "nav", "footer"):
            assert len(page.all(landmark)) == 1
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
        assert page.all("html", lang="en")


def test_columns_and_rows_of_tables_are_named_for_screen_readers(pages):
    page = pages["enabled"]
    tables = len(page.all("table"))
    assert tables >= 9
    assert len(page.all("caption")) == tables
    assert all(a.get("scope") in ("col", "row") for a in page.all("th"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("enabled", ["Turn speculation on", "draft model Draft-1B-Instruct, k = 3", "1.58×",
                     "80 % interval 1.50–1.66×, measured", "97 %", "acme/Draft-1B-Instruct", "1–8: k=3;",
                     "no k gains from 64 running requests on"]),
        ("off", ["Leave speculation off", "slower end to end", "Implausible: later positions never accepted",
                 "positions 2 and later were never accepted in 1,204 drafts"]),
        ("abstained", ["Not decided", "What would settle it: ", "specadvise trial deployment.yaml", "modelled"]),
    ],
)  # fmt: skip
def test_top_card_answers(pages, name, said):
    text = pages[name].text
    card = text[text.index("Skip to the decision") : text.index("Evidence")]
    for words in said:
        assert words in card


def test_config_and_variables_are_there_to_copy(pages):
    record = synthetic.enabled()
    text = render(record, "html")
    assert record.emitted.vllm_yaml.rstrip() in text
    assert "export VLLM_USE_V2_MODEL_RUNNER=0" in text


def with_nothing() -> Record:
    """A record with no candidate priced, no acceptance, no memory figures."""
    base = synthetic.abstained()
    memory = base.memory.model_copy(
        update={
            "fits": None,
            "gpu_memory_gib": None,
            "usable_gib": None,
            "overhead_gib": None,
            "kv_tokens_without": None,
            "kv_tokens_with": None,
            "max_concurrency_without": None,
            "max_concurrency_with": None,
        }
    )
    decision = base.decision.model_copy(
        update={
            "method": None,
            "draft": None,
            "k": None,
            "speedup": None,
            "speedup_low": None,
            "speedup_high": None,
            "probability_of_gain": None,
            "would_settle": None,
            "break_even_acceptance_length": None,
            "crossover_load": None,
        }
    )
    return base.model_copy(
        update={
            "candidates": (),
            "per_position": {}, "draft_map": None,
            "reasons": (),
            "assumptions": (),
            "memory": memory,
            "decision": decision,
        }
    )


@pytest.mark.parametrize("format", ["text", "markdown", "html"])
def test_a_record_that_knows_nothing_still_renders(format):
    text = render(with_nothing(), format)
    assert "not decided" in text.lower()
    assert "Whether it fits is not known" in text
    if format == "html":
        page = Page(text)
        assert page.errors == []
        assert [a for tag, a in page.tags if a.get("class") == "chart"] == []


def test_many_values_of_k_draw_at_most_six_lines_and_keep_the_advised_one():
    base = synthetic.enabled()
    many = tuple(
        c.model_copy(update={"k": k})
        for c in base.candidates
        if c.label == synthetic.DRAFT_MODEL.label and c.k == 3
        for k in range(1, 25)
    )
    record = base.model_copy(update={"candidates": many, "decision": base.decision.model_copy(update={"k": 17})})
    page = Page(render(record, "html"))
    spec = next(json.loads(s) for a, s in page.scripts if a.get("id") == "load-0")
    drawn = {row["k"] for row in spec["data"]["values"]}
    assert len(drawn) == 6
    assert "k=17" in drawn
