// The page: its head, which panels are shown, and when each is drawn.

const PANELS = [
  { name: "trace", title: "Execution trace", draw: drawTrace, of: ["profiles", "status"] },
  { name: "costs", title: "FLOPs and memory", draw: drawCosts, of: ["profiles", "status"] },
  { name: "gradients", title: "Gradient flow", draw: drawGradients, of: ["metrics", "looks", "profiles"] },
  { name: "neurons", title: "Dead neurons", draw: drawNeurons, of: ["looks", "profiles"] },
  { name: "anomalies", title: "Anomalies", draw: drawAnomalies, of: ["incidents", "metrics", "documents", "stream"] },
  { name: "debugger", title: "Step debugging", draw: drawDebugger, of: ["status"] },
  { name: "resources", title: "Resources", draw: drawResources, of: ["timing", "documents"] },
  { name: "tensors", title: "Tensor flow", draw: drawTensors, of: ["looks", "incidents", "profiles"] },
];
const asksFor = (document.body.dataset.panels ?? "").split(" ").filter(Boolean);
let shown = new Set(asksFor.length ? asksFor : PANELS.map((panel) => panel.name));
const drawn = new Map();

function show(names) {
  shown = new Set(names);
  for (const panel of PANELS) byId(panel.name).hidden = !shown.has(panel.name);
  for (const button of byId("tabs").querySelectorAll("button")) {
    const of = button.dataset.panel;
    button.setAttribute("aria-pressed", String(of === "all" ? shown.size === PANELS.length : shown.size < PANELS.length && shown.has(of)));
  }
  draw();
}
function buildPanels() {
  byId("tabs").append(h("button", { type: "button", "data-panel": "all", "data-tip": "key 0", onclick: () => show(PANELS.map((panel) => panel.name)) }, "All"),
    ...PANELS.map((panel, k) => h("button", { type: "button", "data-panel": panel.name, "data-tip": `key ${k + 1}; with Ctrl one more`, onclick: (event) => {
      const more = (event.ctrlKey || event.metaKey) && shown.size < PANELS.length;
      show(more ? [...shown, panel.name] : [panel.name]);
      byId("panels").scrollIntoView({ block: "nearest" });
    } }, panel.title)));
  for (const panel of PANELS) byId("panels").append(h("section", { id: panel.name, class: "panel", "aria-labelledby": `${panel.name}-title` }, h("h2", { id: `${panel.name}-title` }, panel.title), h("div", { class: "body" })));
}
function draw() {
  followProfiles();
  drawHead();
  for (const panel of PANELS) {
    if (!shown.has(panel.name)) continue;
    const now = panel.of.map((of) => version[of]).join();
    if (drawn.get(panel.name) === now) continue;
    drawn.set(panel.name, now);
    const body = byId(panel.name).querySelector(".body");
    // What a damaged file says may be of any form: one panel that cannot show it is not the page's end.
    try {
      panel.draw(body);
    } catch (error) {
      replace(body, empty("This panel cannot show what the run's files say.", String(error)));
    }
  }
}

// Where the run is, and what it can be asked for.
const ended = () => known.documents["result.json"] && known.documents["result.json"] !== null;
function stateWord() {
  const { state } = known.status;
  if (!known.live) return ["no connection", "bad"];
  if (state && state !== "not running") return [state, state === "training" ? "good" : "warn"];
  if (ended()) return ["ended", "good"];
  return known.documents["failure.json"] ? ["failed", "bad"] : ["not running", "quiet"];
}
function tell(text, kind = "") {
  const said = byId("said");
  said.textContent = text;
  said.className = `said ${kind}`;
}
function sure(text) {
  byId("sure-text").textContent = text;
  const dialog = byId("sure");
  dialog.returnValue = "no";
  dialog.showModal();
  byId("sure-no").focus();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}
async function request(what, words, question) {
  if (question && !(await sure(question))) {
    tell("Nothing was asked for.");
    return;
  }
  tell(`${words}: asked; the run acts between two steps…`);
  const answer = await ask(what);
  if (!answer.ok) { tell(`${words}: ${answer.error}`, "bad-text"); return; }
  const more = answer.checkpoint ? `; checkpoint in ${answer.checkpoint}` : typeof answer.lr === "number" ? `; the rate is ${figure(answer.lr)} now` : answer.profile ? `; it comes to ${answer.profile}` : "";
  tell(`${words}: done after step ${answer.step}${more}.`, "good-text");
}
function buildActions() {
  const button = (id, title, act, tip) => h("button", { type: "button", id, onclick: act, "data-tip": tip }, title);
  byId("actions").append(button("do-profile", "Profile a step", () => request({ do: "profile" }, "Profile a step"), "records the run's next step; changes no bit of it"),
    button("do-checkpoint", "Checkpoint", () => request({ do: "checkpoint" }, "Checkpoint"), "a checkpoint of now, to the disk"),
    button("do-pause", "Pause", () => request({ do: known.status.state === "paused" ? "resume" : "pause" }, known.status.state === "paused" ? "Resume" : "Pause"), "no step until it is resumed"),
    button("do-rate", "Rate × 0.5", () => request({ do: "rate", factor: 0.5 }, "Rate × 0.5", "Halve the learning rate, and all of its schedule from here on? This changes the run, and cannot be taken back."), "asks first"),
    button("do-stop", "Stop after epoch", () => request({ do: "stop_after_epoch" }, "Stop after epoch", "End the run behind this epoch, as early stopping does? This cannot be taken back."), "asks first"));
}
let headDrawn = "";
function drawHead() {
  const [word, kind] = stateWord();
  const state = byId("state");
  state.textContent = word;
  state.className = `state ${kind}`;
  document.title = `${word} · ${document.body.dataset.run}`;
  const runs = known.live && known.status.state && known.status.state !== "not running";
  for (const button of byId("actions").querySelectorAll("button")) button.disabled = !runs;
  byId("do-pause").textContent = known.status.state === "paused" ? "Resume" : "Pause";
  const now = [version.metrics, version.timing, version.status, version.incidents].join();
  if (headDrawn === now) return;
  headDrawn = now;
  const [logged, judged, timing] = [steps(), epochs(), ofKind("timing", "step")];
  const last = logged.at(-1) ?? {};
  const valid = [...judged].reverse().find((line) => line.valid && typeof line.valid === "object");
  const test = ofKind("metrics", "test").at(-1);
  const scores = (of) => Object.entries(of ?? {}).filter(([name, v]) => typeof v === "number" && !["rows", "step", "epoch", "loss"].includes(name)).map(([name, v]) => `${name} ${figure(v)}`).join(", ");
  const step = Math.max(known.status.step ?? 0, last.step ?? 0, judged.at(-1)?.step ?? 0);
  const width = Math.min(room(330), 640);
  replace(byId("overview"), facts([["step", step, known.status.steps ? `of ${known.status.steps}` : ""], ["epoch", known.status.epoch ?? judged.at(-1)?.epoch ?? last.epoch ?? "–", known.status.stops_after_epoch ? "ends behind it" : ""],
    ["loss", figure(last.loss ?? judged.at(-1)?.loss), judged.length ? `epoch mean ${figure(judged.at(-1).loss)}` : ""], valid ? ["validation", figure(valid.valid.loss), scores(valid.valid)] : null, test ? ["test", figure(test.loss), scores(test)] : null,
    ["rate", figure(last.lr ?? judged.at(-1)?.lr)], ["gradient norm", figure(last.grad_norm)], ["rows in a second", figure(timing.at(-1)?.rows_per_second)], ["stability score", figure(last.stability_score), Number.isFinite(last.clipped) ? `${(100 * last.clipped).toFixed(0)} % clipped away` : ""], ["incidents", known.incidents.length]].filter(Boolean)),
    h("div", { class: "curves" }, [
      lineChart({ title: "Loss", y: "loss", height: 180, width, series: [{ name: "step", points: points(logged, (line) => line.loss) }, { name: "epoch mean", points: points(judged, (line) => line.loss) }, { name: "validation", points: points(judged.filter((line) => line.valid), (line) => line.valid.loss) }].filter((one) => one.points.length) }),
      lineChart({ title: "Learning rate", y: "rate", height: 180, width, series: [{ name: "rate", class: colour(3), points: points(logged, (line) => line.lr) }] }),
      lineChart({ title: "Gradient norm", y: "norm", height: 180, width, log: true, series: [{ name: "norm", class: colour(4), points: points(logged, (line) => line.grad_norm) }] }),
    ].map((chart) => chart && h("div", { class: "card" }, chart))));
  if (!logged.length && !judged.length) byId("overview").append(empty("The run has logged no step yet.", "Curves come with its first line."));
}

// Light or dark: as the system has it, until somebody says otherwise.
function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.closest("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "0") show(PANELS.map((panel) => panel.name));
  else if (event.key >= "1" && event.key <= String(PANELS.length)) byId("tabs").querySelector(`[data-panel="${PANELS[Number(event.key) - 1].name}"]`).click();
  else if (event.key === "t") turnTheme();
});

byId("name").textContent = document.body.dataset.run;
byId("theme").addEventListener("click", turnTheme);
buildPanels();
buildActions();
listeners.push(draw, followStop);
// Charts are drawn in pixels: in another window they are others.
let resized = 0;
let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    if (window.innerWidth !== lastWidth) changed("metrics", "looks", "timing", "incidents", "profiles");
    lastWidth = window.innerWidth;
  }, 200);
});
show(shown);
open();
