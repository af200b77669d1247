// The debugger of a living run: breakpoints, where it is stopped, values that are looked at, cut out and set. Requests go one after the
// other, over the connection that the page's program keeps; what is asked and answered stands in a console.

const session = { where: null, looked: null, slice: null, of: "", log: [], queue: Promise.resolve(), history: [], at: 0 };
const MOST_LOG = 200;
function say(kind, text) {
  session.log.push([kind, text]);
  session.log = session.log.slice(-MOST_LOG);
  changed("status");
}
function debug(request, quiet = false) {
  const done = session.queue.then(async () => {
    if (!quiet) say("asked", JSON.stringify(request));
    const answer = await ask(request);
    if (!quiet || !answer.ok) say(answer.ok ? "answered" : "refused", answer.ok ? cut(JSON.stringify(answer), 2000) : String(answer.error));
    return answer;
  });
  session.queue = done.catch(() => {});
  return done;
}
async function where(quiet = true) {
  const answer = await debug({ do: "where" }, quiet);
  session.where = answer.ok ? answer : null;
  changed("status");
}
async function act(request) {
  const answer = await debug(request);
  if (["next", "continue"].includes(request.do)) Object.assign(session, { looked: null, slice: null });
  if (answer.ok && ["break", "unbreak", "set", "next", "continue", "pause", "resume"].includes(request.do)) await where();
  return answer;
}
async function lookAt(name) {
  session.of = name;
  const answer = await debug({ do: "look", of: name });
  session.looked = answer.ok ? { name, ...answer } : null;
  session.slice = null;
  changed("status");
}
function field(form, name) {
  return (form.elements.namedItem(name)?.value ?? "").trim();
}
function submit(build) {
  return (event) => {
    event.preventDefault();
    const request = build(event.currentTarget);
    if (request) act(request).then((answer) => { if (answer.ok && request.do === "slice") { session.slice = { at: request.at, name: request.of, ...answer }; changed("status"); } });
  };
}
const input = (name, placeholder, more = {}) => h("label", {}, h("span", {}, more.label ?? name), h("input", { name, placeholder, autocomplete: "off", spellcheck: "false", ...more }));
const number = (text) => (text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

// The forms are made once: what is typed in them stays.
function debuggerForms() {
  const breakForm = h("form", { class: "row", "aria-label": "A breakpoint", onsubmit: submit((form) => {
    const request = { do: "break" };
    if (field(form, "step") !== "") request.step = number(field(form, "step")) ?? field(form, "step");
    for (const name of ["layer", "op", "phase", "when"]) if (field(form, name)) request[name] = field(form, name);
    return request;
  }) }, input("step", "12", { inputmode: "numeric", size: 6, label: "before step" }), input("layer", "head*", { size: 10 }), input("op", "matmul", { size: 8 }),
    h("label", {}, h("span", {}, "phase"), h("select", { name: "phase" }, h("option", { value: "" }, "any"), ["forward", "loss", "backward", "clip", "optimizer"].map((name) => h("option", {}, name)))),
    input("when", "nonfinite, absmax > 1e4", { size: 20, list: "conditions" }), h("datalist", { id: "conditions" }, ["nonfinite", "absmax > 1e4"].map((value) => h("option", { value }))), h("button", { class: "main" }, "Break"));
  const sliceForm = h("form", { class: "row", "aria-label": "Values of a slice", onsubmit: submit((form) => ({ do: "slice", of: field(form, "of"), at: field(form, "at") })) },
    input("of", "its name", { required: true, size: 18, label: "value", id: "slice-of" }), input("at", "0:4, :", { required: true, size: 10, label: "at" }), h("button", {}, "Cut out"));
  const setForm = h("form", { class: "row", "aria-label": "Set a value", onsubmit: submit((form) => {
    // What is no finite number (NaN, inf) has its word in the protocol.
    const value = number(field(form, "value")) ?? field(form, "value");
    return { do: "set", of: field(form, "of"), at: field(form, "at"), value };
  }) }, input("of", "its name", { required: true, size: 18, label: "value", id: "set-of" }), input("at", "0, 3", { required: true, size: 10, label: "at" }), input("value", "1.5", { required: true, size: 8, label: "to" }), h("button", {}, "Set"));
  const raw = h("input", { name: "line", placeholder: '{"do": "where"}', autocomplete: "off", spellcheck: "false", "aria-label": "A request, as JSON" });
  raw.addEventListener("keydown", (event) => {
    if (!["ArrowUp", "ArrowDown"].includes(event.key) || session.history.length === 0) return;
    event.preventDefault();
    session.at = Math.min(session.history.length, Math.max(0, session.at + (event.key === "ArrowUp" ? -1 : 1)));
    raw.value = session.history[session.at] ?? "";
  });
  const rawForm = h("form", { class: "row console-line", "aria-label": "A request of the control protocol", onsubmit: (event) => {
    event.preventDefault();
    const line = raw.value.trim();
    if (!line) return;
    session.history.push(line);
    session.at = session.history.length;
    let request;
    try { request = JSON.parse(line); } catch (error) { say("refused", `no JSON: ${error.message}`); return; }
    raw.value = "";
    act(request);
  } }, h("span", { class: "quiet" }, "›"), raw, h("button", {}, "Send"));
  const go = (title, request, key) => h("button", { type: "button", onclick: () => act(request), "data-tip": JSON.stringify(request), "data-key": key ?? null }, title);
  const buttons = h("div", { class: "row" }, go("Where", { do: "where" }), go("Next op", { do: "next", of: "op" }), go("Next layer", { do: "next", of: "layer" }), go("Next step", { do: "next", of: "step" }), go("Continue", { do: "continue" }), go("Remove all breakpoints", { do: "unbreak" }));
  return { breakForm, sliceForm, setForm, rawForm, buttons };
}
const shownNumber = (value) => (typeof value === "number" ? figure(value) : String(value ?? "–"));
function histogram(of) {
  const counts = Array.isArray(of?.counts) ? of.counts.filter(Number.isFinite) : [];
  if (!counts.length) return null;
  const [width, height, left, bottom] = [460, 170, 54, 36];
  const up = axis([0, most([...counts, 1])], height - bottom, 8, false, false);
  const each = (width - left - 8) / counts.length;
  const parts = up.ticks(3).flatMap((at) => [s("line", { class: "grid", x1: left, x2: width - 8, y1: up.at(at), y2: up.at(at) }), s("text", { class: "tick end", x: left - 6, y: up.at(at) + 4 }, tickText(at))]);
  const edge = (k) => of.least + ((of.most - of.least) * k) / counts.length;
  counts.forEach((count, k) => parts.push(s("rect", { class: "bar series-1", x: left + k * each, y: up.at(count), width: Math.max(1, each - 1), height: up.at(0) - up.at(count), "data-tip": `${figure(edge(k))} to ${figure(edge(k + 1))}: ${count}` })));
  parts.push(s("text", { class: "tick", x: left, y: height - 20 }, figure(of.least)), s("text", { class: "tick end", x: width - 8, y: height - 20 }, figure(of.most)), s("text", { class: "label middle", x: (left + width) / 2, y: height - 5 }, "value"), s("text", { class: "label middle", transform: `translate(11 ${height / 2 - 12}) rotate(-90)` }, "elements"));
  return s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": "Histogram" }, parts);
}
// Nested lists of a slice, or flat values with a shape, as rows.
function sliceTable(slice) {
  const shape = Array.isArray(slice.shape) ? slice.shape : [];
  const flat = Array.isArray(slice.values) ? slice.values.flat(8) : [slice.values];
  const across = Math.max(1, shape.at(-1) ?? flat.length);
  const rows = Array.from({ length: Math.min(200, Math.ceil(flat.length / across)) }, (_, k) => ({ k, values: flat.slice(k * across, (k + 1) * across) }));
  const columns = Array.from({ length: Math.min(64, across) }, (_, c) => [String(c), (row) => shownNumber(row.values[c]), true]);
  return h("div", {}, hint(`${slice.name} at [${slice.at}], shape ${shapeText(shape)}`), table("Slice", [["", (row) => row.k, true], ...columns], rows));
}
function drawStopped() {
  const at = session.where;
  const status = known.status.state;
  if (!status || status === "not running") return empty("The run is not running: there is nothing to stop.", "Breakpoints, values and steps are of a living run; the other panels show what it left.");
  if (!at) return hint("“Where” asks the run where it is. It goes on until a breakpoint stops it; when this page's program ends, it goes on by itself.");
  const stops = list(at.breakpoints);
  const values = list(at.values);
  const says = (stop) => Object.entries(stop).filter(([name]) => !["breakpoint", "number", "hits"].includes(name)).map(([name, value]) => `${name} ${value}`).join(", ");
  return [facts([["state", at.stopped ? "stopped" : "running", at.stopped && typeof at.breakpoint === "number" ? `by breakpoint ${at.breakpoint}` : ""], ["step", at.in_step ?? at.step ?? "–", at.in_step ? "within it" : "done"], ["phase", named(at.phase)], ["op", named(at.op), [typeof at.number === "number" ? `number ${at.number} of the step` : "", at.shows ? `shows ${at.shows}` : ""].filter(Boolean).join(", ")], ["layer", named(at.layer), at.line ?? ""]]),
    stops.length ? table("Breakpoints", [["#", (b) => b.breakpoint ?? b.number ?? "–", true], ["stops", says], ["", (b) => h("button", { type: "button", class: "small", onclick: () => act({ do: "unbreak", breakpoint: b.breakpoint ?? b.number }) }, "remove")]], stops) : hint("No breakpoint is set."),
    values.length ? table("Values", [["value", (v) => h("button", { type: "button", class: "link", "data-keep": `value ${v.name}`, onclick: () => { for (const id of ["slice-of", "set-of"]) byId(id).value = v.name; lookAt(v.name); } }, v.name)], ["shape", (v) => shapeText(v.shape)], ["dtype", (v) => v.dtype ?? "–"]], values, { mark: (v) => (v.name === session.of ? "chosen" : null) }) : at.stopped ? hint("Nothing can be looked at here.") : null];
}
function drawLooked() {
  const of = session.looked;
  const known = ["elements", "nan", "inf", "least", "most", "mean", "std", "absmax", "zeros"];
  return [of ? [h("h3", {}, of.name), facts(known.filter((name) => name in of).map((name) => [name, shownNumber(of[name])])), histogram(of.histogram)] : null, session.slice ? sliceTable(session.slice) : null];
}
let forms = null;
function drawDebugger(body) {
  if (!forms) {
    const parts = debuggerForms();
    const at = (name) => h("div", { "data-part": name });
    forms = { stopped: at("stopped"), looked: at("looked"), log: h("div", { class: "console scroll", role: "log", tabindex: "0", "aria-label": "What was asked and answered" }) };
    body.replaceChildren(parts.buttons, h("div", { class: "split" }, h("div", {}, card("A breakpoint", parts.breakForm, hint("Before a step, or behind each op for which all that is given holds; layers and ops may have ", h("code", {}, "*"), ".")), forms.stopped),
      h("div", {}, card("Values", parts.sliceForm, parts.setForm, forms.looked))), card("Console", forms.log, parts.rawForm));
  }
  replace(forms.stopped, drawStopped());
  replace(forms.looked, drawLooked());
  const atEnd = forms.log.scrollTop + forms.log.clientHeight >= forms.log.scrollHeight - 8;
  forms.log.replaceChildren(...(session.log.length ? session.log.map(([kind, text]) => h("div", { class: kind }, h("b", {}, { asked: "›", answered: "‹", refused: "✕" }[kind]), " ", text)) : [h("div", { class: "quiet" }, "What is asked of the run, and what it answers, stands here.")]));
  if (atEnd) forms.log.scrollTop = forms.log.scrollHeight;
}
// A run that was stopped meanwhile is asked where.
let stoppedBefore = "";
function followStop() {
  const state = known.status.state ?? "";
  const now = `${state} ${state === "stopped" ? known.status.step : ""}`;
  if (now !== stoppedBefore && (state === "stopped" || stoppedBefore.startsWith("stopped"))) where();
  stoppedBefore = now;
}
