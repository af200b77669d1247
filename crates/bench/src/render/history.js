"use strict";
const form = document.querySelector("form.filter");
form.hidden = false;
form.addEventListener("submit", event => event.preventDefault());
const runs = [...document.querySelectorAll("#runs tbody tr")].map(row => [...row.children].map(cell => cell.textContent));
const figures = [...document.querySelectorAll("figure.case")];
const words = text => text.toLowerCase().split(/\s+/).filter(Boolean);
const holds = (text, wanted) => wanted.every(word => text.includes(word));

// The filter stands in the address, so that a link shows the same lines.
function show() {
  const { show, column, changed } = form.elements;
  const wanted = words(show.value);
  const fits = (element, text) => holds(text.toLowerCase(), wanted) && (!column.value || element.dataset.column === column.value);
  let count = 0;
  for (const figure of figures) {
    const shown = fits(figure, figure.querySelector("figcaption").textContent) && (!changed.checked || "changed" in figure.dataset);
    figure.hidden = !shown;
    count += shown;
  }
  for (const row of document.querySelectorAll(".changes tbody tr")) row.hidden = !fits(row, row.textContent);
  document.getElementById("count").textContent = count === figures.length ? "" : count + " of " + figures.length + " lines are shown";
}
function remember() {
  const { show, column, changed } = form.elements, said = new URLSearchParams();
  if (show.value) said.set("show", show.value);
  if (column.value) said.set("column", column.value);
  if (changed.checked) said.set("changed", "1");
  history.replaceState(null, "", "#" + said);
}
function recall() {
  // A line's own address is no filter.
  if (/^#line\d+$/.test(location.hash)) return show();
  const said = new URLSearchParams(location.hash.slice(1)), { show: text, column, changed } = form.elements;
  text.value = said.get("show") ?? "";
  column.value = said.get("column") ?? "";
  if (column.selectedIndex < 0) column.value = "";
  changed.checked = said.has("changed");
  show();
}
form.addEventListener("input", () => { show(); remember(); });
addEventListener("hashchange", recall);
recall();

// A pointer over a chart, or the arrow keys, show the run at that place.
for (const figure of figures) {
  const svg = figure.querySelector("svg"), said = figure.querySelector("output"), rows = figure.querySelectorAll("tbody tr");
  if (!svg) continue;
  const [left, right, top, bottom] = [70, 700, 18, 180], last = rows.length - 1;
  let at = last;
  const point = k => {
    at = Math.max(0, Math.min(last, k));
    const x = last ? left + (right - left) * at / last : (left + right) / 2;
    svg.querySelector(".cursor").setAttribute("d", `M${x} ${top}V${bottom}`);
    const cells = [...rows[at].children].map(cell => cell.textContent), run = runs[cells[0] - 1];
    const unit = figure.querySelector("thead th:nth-child(2)").textContent;
    const what = cells.length > 2 ? `${cells[1]} ${unit} [${cells[2]}, ${cells[3]}]` : cells[1];
    said.textContent = `${what}: run ${cells[0]}, ${run[1]}, ${run[2]}`;
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    point(Math.round(((event.clientX - box.left) / box.width * 720 - left) / (right - left) * last));
  });
  figure.addEventListener("keydown", event => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    point(at + (event.key === "ArrowLeft" ? -1 : 1));
  });
}

// What is shown, as it stands in the tables.
function shown() {
  return figures.filter(figure => !figure.hidden).flatMap(figure => {
    const body = figure.querySelector("tbody"), scale = Number(body.dataset.scale);
    const workload = figure.querySelector("figcaption").firstChild.textContent.trim();
    return [...body.rows].map(row => {
      const cells = [...row.children].map(cell => cell.textContent), run = runs[cells[0] - 1], timed = cells.length > 2;
      const ns = k => timed ? Number((cells[k] * scale).toPrecision(5)) : null;
      return { workload, column: figure.dataset.column, run: Number(cells[0]), started: run[1], commit: run[2], median_ns: ns(1), low_ns: ns(2), high_ns: ns(3), error: timed ? null : cells[1] };
    });
  });
}
// Spreadsheets run what begins with these; a space before makes it text.
const field = value => {
  const text = value === null ? "" : typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? " " + value : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
function csv() {
  const rows = shown();
  return [Object.keys(rows[0] ?? { workload: 0 }).join(","), ...rows.map(row => Object.values(row).map(field).join(","))].join("\r\n") + "\r\n";
}
function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
document.getElementById("csv").addEventListener("click", () => save("history.csv", "text/csv", csv()));
document.getElementById("json").addEventListener("click", () => save("history.json", "application/json", JSON.stringify(shown())));
