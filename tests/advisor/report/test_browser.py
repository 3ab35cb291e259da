"""The HTML report in a real browser: charts are drawn, the console stays silent, the policy blocks nothing of ours.

    pytest -m browser tests/advisor/report/test_browser.py

needs a Chromium on the path (`apt-get install chromium`, or SPECADVISE_CHROMIUM=/path/to/chrome).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from advisor.report import render
from tests.advisor.report import synthetic_record as synthetic
from tests.advisor.report.synthetic_layouts import LAYOUTS
from tests.advisor.report.test_capacity import PLAN

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("SPECADVISE_CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path: install one to open the report in a browser"),
]


def opened(html: str, tmp_path: Path, *flags: str) -> tuple[str, str]:
    """The page's DOM after its scripts ran, and what the console said."""
    page = tmp_path / "report.html"
    page.write_text(html, encoding="utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", "--v=0",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000", *flags, "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    )
    try:
        dom, log = child.communicate(timeout=120)
    finally:
        # The browser's own children end with it, whatever happened to it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return dom, "\n".join(line for line in log.splitlines() if "CONSOLE" in line)


@pytest.mark.parametrize("make", [synthetic.enabled, synthetic.off, synthetic.abstained, synthetic.hostile])
def test_every_shown_chart_is_drawn_and_the_console_says_nothing(make, tmp_path):
    dom, console = opened(render(make(), "html"), tmp_path, "--window-size=1280,2000")
    assert console == ""
    assert 'data-ready="yes"' in dom
    drawn = re.findall(r'<div class="chart[^>]*data-spec="([^"]+)"[^>]*data-drawn="yes"[^>]*>\s*<svg', dom)
    assert drawn == ["load-0", "position-chart", "step-chart", "draft-chart", "memory-chart"]
    assert "could not be drawn" not in dom.split("<script>")[0]
    assert "NaN" not in "".join(re.findall(r'<path[^>]* d="([^"]*)"', dom))


def test_drawing_takes_its_colours_from_the_page(tmp_path):
    dom, _ = opened(render(synthetic.enabled(), "html"), tmp_path)
    svg = dom[dom.index("<svg") : dom.index("</svg>")]
    assert "var(--accent)" in svg
    assert re.search(r"#[0-9a-f]{6}", svg) is None


def test_charts_fit_a_phone(tmp_path):
    dom, console = opened(render(synthetic.enabled(), "html"), tmp_path, "--window-size=500,900")
    assert console == ""
    widths = [float(width) for width in re.findall(r'<svg[^>]* width="([\d.]+)"', dom)]
    assert len(widths) == 5
    assert max(widths) <= 500


def test_the_charts_of_a_capacity_plan_are_drawn_too(tmp_path):
    record = synthetic.enabled().model_copy(update={"capacity": PLAN})
    dom, console = opened(render(record, "html"), tmp_path, "--window-size=1280,2000")
    assert console == ""
    drawn = re.findall(r'<div class="chart[^>]*data-spec="([^"]+)"[^>]*data-drawn="yes"[^>]*>\s*<svg', dom)
    assert {"rate-ttft", "rate-tpot", "fleet"} <= set(drawn)
    assert "NaN" not in "".join(re.findall(r'<path[^>]* d="([^"]*)"', dom))


# --- layout ----------------------------------------------------------------------------------------------------------
MEASURE = """
addEventListener("load", () => setTimeout(() => {
  const out = [], root = document.documentElement;
  if (root.scrollWidth > innerWidth) out.push(`the page is ${root.scrollWidth} wide`);
  for (const e of document.querySelectorAll("main *")) {
    const box = e.getBoundingClientRect();
    if (!box.width || e.closest(".scroll, .hidden, pre, svg")) continue;
    if (box.right > innerWidth + 1 || box.left < -1) out.push(`${e.tagName} ${e.className} sticks out`);
  }
  for (const svg of document.querySelectorAll(".chart svg")) {
    const name = svg.closest(".chart").dataset.spec, frame = svg.getBoundingClientRect();
    const marks = svg.querySelectorAll("path, rect, line");
    if (marks.length < 4) out.push(`${name} is empty`);
    const texts = [...svg.querySelectorAll("text")]
      .filter((t) => t.textContent.trim() && getComputedStyle(t).opacity !== "0")
      .map((t) => [t.textContent, t.getBoundingClientRect()]);
    for (const [text, a] of texts) {
      const aside = a.left < frame.left - 1 || a.right > frame.right + 1;
      if (aside || a.top < frame.top - 1 || a.bottom > frame.bottom + 1) out.push(`${name}: '${text}' is cut off`);
    }
    for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
      const [one, a] = texts[i], [two, b] = texts[j];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // A name and its halo are one text twice.
      if (one !== two && wide > 2 && high > 4) out.push(`${name}: '${one}' lies on '${two}'`);
    }
  }
  parent.document.documentElement.dataset.faults = out.join("; ") || "none";
}, 1500));
"""


def framed(html: str, width: int) -> str:
    """The page in a frame of this width (a browser's window has a least one), measured by a script of the test."""
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    inner = bare.replace("</body>", f"<script>{MEASURE}</script></body>").replace("&", "&amp;").replace('"', "&quot;")
    return f'<!doctype html><body style="margin:0"><iframe width={width} height=900 style="border:0" srcdoc="{inner}">'


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("make", [*LAYOUTS, synthetic.enabled, synthetic.off, synthetic.abstained])
def test_nothing_overlaps_or_sticks_out_whatever_the_names_and_the_width(make, width, tmp_path):
    dom, console = opened(framed(render(make(), "html"), width), tmp_path, "--window-size=1400,1000")
    assert console == ""
    found = re.search(r'<html[^>]* data-faults="([^"]*)"', dom)
    assert found is not None
    assert found[1] == "none"


@pytest.mark.parametrize("make", LAYOUTS)
def test_extreme_records_draw_every_chart_they_have_and_the_console_says_nothing(make, tmp_path):
    dom, console = opened(render(make(), "html"), tmp_path, "--window-size=1280,2000")
    assert console == ""
    holders = re.findall(r'<div class="chart[^>]*data-spec="([^"]+)"', dom)
    drawn = re.findall(r'<div class="chart[^>]*data-spec="([^"]+)"[^>]*data-drawn="yes"[^>]*>\s*<svg', dom)
    # Those of other candidates are drawn once they are picked.
    assert [name for name in holders if name not in drawn and not name.startswith("load-")] == []
    assert "could not be drawn" not in dom.split("<script>")[0]
    assert "NaN" not in "".join(re.findall(r'<path[^>]* d="([^"]*)"', dom))


def test_paper_gets_every_chart_in_dark_ink(tmp_path):
    html = render(synthetic.enabled().model_copy(update={"capacity": PLAN}), "html")
    page, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    opened(html, tmp_path, f"--print-to-pdf={pdf}")
    assert page.exists()
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert pdf.stat().st_size > 50_000
