"use strict";
// The page: the document's sections, one after the other, and the switch for light and dark.

const BLOCKS = { table, facts, matrix, chart, bars: chart, text: says, choice };

function says(block) {
  return made("p", `says ${block.tone}`, ...sentence(block.text));
}

function blocks(list) {
  return list.map((block) => BLOCKS[block.type](block));
}

// One of several at a time; all are in the page, for whoever searches or prints it.
function choice(block) {
  const parts = block.blocks.map((list) => made("div", "blocks", ...blocks(list)));
  const select = made("select", "", ...block.names.map((name) => made("option", "", name)));
  const show = () => {
    parts.forEach((part, index) => { part.hidden = index !== select.selectedIndex; part.style.display = part.hidden ? "none" : ""; });
    draw();
  };
  select.addEventListener("change", show);
  const label = made("label", "", block.label, select);
  const whole = made("div", "choice", label, ...parts);
  parts.forEach((part, index) => { part.style.display = index ? "none" : ""; });
  return whole;
}

function section(of, index) {
  const title = made("h2", "", of.heading);
  const whole = made("section", "", title);
  whole.id = `section-${index}`;
  if (of.lead) whole.append(made("p", "about", ...sentence(of.lead)));
  whole.append(made("div", "blocks", ...blocks(of.blocks)));
  return whole;
}

function contents(sections) {
  return sections.map((of, index) => {
    const link = made("a", "", of.heading);
    link.href = `#section-${index}`;
    return link;
  });
}

// As the system has it, until somebody says otherwise.
function light(chosen) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    const other = name === "dark" ? "Light" : "Dark";
    chosen.textContent = other;
    chosen.setAttribute("aria-label", `${other} colours`);
    draw();
  };
  let said = false;
  system.addEventListener("change", () => { if (!said) set(system.matches ? "dark" : "light"); });
  chosen.addEventListener("click", () => {
    said = true;
    set(theme() === "dark" ? "light" : "dark");
  });
  set(system.matches ? "dark" : "light");
}

function show() {
  const shown = JSON.parse(document.getElementById("document").textContent);
  const page = document.getElementById("page");
  page.replaceChildren(made("h1", "", shown.title), made("p", "lead", shown.lead), ...shown.sections.map(section));
  page.append(made("footer", "", shown.footer));
  document.getElementById("contents").append(...contents(shown.sections));
  light(document.getElementById("theme"));
  new ResizeObserver(draw).observe(page);
}

show();
