// Elements, figures in words, tables: what all panels are made of. Whatever comes from the run is text here, never markup.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

// Attributes, properties (`on...`, `value`) and children of an element. Texts become text nodes.
function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "fill" && typeof value === "string" && value.includes("(")) element.style.fill = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
const h = (tag, attributes, ...children) => dress(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => dress(document.createElementNS(SVG, tag), attributes, children);

// A number with four digits that matter.
function figure(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e5) return Number.isInteger(value) ? String(value) : value.toFixed(Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(size)))));
  return value.toExponential(2);
}
// A number with a prefix of its unit.
function scaled(value, unit, step = 1000, prefixes = ["", "k", "M", "G", "T", "P"]) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  let k = 0;
  while (Math.abs(value) >= step && k + 1 < prefixes.length) [value, k] = [value / step, k + 1];
  const text = k === 0 ? figure(value) : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
  return `${text} ${prefixes[k]}${unit}`.trimEnd();
}
const bytes = (value) => scaled(value, "B", 1024, ["", "Ki", "Mi", "Gi", "Ti"]);
const flops = (value) => scaled(value, "FLOP");
function milli(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  return value >= 1000 ? `${figure(value / 1000)} s` : value >= 1 || value === 0 ? `${figure(value)} ms` : `${figure(value * 1000)} µs`;
}
const percent = (share) => (typeof share === "number" && Number.isFinite(share) ? `${(100 * share).toFixed(share > 0 && share < 0.1 ? 2 : 1)} %` : "–");
const shapeText = (shape) => (Array.isArray(shape) ? shape.join(" × ") || "scalar" : "–");
const named = (text) => (text === "" || text === null || text === undefined ? "(none)" : String(text));
const sum = (values) => values.reduce((a, b) => a + b, 0);
const most = (values) => values.reduce((a, b) => (b > a ? b : a), -Infinity);
const least = (values) => values.reduce((a, b) => (b < a ? b : a), Infinity);
// A text that fits so many letters.
const cut = (text, letters) => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);
// The end of a path says more than its beginning.
const cutFront = (text, letters) => (text.length > letters ? `…${text.slice(text.length - Math.max(1, letters - 1))}` : text);

// Values by a key, in the order of the first of each.
function grouped(list, key) {
  const groups = new Map();
  for (const item of list) {
    const of = key(item);
    if (groups.has(of)) groups.get(of).push(item);
    else groups.set(of, [item]);
  }
  return groups;
}

// What is said where there is nothing to show, and how to get it.
const empty = (what, ...how) => h("div", { class: "empty" }, h("strong", {}, what), h("p", {}, ...how));
const hint = (...text) => h("p", { class: "hint" }, ...text);

// A table that scrolls in its panel. Columns: [title, cell of a row, is it a number?]; of many rows the first are shown.
function table(label, columns, rows, { limit = 500, mark = null } = {}) {
  const head = h("tr", {}, columns.map(([title, , number]) => h("th", { scope: "col", class: number ? "number" : null }, title)));
  const row = (of) =>
    h("tr", { class: mark?.(of) ?? null }, columns.map(([, cell, number]) => h("td", { class: number ? "number" : null }, cell(of))));
  const more = rows.length > limit ? hint(`The first ${limit} of ${rows.length} rows.`) : null;
  const scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label, "data-keep": label });
  scroll.append(h("table", {}, h("thead", {}, head), h("tbody", {}, rows.slice(0, limit).map(row))));
  return h("div", {}, scroll, more);
}
// A choice that a panel keeps: a row of buttons, of which one is pressed.
function choice(label, options, chosen, choose) {
  return h("div", { class: "choice", role: "group", "aria-label": label }, h("span", { class: "quiet" }, label),
    options.map(([name, title]) =>
      h("button", { type: "button", "aria-pressed": String(name === chosen), "data-keep": `${label} ${name}`, onclick: () => choose(name) }, title)));
}
const card = (title, ...content) => h("section", { class: "card" }, title ? h("h3", {}, title) : null, ...content);
const cards = (...content) => h("div", { class: "cards" }, ...content);
const facts = (list) => h("dl", { class: "facts" }, list.map(([name, value, detail]) => h("div", {}, h("dt", {}, name), h("dd", {}, value), detail ? h("dd", { class: "detail" }, detail) : null)));

// Puts new content where there was old, and leaves scrolled tables and the focus as they were.
function replace(body, ...content) {
  const kept = new Map();
  for (const part of body.querySelectorAll(".scroll[data-keep]")) kept.set(part.dataset.keep, [part.scrollTop, part.scrollLeft]);
  const focused = body.contains(document.activeElement) ? document.activeElement.dataset.keep : null;
  body.replaceChildren(...content.flat(3).filter(Boolean));
  for (const part of body.querySelectorAll(".scroll[data-keep]")) {
    const [top, left] = kept.get(part.dataset.keep) ?? [0, 0];
    [part.scrollTop, part.scrollLeft] = [top, left];
  }
  if (focused) [...body.querySelectorAll("[data-keep]")].find((part) => part.dataset.keep === focused)?.focus({ preventScroll: true });
}

// What the pointer is over, in words: `data-tip` of the nearest element that has one.
document.addEventListener("pointermove", (event) => {
  const tip = byId("tip");
  const over = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  tip.hidden = !over;
  if (!over) return;
  tip.textContent = over.dataset.tip;
  const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const above = event.clientY + 18 + tip.offsetHeight > window.innerHeight;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${above ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18}px`;
});
