"use strict";
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true"); // The table under each chart says the same to those who cannot hover.
  document.body.append(tip);

  function tooltip(handler, event, item, value) {
    if (value === null || value === undefined || value === "" || typeof value !== "object") {
      tip.style.display = "none";
      return;
    }
    const table = document.createElement("table");
    for (const [name, text] of Object.entries(value)) {
      const row = table.insertRow();
      row.append(Object.assign(document.createElement("th"), { textContent: name }));
      row.append(Object.assign(document.createElement("td"), { textContent: text }));
    }
    tip.replaceChildren(table);
    tip.style.display = "block";
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 16;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + box.height > innerHeight ? event.clientY - box.height - 12 : below}px`;
  }

  function draw(holder) {
    if (holder.dataset.drawn) return;
    holder.dataset.drawn = "yes";
    const data = document.getElementById(holder.dataset.spec);
    const spec = charts.compile(JSON.parse(data.textContent)).spec;
    // The syntax tree is interpreted: this page allows no eval.
    const view = new charts.View(charts.parse(spec, null, { ast: true }), {
      expr: charts.expressionInterpreter,
      renderer: "svg",
      container: holder,
      hover: true,
      logLevel: 2,
    });
    view.tooltip(tooltip);
    // Twice: how many lines a legend takes is known once the width is, and only then how high the chart must be.
    view.runAsync().then(() => view.resize().runAsync()).catch((error) => {
      console.error(error);
      fail(holder);
    });
  }

  function fail(holder) {
    holder.textContent = "This chart could not be drawn; the table below it holds the same numbers.";
  }

  function drawShown() {
    for (const holder of document.querySelectorAll(".chart")) {
      if (holder.closest("[hidden]")) continue;
      try {
        draw(holder);
      } catch (error) {
        console.error(error);
        fail(holder);
      }
    }
  }

  const choice = document.getElementById("candidate");
  if (choice) {
    choice.closest(".choose").hidden = false;
    const show = () => {
      for (const panel of document.querySelectorAll("[data-candidate]")) {
        panel.hidden = panel.dataset.candidate !== choice.value;
      }
      drawShown();
    };
    choice.addEventListener("change", show);
    show();
  } else {
    drawShown();
  }

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      let done = false;
      try {
        await navigator.clipboard.writeText(source.textContent);
        done = true;
      } catch {
        // Pages opened from a file may have no clipboard: select the text, so that one key copies it.
        const range = document.createRange();
        range.selectNodeContents(source);
        const selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        done = document.execCommand("copy");
      }
      const before = button.textContent;
      button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
      setTimeout(() => { button.textContent = before; }, 2000);
    });
  }
  document.documentElement.dataset.ready = "yes";
})();
