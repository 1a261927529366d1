"use strict";
// How numbers are written, by the kind that the document says they are of.

const UNKNOWN = "–";

function grouped(value, digits) {
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// So many digits that count, however small it is; whole numbers stay whole.
function significant(value, digits) {
  if (Number.isInteger(value)) return grouped(value, 0);
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(digits - 1);
  const before = Math.floor(Math.log10(size)) + 1;
  return grouped(value, Math.max(0, digits - Math.max(before, 0) + (before < 0 ? -before : 0)));
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? significant(value, 3) : grouped(value, 0)} ${units[unit]}`;
}

function seconds(value) {
  if (value === 0) return "0 s";
  if (Math.abs(value) < 1e-3) return `${significant(value * 1e6, 3)} µs`;
  if (Math.abs(value) < 1) return `${significant(value * 1e3, 3)} ms`;
  return `${significant(value, 4)} s`;
}

const WRITTEN = {
  text: String,
  number: (value) => significant(value, 4),
  count: (value) => grouped(value, 0),
  setting: String,
  percent: (value) => `${grouped(100 * value, 2)} %`,
  share: (value) => `${grouped(100 * value, 1)} %`,
  seconds,
  bytes,
  ratio: (value) => `${grouped(value, 2)} ×`,
  rate: (value) => (Math.abs(value) >= 100 ? grouped(value, 0) : significant(value, 3)),
};

function written(value, kind) {
  if (value === null || value === undefined) return UNKNOWN;
  return typeof value === "number" ? WRITTEN[kind === "text" ? "number" : kind](value) : String(value);
}

// An element with a class and texts or elements in it. Texts are never read as HTML.
function made(name, look, ...inside) {
  const element = document.createElement(name);
  if (look) element.className = look;
  element.append(...inside);
  return element;
}

// A sentence in which `this` is code.
function sentence(text) {
  return text.split("`").map((part, index) => (index % 2 ? made("code", "", part) : part));
}
