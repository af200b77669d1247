// A recorded step: which kernels ran, when, for how long, in seven views; and what they computed and held.

const profiled = { list: "", id: null, step: null, error: null, view: "basic", rows: "layer", by: "name", heat: "kind", bars: "phase", most: 0.1, share: 5 };
const VIEWS = [["basic", "Basic"], ["box", "Box"], ["gantt", "Gantt"], ["heat", "Heat map"], ["stacked", "Stacked"], ["horizontal", "Horizontal"], ["thresholds", "Thresholds"]];
const KEYS = [["name", "kernel"], ["layer", "layer"], ["kind", "kind"], ["phase", "phase"]];
const MOST_DRAWN = 2500;

// The line as the run wrote it, with words for its numbers.
function readProfile(line) {
  const at = Object.fromEntries((line.columns ?? []).map((name, k) => [name, k]));
  const word = (words, k) => (Array.isArray(words) ? String(words[k] ?? "") : "");
  const kernels = (line.kernels ?? []).map((row, number) => ({
    number: number + 1, name: word(line.names, row[at.name]), kind: word(line.kinds, row[at.kind]), layer: word(line.layers, row[at.layer]),
    phase: word(line.phases_of, row[at.phase]), start: row[at.start_ms] ?? 0, ms: row[at.ms] ?? 0, flops: row[at.flops] ?? 0, bytes: row[at.bytes] ?? 0,
    live: row[at.live_bytes],
  }));
  const phases = [...new Set(kernels.map((kernel) => kernel.phase))];
  const total = sum(kernels.map((kernel) => kernel.ms));
  return { ...line, kernels, total, phaseClass: (phase) => colour(phases.indexOf(phase)), phaseList: phases };
}
// The newest recorded step, unless one was chosen; fetched when it is first wanted.
async function loadProfile(id) {
  profiled.id = id;
  try {
    const line = await fetched(`/api/profile?id=${id}`);
    if (profiled.id !== id) return;
    Object.assign(profiled, { step: readProfile(line), error: null });
    profiled.most = Number(figure(most(profiled.step.kernels.map((kernel) => kernel.ms)) / 4)) || 0.1;
  } catch (error) {
    Object.assign(profiled, { step: null, error: error.message });
  }
  changed("profiles");
}
function followProfiles() {
  const list = known.profiles.map((head) => head.id).join();
  if (list === profiled.list) return;
  profiled.list = list;
  const newest = known.profiles.at(-1);
  if (newest) loadProfile(newest.id);
  else Object.assign(profiled, { id: null, step: null });
}
function withProfile(what, draw) {
  if (profiled.error) return empty("The recorded step cannot be read.", profiled.error);
  if (!known.profiles.length) {
    const steady = known.status.state && known.status.state !== "not running";
    return empty(`No step was recorded: nothing is known of ${what}.`, steady ? "“Profile a step” above records the run's next step: " : "A living run is asked for it: ", h("code", {}, `adamant control ${document.body.dataset.run} profile`), ". It changes no bit of the run.");
  }
  if (!profiled.step) return empty("The recorded step is read…", "");
  return profiled.step.kernels.length ? draw(profiled.step) : empty(`Step ${profiled.step.step} was recorded, and no kernel ran in it.`, "The reference device computes op by op and has none; gradients and layers of the step are in the other panels.");
}
const kernelTip = (k) => `${k.name}\n${inLayer(k.layer)} · ${k.phase || "outside phases"} · ${k.kind}\n${milli(k.ms)} from ${milli(k.start)}\n${flops(k.flops)}, ${bytes(k.bytes)}`;
const inLayer = (layer) => layer || "outside layers";
const phaseLegend = (step) => legend(step.phaseList.map((phase) => [phase || "outside phases", step.phaseClass(phase)]));
const longest = (step) => (step.kernels.length > MOST_DRAWN ? [...step.kernels].sort((a, b) => b.ms - a.ms).slice(0, MOST_DRAWN) : step.kernels);

function basicView(step) {
  return table("Kernels in order", [
    ["#", (k) => k.number, true], ["start", (k) => milli(k.start), true], ["time", (k) => milli(k.ms), true], ["share", (k) => percent(k.ms / step.total), true],
    ["kernel", (k) => h("span", { "data-tip": k.name }, cut(k.name, 46))], ["kind", (k) => k.kind], ["layer", (k) => inLayer(k.layer)],
    ["phase", (k) => h("span", { class: `swatch ${step.phaseClass(k.phase)}` }, named(k.phase))], ["FLOPs", (k) => flops(k.flops), true], ["bytes", (k) => bytes(k.bytes), true],
  ], step.kernels, { limit: 1000 });
}
// Boxes in a box, each as large as its time: rows of them that are as square as can be.
function squares(items, x, y, width, height, place) {
  let rest = [...items].sort((a, b) => b.size - a.size);
  let left = sum(rest.map((item) => item.size));
  while (rest.length && left > 0) {
    const side = Math.min(width, height);
    const area = (width * height) / left;
    const ratio = (row) => {
      const total = sum(row.map((item) => item.size)) * area;
      return most(row.map((item) => Math.max((side * side * item.size * area) / (total * total), (total * total) / (side * side * Math.max(item.size * area, 1e-9)))));
    };
    let count = 1;
    while (count < rest.length && ratio(rest.slice(0, count + 1)) <= ratio(rest.slice(0, count))) count += 1;
    const row = rest.slice(0, count);
    const total = sum(row.map((item) => item.size));
    const thick = (total * area) / side;
    let along = 0;
    for (const item of row) {
      const long = (item.size / total) * side;
      if (width >= height) place(item, x, y + along, thick, long);
      else place(item, x + along, y, long, thick);
      along += long;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
    left -= total;
    rest = rest.slice(count);
  }
}
function boxView(step) {
  const [width, height, head] = [room(), 520, 17];
  const parts = [];
  const text = (words, x, y, room) => (room > 34 ? s("text", { class: "boxed", x: x + 5, y: y + 12.5 }, cut(words, Math.floor((room - 8) / 6.3))) : null);
  const groups = (kernels, key) => [...grouped(kernels, key)].map(([name, of]) => ({ name, of, size: sum(of.map((k) => k.ms)) }));
  squares(groups(longest(step), (k) => k.phase), 0, 0, width, height, (phase, x, y, w, hh) => {
    const tip = `${phase.name || "outside phases"}: ${milli(phase.size)}, ${percent(phase.size / step.total)}`;
    parts.push(s("rect", { class: `box outer ${step.phaseClass(phase.name)}`, x: x + 1, y: y + 1, width: Math.max(0, w - 2), height: Math.max(0, hh - 2), "data-tip": tip }));
    if (w < 24 || hh < head + 8) return;
    parts.push(text(`${phase.name || "outside phases"} · ${milli(phase.size)}`, x, y, w));
    squares(groups(phase.of, (k) => k.layer), x + 3, y + head, w - 6, hh - head - 3, (layer, lx, ly, lw, lh) => {
      parts.push(s("rect", { class: `box layer ${step.phaseClass(phase.name)}`, x: lx + 1, y: ly + 1, width: Math.max(0, lw - 2), height: Math.max(0, lh - 2), "data-tip": `${inLayer(layer.name)} (${phase.name}): ${milli(layer.size)}` }));
      const labelled = lw > 44 && lh > head + 6;
      if (labelled) parts.push(text(inLayer(layer.name), lx, ly, lw));
      const top = labelled ? head : 3;
      if (lw < 8 || lh < top + 6) return;
      squares(layer.of.map((k) => ({ ...k, size: k.ms })), lx + 3, ly + top, lw - 6, lh - top - 3, (kernel, kx, ky, kw, kh) => {
        parts.push(s("rect", { class: `box kernel ${step.phaseClass(phase.name)}`, x: kx + 0.5, y: ky + 0.5, width: Math.max(0.3, kw - 1), height: Math.max(0.3, kh - 1), "data-tip": kernelTip(kernel) }));
        if (kw > 60 && kh > 16) parts.push(text(kernel.name, kx, ky, kw));
      });
    });
  });
  return h("figure", {}, h("figcaption", {}, "Phases, layers in them, kernels in those: each box as large as its time"), s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot wide", role: "img", "aria-label": "Nested boxes by time" }, parts), phaseLegend(step));
}
function ganttView(step) {
  const key = (k) => (profiled.rows === "phase" ? k.phase : profiled.rows === "kind" ? k.kind : inLayer(k.layer));
  const drawn = longest(step);
  const rows = [...grouped(drawn, key).keys()];
  const [width, left, line] = [room(), 190, 20];
  const height = rows.length * line + 46;
  const end = Math.max(step.wall_ms ?? 0, most(drawn.map((k) => k.start + k.ms)));
  const across = axis([0, end], left, width - 14, false, false);
  const parts = [];
  for (const at of across.ticks(8)) {
    parts.push(s("line", { class: "grid", x1: across.at(at), x2: across.at(at), y1: 2, y2: height - 40 }));
    parts.push(s("text", { class: "tick middle", x: across.at(at), y: height - 25 }, tickText(at)));
  }
  rows.forEach((row, k) => {
    parts.push(s("text", { class: "tick end name", x: left - 8, y: 4 + k * line + 13, "data-tip": named(row) }, cutFront(named(row), 28)));
    parts.push(s("line", { class: "grid faint", x1: left, x2: width - 14, y1: 2 + (k + 1) * line, y2: 2 + (k + 1) * line }));
  });
  for (const k of drawn) {
    const y = 4 + rows.indexOf(key(k)) * line;
    parts.push(s("rect", { class: `bar ${step.phaseClass(k.phase)}`, x: across.at(k.start), y, width: Math.max(1, across.at(k.start + k.ms) - across.at(k.start)), height: line - 6, "data-tip": kernelTip(k) }));
  }
  parts.push(s("text", { class: "label middle", x: (left + width) / 2, y: height - 6 }, "time since the step began, ms"));
  return [choice("rows by", [["layer", "layer"], ["kind", "kind"], ["phase", "phase"]], profiled.rows, (of) => { profiled.rows = of; changed("profiles"); }),
    h("figure", {}, h("figcaption", {}, `When each ${profiled.rows} ran`), h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Gantt", "data-keep": "gantt" }, s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot wide", role: "img", "aria-label": "Kernels over time" }, parts)), phaseLegend(step))];
}
function heatView(step) {
  const rows = [...grouped(step.kernels, (k) => inLayer(k.layer)).keys()];
  const end = Math.max(step.wall_ms ?? 0, most(step.kernels.map((k) => k.start + k.ms)));
  const bins = 40;
  const bin = (k) => Math.min(bins - 1, Math.floor(((k.start + k.ms / 2) / end) * bins));
  const column = profiled.heat === "kind" ? (k) => k.kind : bin;
  const columns = profiled.heat === "kind" ? [...grouped(step.kernels, column).keys()] : Array.from({ length: bins }, (_, k) => k);
  const cells = new Map();
  for (const k of step.kernels) {
    const of = JSON.stringify([inLayer(k.layer), column(k)]);
    cells.set(of, (cells.get(of) ?? 0) + k.ms);
  }
  const hottest = most([...cells.values()]);
  return [choice("columns", [["kind", "kinds of kernels"], ["time", "time"]], profiled.heat, (of) => { profiled.heat = of; changed("profiles"); }),
    heatMap({ title: "Where the time goes", rows, columns, value: (row, of) => cells.get(JSON.stringify([row, of])), share: (v) => Math.sqrt(v / hottest), format: milli,
      columnText: profiled.heat === "kind" ? String : (k) => figure(Number(((k * end) / bins).toPrecision(3))), x: profiled.heat === "kind" ? "kind of kernel" : "time since the step began, ms", y: "time in kernels", scale: ["0", milli(hottest)] })];
}
function stackedView(step) {
  const [bar, part] = profiled.bars === "phase" ? [(k) => k.phase || "outside phases", (k) => k.kind] : [(k) => inLayer(k.layer), (k) => k.phase || "outside phases"];
  const parts = [...grouped(step.kernels, part).keys()];
  const columns = [...grouped(step.kernels, bar)].map(([name, of]) => ({ name, of, ms: sum(of.map((k) => k.ms)) }));
  const [left, top, bottom, plot] = [62, 24, 92, 300];
  const across = Math.max(26, Math.min(110, 900 / columns.length));
  const [width, height] = [left + across * columns.length + 12, top + plot + bottom];
  const up = axis([0, most(columns.map((column) => column.ms))], top + plot, top, false, false);
  const drawn = [];
  for (const at of up.ticks(5)) {
    drawn.push(s("line", { class: "grid", x1: left, x2: width - 12, y1: up.at(at), y2: up.at(at) }), s("text", { class: "tick end", x: left - 7, y: up.at(at) + 4 }, tickText(at)));
  }
  columns.forEach((column, k) => {
    let from = top + plot;
    for (const [name, of] of grouped(column.of, part)) {
      const tall = top + plot - up.at(sum(of.map((x) => x.ms)));
      drawn.push(s("rect", { class: `bar ${colour(parts.indexOf(name))}`, x: left + k * across + 4, y: from - tall, width: across - 8, height: Math.max(0.4, tall), "data-tip": `${named(column.name)}, ${named(name)}: ${milli(sum(of.map((x) => x.ms)))} in ${of.length} kernels` }));
      from -= tall;
    }
    drawn.push(s("text", { class: "tick middle", x: left + (k + 0.5) * across, y: from - 4 }, across > 54 ? milli(column.ms) : ""));
    drawn.push(s("text", { class: "tick end name", transform: `translate(${left + (k + 0.5) * across + 4} ${top + plot + 14}) rotate(-32)`, "data-tip": named(column.name) }, cutFront(named(column.name), 18)));
  });
  drawn.push(s("line", { class: "axis", x1: left, x2: width - 12, y1: top + plot, y2: top + plot }));
  drawn.push(s("text", { class: "label middle", transform: `translate(13 ${top + plot / 2}) rotate(-90)` }, "time in kernels, ms"));
  drawn.push(s("text", { class: "label middle", x: left + (across * columns.length) / 2, y: height - 6 }, profiled.bars));
  return [choice("bars", [["phase", "phases, by kind"], ["layer", "layers, by phase"]], profiled.bars, (of) => { profiled.bars = of; changed("profiles"); }),
    h("figure", {}, h("figcaption", {}, profiled.bars === "phase" ? "Time of each phase, by kind of kernel" : "Time of each layer, by phase"),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Stacked bars", "data-keep": "stacked" }, s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Stacked bars", class: "heat" }, drawn)), legend(parts.map((name, k) => [named(name), colour(k)])))];
}
function horizontalView(step) {
  const groups = [...grouped(step.kernels, (k) => k[profiled.by])].map(([name, of]) => ({ name: named(name), cut: profiled.by === "name" ? cut : cutFront, of, value: sum(of.map((k) => k.ms)) }));
  const rows = groups.sort((a, b) => b.value - a.value).map((row) => ({ ...row, says: `${milli(row.value)} · ${percent(row.value / step.total)}`, tip: `${row.name}: ${milli(row.value)} in ${row.of.length} kernels, ${flops(sum(row.of.map((k) => k.flops)))}`,
    parts: [...grouped(row.of, (k) => k.phase)].map(([phase, of]) => [step.phaseClass(phase), sum(of.map((k) => k.ms)), `${row.name}, ${phase || "outside phases"}: ${milli(sum(of.map((k) => k.ms)))}`]) }));
  return [choice("bars by", KEYS, profiled.by, (of) => { profiled.by = of; changed("profiles"); }),
    barChart({ title: `Longest first, by ${profiled.by === "name" ? "kernel" : profiled.by}`, x: "time in kernels, ms", rows, format: milli }), phaseLegend(step)];
}
function thresholdsView(step) {
  const limit = profiled.most;
  const over = (k) => k.ms >= limit || k.ms >= (step.total * profiled.share) / 100;
  const sorted = [...step.kernels].sort((a, b) => b.ms - a.ms);
  const above = sorted.filter(over);
  const input = (label, value, min, set, name) =>
    h("label", {}, `${label} `, h("input", { type: "number", min, step: "any", value, "data-keep": name, onchange: (event) => { const v = Number(event.target.value); if (Number.isFinite(v) && v >= 0) { set(v); changed("profiles"); } } }));
  return [h("div", { class: "choice" }, input("longer than, ms", profiled.most, "0", (v) => { profiled.most = v; }, "threshold ms"), input("or a share of at least, %", profiled.share, "0", (v) => { profiled.share = v; }, "threshold share")),
    facts([["above", `${above.length} of ${sorted.length}`, "kernels"], ["their time", milli(sum(above.map((k) => k.ms))), percent(sum(above.map((k) => k.ms)) / step.total)], ["below", milli(sum(sorted.filter((k) => !over(k)).map((k) => k.ms))), "the other kernels together"]]),
    barChart({ title: "Kernels, longest first; the line is the threshold", x: "time, ms", mark: limit, rows: sorted.slice(0, 40).map((k) => ({ name: `${k.number} ${k.name}`, cut, value: k.ms, says: milli(k.ms), class: over(k) ? "over" : "under", tip: kernelTip(k) })), limit: 40, format: milli }),
    legend([["above a threshold", "over"], ["below", "under"]])];
}
const VIEW = { basic: basicView, box: boxView, gantt: ganttView, heat: heatView, stacked: stackedView, horizontal: horizontalView, thresholds: thresholdsView };

function drawTrace(body) {
  replace(body, withProfile("what runs in a step", (step) => {
    const chosen = h("label", { class: "quiet" }, "recorded step ", h("select", { "data-keep": "recorded step", onchange: (event) => loadProfile(Number(event.target.value)) },
      known.profiles.map((head) => h("option", { value: head.id, selected: head.id === profiled.id }, `${head.step} (${milli(head.wall_ms)})`))));
    const host = (step.wall_ms ?? 0) - step.total;
    return [h("div", { class: "bar-of" }, chosen, h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the trace" }, VIEWS.map(([name, title]) =>
      h("button", { type: "button", role: "tab", "aria-selected": String(name === profiled.view), "data-view": name, "data-keep": `view ${name}`, onclick: () => { profiled.view = name; changed("profiles"); } }, title)))),
    facts([["step", step.step], ["wall clock", milli(step.wall_ms), step.plan_ms > 0 ? `${milli(step.plan_ms)} of it planned: the first step of its kind` : "no new plan"], ["kernels", step.kernels.length + (step.left_out ?? 0), step.left_out ? `${step.left_out} short ones are left out` : milli(step.total)], ["beside kernels", milli(Math.max(0, host)), "planning, and the host's own time"]]),
    h("div", { class: "view", "data-shown": profiled.view }, VIEW[profiled.view](step)), step.kernels.length > MOST_DRAWN && ["box", "gantt"].includes(profiled.view) ? hint(`Drawn are the ${MOST_DRAWN} longest kernels.`) : null];
  }));
}
function drawCosts(body) {
  replace(body, withProfile("FLOPs and memory", (step) => {
    const columns = (title) => [
      [title, (row) => (title === "layer" ? inLayer(row.name) : named(row.name))], ["kernels", (row) => row.of.length, true], ["time", (row) => milli(row.ms), true], ["share", (row) => percent(row.ms / step.total), true], ["FLOPs", (row) => flops(row.flops), true],
      ["bytes", (row) => bytes(row.bytes), true], ["GFLOP/s", (row) => (row.ms > 0 ? figure(row.flops / row.ms / 1e6) : "–"), true], ["GB/s", (row) => (row.ms > 0 ? figure(row.bytes / row.ms / 1e6) : "–"), true],
      ["FLOP per byte", (row) => (row.bytes > 0 ? figure(row.flops / row.bytes) : "–"), true],
    ];
    const rows = (key) => [...grouped(step.kernels, (k) => k[key])].map(([name, of]) => ({ name, of, ms: sum(of.map((k) => k.ms)), flops: sum(of.map((k) => k.flops)), bytes: sum(of.map((k) => k.bytes)) })).sort((a, b) => b.ms - a.ms);
    const live = step.kernels.filter((k) => typeof k.live === "number").map((k) => [k.start + k.ms, k.live]);
    const total = sum(step.kernels.map((k) => k.flops));
    return [facts([["of the step", flops(total), `${figure(total / step.total / 1e6)} GFLOP/s while kernels ran`], ["read and written", bytes(sum(step.kernels.map((k) => k.bytes))), "each element once for each kernel"], ["most live memory", live.length ? bytes(most(live.map(([, v]) => v))) : "–", "of tensors on the device"]]),
      cards(card("By kind of kernel", table("By kind of kernel", columns("kind"), rows("kind"))),
        card("", lineChart({ title: "Live memory over the step: bytes that tensors hold", x: "time since the step began, ms", y: "live", series: [{ name: "live", points: live }], stairs: true, format: bytes, tick: bytes }) ?? hint("The device does not tell."))),
      card("By layer", table("By layer", columns("layer"), rows("layer")))];
  }));
}
