// What layers and parameters were like: gradients and updates over depth and steps, dead and saturated units, the flow of tensors.

const chosen = { look: null, measure: "dead", over: "update" };
const howToLook = () => [h("code", {}, "--set stability.look_every=10"), " when a run is started writes such numbers each ten steps; “Profile a step” above looks once."];
// Every look there is: lines of the run, and those of recorded steps.
function allLooks() {
  const recorded = profiled.step?.look ? [{ ...profiled.step.look, step: profiled.step.step, recorded: true }] : [];
  const own = looks().filter((line) => Number.isFinite(line.step));
  return [...own, ...recorded.filter((one) => !own.some((line) => line.step === one.step))].sort((a, b) => a.step - b.step);
}
const list = (of) => (Array.isArray(of) ? of.filter((item) => item && typeof item === "object") : []);
const ratio = (p) => (typeof p.update === "number" && p.weight > 0 ? p.update / p.weight : undefined);
// Which look is shown: the newest, or one that was chosen by its slider.
function lookChoice(all) {
  const at = chosen.look === null ? all.length - 1 : Math.max(0, all.findIndex((line) => line.step >= chosen.look));
  const slider = h("input", { type: "range", min: 0, max: all.length - 1, value: at, "aria-label": "look", "data-keep": "look",
    oninput: (event) => { const k = Number(event.target.value); chosen.look = k === all.length - 1 ? null : all[k].step; changed("looks"); } });
  return [all[at], h("div", { class: "choice" }, h("span", { class: "quiet" }, "look at step"), all.length > 1 ? slider : null, h("strong", {}, all[at].step), h("span", { class: "quiet" }, chosen.look === null ? "the newest" : `${at + 1} of ${all.length}`))];
}
// Numbers of many looks, by name: of each name a map from steps.
function bySteps(all, items, name, value) {
  const names = new Map();
  for (const line of all) for (const item of list(line[items])) {
    const of = String(item[name]);
    if (!names.has(of)) names.set(of, new Map());
    names.get(of).set(line.step, value(item));
  }
  return names;
}
const thinned = (all, count) => (all.length <= count ? all : Array.from({ length: count }, (_, k) => all[Math.round((k * (all.length - 1)) / (count - 1))]));

function drawGradients(body) {
  const norm = lineChart({ title: "Norm of all gradients, before clipping", y: "norm", log: true, series: [{ name: "gradient", points: points(steps(), (line) => line.grad_norm) }] });
  const all = allLooks();
  if (!all.length) {
    replace(body, norm ? cards(card("", norm)) : null, empty("Nobody has looked at single parameters.", ...howToLook()));
    return;
  }
  const [look, slider] = lookChoice(all);
  const parameters = list(look.parameters);
  const tip = (p) => `${p.parameter} [${shapeText(p.shape)}]\ngradient ${figure(p.gradient)}, weight ${figure(p.weight)}\nupdate ${figure(p.update)}, update / weight ${figure(ratio(p))}`;
  const shown = thinned(all, 60);
  const values = bySteps(all, "parameters", "parameter", chosen.over === "update" ? ratio : (p) => p.gradient);
  const logs = [...values.values()].flatMap((of) => [...of.values()]).filter((v) => v > 0).map(Math.log10);
  const [low, high] = logs.length ? [least(logs), most(logs)] : [0, 1];
  const suspicious = (p) => (p.gradient === null || p.update === null ? "bad" : p.gradient === 0 || ratio(p) > 0.1 ? "warn" : null);
  replace(body, cards(card("", norm ?? hint("The run has logged no norm yet.")), card("", lineChart({ title: "Update / weight over steps", y: "ratio", log: true,
    series: [...bySteps(all, "parameters", "parameter", ratio)].filter(([name]) => parameters.length <= 8 || name.endsWith("weight")).slice(0, 8).map(([name, of]) => ({ name: cutFront(name, 22), points: [...of] })) }) ?? hint("One look is no curve."))),
    slider, cards(
      card("", barChart({ title: "Gradient norm by parameter, from the input to the loss", x: "norm", log: true, rows: parameters.map((p) => ({ name: String(p.parameter), value: p.gradient ?? NaN, tip: tip(p), class: suspicious(p) === "bad" ? "over" : "series-1" })), limit: 80, width: room(400) })),
      card("", barChart({ title: "Update / weight by parameter; near 0.001 is usual", x: "ratio", log: true, mark: 1e-3, rows: parameters.map((p) => ({ name: String(p.parameter), value: ratio(p) ?? NaN, tip: tip(p), class: "series-2" })), limit: 80, width: room(400) }))),
    choice("over steps", [["update", "update / weight"], ["gradient", "gradient norm"]], chosen.over, (of) => { chosen.over = of; changed("looks"); }),
    card("", heatMap({ title: chosen.over === "update" ? "Update / weight over steps" : "Gradient norm over steps", rows: [...values.keys()], columns: shown.map((line) => line.step), value: (row, step) => values.get(row)?.get(step),
      share: (v) => (v > 0 ? (Math.log10(v) - low) / (high - low || 1) : 0), x: "step", y: "logarithmic", scale: [figure(10 ** low), figure(10 ** high)] })),
    card("Parameters", table("Parameters", [["parameter", (p) => p.parameter], ["shape", (p) => shapeText(p.shape)], ["gradient", (p) => figure(p.gradient), true], ["weight", (p) => figure(p.weight), true], ["update", (p) => figure(p.update), true],
      ["update / weight", (p) => figure(ratio(p)), true], ["range", (p) => figure(p.range), true]], parameters, { mark: suspicious })));
}

const MEASURES = [["dead", "dead units"], ["zeros", "zeros"], ["saturated", "saturated"]];
function drawNeurons(body) {
  const all = allLooks();
  if (!all.length) {
    replace(body, empty("Nobody has looked at layers.", ...howToLook()));
    return;
  }
  const [look, slider] = lookChoice(all);
  const layers = list(look.layers);
  const of = chosen.measure;
  const values = bySteps(all, "layers", "layer", (layer) => layer[of] ?? undefined);
  const rows = [...values.keys()].filter((name) => [...values.get(name).values()].some((v) => typeof v === "number"));
  const title = MEASURES.find(([name]) => name === of)[1];
  const says = { dead: "units (channels, features) that are 0 in every row of the batch", zeros: "elements that are 0", saturated: "elements of the last sigmoid or tanh in the layer at its ends" }[of];
  const worst = layers.filter((layer) => layer.dead > 0).sort((a, b) => b.dead - a.dead)[0];
  replace(body, facts([["layers with dead units", layers.filter((layer) => layer.dead > 0).length, `of ${layers.length}, at step ${look.step}`], ["worst", worst ? percent(worst.dead) : "none", worst ? worst.layer : "no unit is 0 in every row"],
    ["most saturated", percent(most([0, ...layers.map((layer) => layer.saturated ?? 0)])), layers.filter((layer) => layer.saturated > 0).sort((a, b) => b.saturated - a.saturated)[0]?.layer ?? "no sigmoid or tanh"]]),
    choice("share of", MEASURES, of, (name) => { chosen.measure = name; changed("looks"); }), hint(`Of a layer's result the share of ${says}.`),
    rows.length ? card("", heatMap({ title: `Share of ${title}, over steps`, rows, columns: thinned(all, 60).map((line) => line.step), value: (row, step) => values.get(row)?.get(step), share: (v) => v, format: percent, x: "step", y: "", hot: "var(--bad)", scale: ["0 %", "100 %"] }))
      : empty(`No layer has a share of ${title}.`, of === "saturated" ? "Only layers with a sigmoid or a tanh have one." : ""),
    cards(card("", lineChart({ title: `Share of ${title}, the most first`, y: "share", format: percent, series: rows.map((name) => ({ name: cutFront(name, 22), points: [...values.get(name)].filter(([, v]) => typeof v === "number") })).sort((a, b) => (b.points.at(-1)?.[1] ?? 0) - (a.points.at(-1)?.[1] ?? 0)).slice(0, 6) }) ?? hint("Nothing to draw.")),
      card("", lineChart({ title: "Mean absolute value of what layers give", y: "mean", log: true, series: [...bySteps(all, "layers", "layer", (layer) => layer.mean)].slice(0, 8).map(([name, at]) => ({ name: cutFront(name, 22), points: [...at] })) }) ?? hint("Nothing to draw."))),
    slider, card("Layers", table("Layers", [["layer", (l) => l.layer], ["op", (l) => l.op], ["largest", (l) => figure(l.largest), true], ["mean", (l) => figure(l.mean), true], ["zeros", (l) => percent(l.zeros), true], ["dead", (l) => percent(l.dead), true], ["saturated", (l) => percent(l.saturated), true]],
      layers, { mark: (l) => (l.largest === null ? "bad" : l.dead >= 0.5 || l.saturated >= 0.9 ? "bad" : l.dead > 0.1 ? "warn" : null) })));
}

// The batch at the top, layers in their order, the loss at the bottom; an edge is as wide as the tensor that goes along it is large.
function drawTensors(body) {
  const all = allLooks();
  if (!all.length) {
    replace(body, empty("Nobody has looked at layers.", ...howToLook()));
    return;
  }
  const [look, slider] = lookChoice(all);
  const shapes = { ...(profiled.step?.shapes ?? {}) };
  const accused = new Map();
  for (const incident of known.incidents) {
    const layer = incident?.origin?.op?.layer;
    if (typeof layer === "string" && layer) accused.set(layer, `step ${incident.step}: ${incident.origin.kind ?? "not finite"} began here`);
  }
  const trouble = (layer) => [accused.get(layer.layer), layer.largest === null || layer.mean === null ? "not finite" : null, layer.dead >= 0.5 ? `${percent(layer.dead)} of its units are dead` : null, layer.saturated >= 0.9 ? `${percent(layer.saturated)} saturated` : null, layer.mean === 0 ? "all zeros" : null].filter(Boolean);
  const rows = sum((Array.isArray(look.rows) ? look.rows : []).filter(Number.isFinite));
  const batch = list(look.batch);
  const nodes = [{ title: "batch", sub: rows ? `${rows} rows` : "", first: true, tell: batch.length ? batch.map((b) => `tensor ${b.tensor}: largest ${figure(b.largest)}, mean ${figure(b.mean)}, zeros ${percent(b.zeros)}`).join("; ") : "no tensor of floats", shape: null, wrong: batch.some((b) => b.largest === null) ? ["not finite"] : [] }];
  for (const layer of list(look.layers)) nodes.push({ title: String(layer.layer), sub: String(layer.op ?? ""), shape: shapes[layer.layer] ?? null, tell: `largest ${figure(layer.largest)} · mean ${figure(layer.mean)} · zeros ${percent(layer.zeros)}`, wrong: trouble(layer) });
  const loss = typeof look.loss === "number" ? look.loss : steps().find((line) => line.step === look.step)?.loss;
  nodes.push({ title: "loss", sub: "", last: true, tell: `${figure(loss)} at step ${look.step}`, shape: null, wrong: loss === null ? ["not finite"] : [] });
  const [width, box, gap] = [Math.min(860, room()), 44, 26];
  const height = nodes.length * (box + gap) - gap + 16;
  const fits = Math.floor((width - 160) / 7.4);
  const elements = (shape) => (Array.isArray(shape) ? shape.reduce((a, b) => a * b, 1) : 0);
  const largest = most([1, ...nodes.map((node) => elements(node.shape))]);
  const parts = [];
  nodes.forEach((node, k) => {
    const y = 8 + k * (box + gap);
    const wrong = node.wrong.length > 0;
    const tip = `${node.title}${node.sub ? `, ${node.sub}` : ""}${node.shape ? `, ${shapeText(node.shape)}` : ""}\n${node.tell}${wrong ? `\n${node.wrong.join("; ")}` : ""}`;
    if (k + 1 < nodes.length) {
      const size = elements(node.shape);
      const wide = size ? 1.5 + 12 * (Math.log2(1 + size) / Math.log2(1 + largest)) : 2;
      parts.push(s("line", { class: `edge${wrong ? " wrong" : ""}`, x1: width / 2, x2: width / 2, y1: y + box, y2: y + box + gap - 7, "stroke-width": wide.toFixed(1) }));
      parts.push(s("path", { class: `tip-of${wrong ? " wrong" : ""}`, d: `M${width / 2 - 4 - wide / 2} ${y + box + gap - 8}h${8 + wide}l${-4 - wide / 2} 8z` }));
      if (node.shape) parts.push(s("text", { class: "tick", x: width / 2 + 16, y: y + box + gap / 2 + 4 }, `${shapeText(node.shape)} · ${scaled(size, "elements")}`));
    }
    parts.push(s("rect", { class: `node${node.first || node.last ? " outer" : ""}${wrong ? " wrong" : ""}`, x: 60, y, width: width - 120, height: box, rx: 8, "data-tip": tip }));
    parts.push(s("text", { class: "node-name", x: 76, y: y + 18 }, cutFront(node.title, 46)), s("text", { class: "tick end", x: width - 76, y: y + 18 }, node.sub));
    parts.push(s("text", { class: "tick", x: 76, y: y + 35 }, cut(node.tell, wrong ? fits - 30 : fits + 12)));
    if (wrong) parts.push(s("text", { class: "wrong-text end", x: width - 76, y: y + 35 }, cut(`▲ ${node.wrong[0]}`, 34)));
  });
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot flow", role: "img", "aria-label": "The flow of tensors" }, parts);
  replace(body, slider, h("figure", {}, h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "The flow of tensors", "data-keep": "flow" }, svg)),
    Object.keys(shapes).length ? null : hint("Shapes, and how wide an edge is, come with a recorded step: “Profile a step”."), hint("Layers in the order of their first op. Marked is what is not finite, mostly dead or saturated, and where an incident began."));
}
