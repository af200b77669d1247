// Charts with axes, units and legends: lines over steps, bars, maps of heat.

// Pixels that a panel, or a card in a row of those that are at least so wide, leaves to what is in it: charts are drawn in pixels, so that
// words in them are of one size.
function room(least) {
  const inner = (byId("panels").clientWidth || 1200) - (window.innerWidth <= 860 ? 26 : 42);
  if (!least) return inner;
  const columns = Math.max(1, Math.floor((inner + 14) / (least + 14)));
  return Math.floor((inner - 14 * (columns - 1)) / columns) - 34;
}
const COLOURS = 8;
const colour = (k) => `series-${(k % COLOURS) + 1}`;

// Round numbers between two others, about so many.
function ticks(low, high, about) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough) ?? rough;
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9 && all.length < 20; at += step) all.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return all;
}
const decades = (low, high) => {
  const all = [];
  const stride = Math.max(1, Math.ceil((Math.log10(high) - Math.log10(low)) / 6));
  for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k += stride) all.push(10 ** k);
  return all.length > 1 ? all : [low, high];
};
// A mapping from values to places; with `log` of what is above 0.
function axis(values, from, to, log, padded = true) {
  let [low, high] = [least(values), most(values)];
  if (!Number.isFinite(low)) [low, high] = log ? [0.1, 1] : [0, 1];
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  else if (padded && !log) [low, high] = [low - (high - low) * 0.04, high + (high - low) * 0.06];
  const t = log ? Math.log10 : (v) => v;
  const at = (v) => from + ((t(v) - t(low)) / (t(high) - t(low))) * (to - from);
  return { at, low, high, ticks: (about) => (log ? decades(low, high) : ticks(low, high, about)) };
}
const legend = (names) => h("div", { class: "legend" }, names.map(([name, of]) => h("span", { class: `swatch ${of}` }, name)));

// A small figure in words for a tick.
function tickText(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(0).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

// Lines over steps, or over another number. `log`: of what is above 0.
function lineChart({ title, x = "step", y, series, log = false, height = 210, format = figure, tick = tickText, stairs = false, padded = true, width = room(400) }) {
  const shown = series.map((one, k) => ({ ...one, class: one.class ?? colour(k), points: one.points.filter(([, v]) => Number.isFinite(v) && (!log || v > 0)) }));
  const points = shown.flatMap((one) => one.points);
  if (points.length === 0) return null;
  const [left, right, top, bottom] = [66, 12, 12, 38];
  const across = axis(points.map(([at]) => at), left, width - right, false, false);
  const up = axis(points.map(([, v]) => v), height - bottom, top, log, padded);
  const parts = [];
  for (const at of up.ticks(5)) {
    parts.push(s("line", { class: "grid", x1: left, x2: width - right, y1: up.at(at), y2: up.at(at) }));
    parts.push(s("text", { class: "tick end", x: left - 7, y: up.at(at) + 4 }, tick(at)));
  }
  for (const at of across.ticks(Math.max(2, Math.floor(width / 80)))) parts.push(s("text", { class: "tick middle", x: across.at(at), y: height - bottom + 16 }, tickText(at)));
  parts.push(s("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  parts.push(s("text", { class: "label middle", x: (left + width - right) / 2, y: height - 6 }, x));
  parts.push(s("text", { class: "label middle", transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)` }, log ? `${y} (log)` : y));
  for (const one of shown) {
    if (one.points.length === 0) continue;
    const path = one.points.map(([at, v], k) => {
      const place = `${across.at(at).toFixed(1)} ${up.at(v).toFixed(1)}`;
      return k === 0 ? `M${place}` : stairs ? `H${across.at(at).toFixed(1)}V${up.at(v).toFixed(1)}` : `L${place}`;
    });
    parts.push(s("path", { class: `line ${one.class}`, d: path.join("") }));
    if (one.points.length <= 60) parts.push(one.points.map(([at, v]) => s("circle", { class: `dot ${one.class}`, cx: across.at(at), cy: up.at(v), r: one.points.length > 30 ? 1.6 : 2.4 })));
  }
  const cursor = s("line", { class: "cursor", y1: top, y2: height - bottom, x1: -9, x2: -9 });
  const readout = h("output", { "aria-live": "off" });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, ${points.length} points`, class: "plot" }, parts, cursor);
  const rest = () => {
    cursor.setAttribute("x1", -9);
    cursor.setAttribute("x2", -9);
    readout.replaceChildren(...shown.filter((one) => one.points.length).map((one) => h("span", { class: `swatch ${one.class}` }, `${one.name} ${format(one.points.at(-1)[1])}`)));
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * width;
    const nearest = points.reduce((best, point) => (Math.abs(across.at(point[0]) - place) < Math.abs(across.at(best[0]) - place) ? point : best));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, across.at(nearest[0]));
    const near = (one) => one.points.reduce((best, point) => (Math.abs(point[0] - nearest[0]) < Math.abs(best[0] - nearest[0]) ? point : best));
    readout.replaceChildren(h("span", {}, `${x} ${figure(nearest[0])}`),
      ...shown.filter((one) => one.points.length).map((one) => h("span", { class: `swatch ${one.class}` }, `${one.name} ${format(near(one)[1])}`)));
  });
  svg.addEventListener("pointerleave", rest);
  rest();
  return h("figure", {}, h("figcaption", {}, title), svg, readout);
}

// Bars that lie, one below the other. Rows: { name, value, tip, class, parts: [[class, value, tip]] }.
function barChart({ title, x, rows, format = figure, log = false, limit = 60, mark = null, width = room() }) {
  const shown = rows.slice(0, limit);
  if (shown.length === 0) return null;
  const [left, right, line] = [width > 700 ? 250 : 150, 110, 22];
  const letters = Math.floor((left - 14) / 7);
  const height = shown.length * line + 44;
  const values = shown.map((row) => row.value).filter((v) => Number.isFinite(v) && (!log || v > 0));
  const across = log
    ? axis(values.length ? [least(values) / 3, most(values)] : [], left, width - right, true)
    : axis([0, most([...values, 1e-12])], left, width - right, false, false);
  const parts = [];
  for (const at of across.ticks(Math.max(2, Math.floor(width / 130)))) {
    parts.push(s("line", { class: "grid", x1: across.at(at), x2: across.at(at), y1: 4, y2: height - 38 }));
    parts.push(s("text", { class: "tick middle", x: across.at(at), y: height - 23 }, tickText(at)));
  }
  shown.forEach((row, k) => {
    const y = 6 + k * line;
    parts.push(s("text", { class: "tick end name", x: left - 8, y: y + 14, "data-tip": row.name }, (row.cut ?? cutFront)(row.name, letters)));
    if (!Number.isFinite(row.value) || (log && row.value <= 0)) {
      parts.push(s("text", { class: "tick", x: left + 6, y: y + 14 }, row.value === 0 ? "0" : "–"));
      return;
    }
    let from = left;
    for (const [of, value, tip] of row.parts ?? [[row.class ?? "series-1", row.value, row.tip]]) {
      const to = row.parts ? from + across.at(value) - left : across.at(value);
      parts.push(s("rect", { class: `bar ${of}`, x: from, y, width: Math.max(0.7, to - from), height: line - 6, rx: row.parts ? 0 : 2, "data-tip": tip ?? row.tip }));
      from = to;
    }
    parts.push(s("text", { class: "tick", x: Math.max(from, left) + 6, y: y + 14 }, row.says ?? format(row.value)));
  });
  if (mark !== null && (!log || mark > 0)) {
    const at = Math.min(across.at(mark), width - right);
    parts.push(s("line", { class: "threshold", x1: at, x2: at, y1: 2, y2: height - 36 }));
  }
  parts.push(s("text", { class: "label middle", x: (left + width - right) / 2, y: height - 5 }, log ? `${x} (log)` : x));
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, ${rows.length} bars`, class: "plot wide" }, parts);
  return h("figure", {}, h("figcaption", {}, title), h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": title, "data-keep": title }, svg),
    rows.length > limit ? hint(`The first ${limit} of ${rows.length}.`) : null);
}

// A map of heat: rows by columns. `value(row, column)` is a number or none; `share` says how hot it is, from 0 to 1.
function heatMap({ title, rows, columns, value, share, format = figure, x, y, columnText = String, hot = "var(--series-1)", limit = 80, scale }) {
  const shown = rows.slice(0, limit);
  if (shown.length === 0 || columns.length === 0) return null;
  const [left, top, line] = [210, 8, 20];
  const cell = Math.max(7, Math.min(92, (room() - 34 - left - 14) / columns.length));
  const [width, height] = [left + cell * columns.length + 14, top + line * shown.length + 46];
  const parts = [];
  shown.forEach((row, k) => {
    parts.push(s("text", { class: "tick end name", x: left - 8, y: top + k * line + 14, "data-tip": named(row) }, cutFront(named(row), 32)));
    columns.forEach((column, c) => {
      const v = value(row, column);
      const is = typeof v === "number" && Number.isFinite(v);
      parts.push(s("rect", {
        class: is ? "cell" : "cell none", x: left + c * cell, y: top + k * line, width: Math.max(1, cell - 1), height: line - 1,
        fill: is ? `color-mix(in srgb, ${hot} ${Math.round(6 + 94 * Math.max(0, Math.min(1, share(v))))}%, var(--cell))` : null,
        "data-tip": `${named(row)}, ${columnText(column)}: ${is ? format(v) : v === null ? "not finite" : "–"}`,
      }));
    });
  });
  const stride = Math.max(1, Math.ceil(columns.length / Math.max(1, Math.floor((cell * columns.length) / 74))));
  columns.forEach((column, c) => {
    if (c % stride === 0) parts.push(s("text", { class: "tick middle", x: left + c * cell + cell / 2, y: height - 28 }, cut(columnText(column), 13)));
  });
  parts.push(s("text", { class: "label middle", x: left + (cell * columns.length) / 2, y: height - 9 }, x));
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title, class: "heat" }, parts);
  const bar = h("div", { class: "scale" }, h("span", {}, scale[0]), ...Array.from({ length: 8 }, (_, k) => {
    const step = h("i", {});
    step.style.background = `color-mix(in srgb, ${hot} ${Math.round(6 + (94 * k) / 7)}%, var(--cell))`;
    return step;
  }), h("span", {}, scale[1]), h("span", { class: "quiet" }, y));
  return h("figure", {}, h("figcaption", {}, title), h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": title, "data-keep": title }, svg), bar,
    rows.length > limit ? hint(`The first ${limit} of ${rows.length} rows.`) : null);
}
