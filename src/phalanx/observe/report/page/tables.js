"use strict";
// Tables that sort, numbers to see first, and counts as a heat map.

// The number stands beside the text as it is in the run's folder, for whoever copies or checks it.
function valued(element, value, kind) {
  element.textContent = written(value, kind);
  if (typeof value === "number") element.dataset.value = String(value);
  if (value === null) element.classList.add("unknown");
  return element;
}

function table(block) {
  const heads = block.columns.map((column, index) => head(block, column, index));
  const body = made("tbody", "", ...block.rows.map((row) => line(row, block.columns)));
  const shown = made("div", "scroll", made("table", "", made("thead", "", made("tr", "", ...heads)), body));
  const parts = [shown];
  if (block.note) parts.push(made("p", "note", ...sentence(block.note)));
  if (block.folded) {
    const opened = made("details", "", made("summary", "", block.title), ...parts);
    return made("div", "card wide", opened);
  }
  if (block.title) parts.unshift(made("h3", "", block.title));
  return made("div", block.columns.length > 3 ? "card wide" : "card", ...parts);
}

function head(block, column, index) {
  const name = made("button", "", column.title);
  name.type = "button";
  const cell = made("th", column.kind === "text" ? "" : "value", name);
  cell.scope = "col";
  if (column.about) cell.title = column.about;
  if (block.rows.length < 2 || !column.title) {
    cell.replaceChildren(column.title);
    return cell;
  }
  name.addEventListener("click", () => sort(cell, index));
  return cell;
}

function line(row, columns) {
  const cells = row.map((value, index) => {
    const kind = columns[index].kind;
    return valued(made("td", kind === "text" ? "" : "value"), value, kind);
  });
  return made("tr", "", ...cells);
}

// By a column: up first, and down at the second click. What is unknown is last.
function sort(cell, index) {
  const way = cell.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", way);
  const body = cell.closest("table").tBodies[0];
  const sign = way === "ascending" ? 1 : -1;
  const ordered = [...body.rows].sort((one, other) => compare(one.cells[index], other.cells[index], sign));
  body.append(...ordered);
}

function compare(one, other, sign) {
  const unknown = one.classList.contains("unknown") - other.classList.contains("unknown");
  if (unknown) return unknown;
  if ("value" in one.dataset && "value" in other.dataset) return sign * (one.dataset.value - other.dataset.value);
  return sign * one.textContent.localeCompare(other.textContent, "en", { numeric: true });
}

function facts(block) {
  const tiles = block.facts.map((fact) => {
    const tile = made("div", "fact", valued(made("b", ""), fact.value, fact.kind), made("span", "", fact.label));
    if (fact.about) tile.title = fact.about;
    return tile;
  });
  return made("div", "facts", ...tiles);
}

// Each row by its own samples: what is right in one colour, what is not in another.
function matrix(block) {
  const corner = made("td", "");
  const heads = block.names.map((name) => Object.assign(made("th", "", name), { scope: "col" }));
  const rows = block.counts.map((counts, row) => {
    const whole = counts.reduce((sum, count) => sum + count, 0);
    const cells = counts.map((count, column) => heat(block.names, counts, row, column, whole));
    return made("tr", "", Object.assign(made("th", "", block.names[row]), { scope: "row" }), ...cells);
  });
  const note = made("p", "note", "Rows: what it is. Columns: the answers. Blue is right, orange wrong.");
  const shown = made("table", "matrix", made("thead", "", made("tr", "", corner, ...heads)), made("tbody", "", ...rows));
  return made("div", "card wide", made("h3", "", block.title), made("div", "scroll", shown), note);
}

function heat(names, counts, row, column, whole) {
  const count = counts[column];
  const share = whole ? count / whole : 0;
  const cell = valued(made("td", ""), count, "count");
  const strength = count ? 0.1 + 0.75 * Math.sqrt(share) : 0;
  cell.style.background = count ? `rgba(var(--${row === column ? "heat" : "wrong"}), ${strength.toFixed(3)})` : "var(--faint)";
  if (!count) cell.classList.add("unknown");
  else if (strength > 0.6) cell.style.color = "var(--on-heat)";
  cell.title = `${names[row]} taken for ${names[column]}: ${written(count, "count")}, ${written(share, "percent")} of its samples`;
  return cell;
}
