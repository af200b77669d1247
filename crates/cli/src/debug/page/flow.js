// What went wrong with a run, and what it takes of the machine.

const asked = { doctor: null, waits: false };
async function askDoctor() {
  asked.waits = true;
  changed("incidents");
  try {
    asked.doctor = await fetched("/api/doctor");
  } catch (error) {
    asked.doctor = { ok: false, error: error.message };
  }
  asked.waits = false;
  changed("incidents");
}
const opText = (op) => (op && typeof op === "object" ? `${op.called ?? op.op ?? "?"} in ${named(op.layer)} (${op.phase ?? "?"})` : "–");
// From where a bad number came from to where it was noticed.
function chainOf(origin) {
  const between = list(origin.chain);
  const links = [];
  if (origin.op) links.push(["root", opText(origin.op), origin.op.file ? `${origin.op.file}:${origin.op.line}` : ""]);
  for (const op of between) if (opText(op) !== links.at(-1)?.[1]) links.push(["then", opText(op), op.file ? `${op.file}:${op.line}` : ""]);
  links.push(["noticed", origin.place ? String(origin.place) : "in the step's numbers", ""]);
  return h("ol", { class: "chain" }, links.map(([what, text, line]) => h("li", { class: what }, h("span", { class: "quiet" }, what), " ", h("strong", {}, text), line ? h("span", { class: "quiet" }, ` ${line}`) : null)));
}
function incidentCard(incident) {
  const origin = incident.origin && typeof incident.origin === "object" ? incident.origin : null;
  const records = list(incident.records);
  const bad = records.filter((record) => record.finite === false);
  return card(`Step ${incident.step ?? "?"}, epoch ${incident.epoch ?? "?"}: ${origin?.kind ?? "not finite"}`,
    facts([["phase", named(origin?.phase)], ["handled by", named(incident.handling)], ["at", Array.isArray(origin?.at) ? `[${origin.at.join(", ")}]` : "–"], ["growth", figure(origin?.growth)], ["records", `${records.length}`, bad.length ? `${bad.length} of them not finite` : "all finite"]]),
    origin ? chainOf(origin) : hint("Run op by op, the step had no such number."),
    list(origin?.inputs).length ? table(`Inputs of step ${incident.step}`, [["input", (x) => x.number], ["elements", (x) => figure(x.elements), true], ["not finite", (x) => figure(x.non_finite), true], ["least", (x) => figure(x.least), true], ["most", (x) => figure(x.most), true]], list(origin.inputs).map((x, k) => ({ ...x, number: k }))) : null,
    bad.length ? table(`Records of step ${incident.step}`, [["file", (r) => r.file], ["record", (r) => r.index, true]], bad, { limit: 20 }) : null,
    h("details", {}, h("summary", {}, "the line as it was written"), h("pre", {}, JSON.stringify(incident, null, 1))));
}
function diagnosisCard() {
  const button = h("button", { type: "button", "data-keep": "doctor", disabled: asked.waits, onclick: askDoctor }, asked.waits ? "The doctor looks…" : "Ask the doctor");
  const told = asked.doctor;
  if (!told) return card("Diagnosis", h("p", {}, "What is wrong, in which layer, from which step on, and what ends it: by all that stands in the folder."), button);
  if (!told.ok) return card("Diagnosis", h("p", { class: "bad-text" }, told.error), button);
  const found = list(told.diagnosis.findings);
  return card("Diagnosis", found.length === 0 ? h("p", { class: "good-text" }, `Nothing is wrong that ${told.diagnosis.looks} looks at layers would show.`) : null,
    h("ol", { class: "findings" }, found.map((finding, k) => h("li", { class: k === 0 ? "root" : null }, h("strong", {}, `${k === 0 ? "Cause" : "Beside"}: ${finding.title}${finding.layer ? `, layer ${finding.layer}` : ""}`), ` from step ${finding.step} on`,
      h("p", {}, finding.evidence), h("p", {}, h("span", { class: "quiet" }, "Remedy: "), finding.remedy), list(finding.set).length || Array.isArray(finding.set) && finding.set.length ? h("pre", {}, finding.set.map((set) => `--set '${set}'`).join(" ")) : null))),
    (told.diagnosis.notes ?? []).map((note) => hint(note)), button);
}
function drawAnomalies(body) {
  const bad = steps().at(-1)?.bad_steps;
  const failure = known.documents["failure.json"]?.error;
  const told = known.metrics.filter((line) => ["restore", "fallback", "gap"].includes(line.kind));
  const totals = points(steps(), (line) => line.bad_steps?.all ?? 0);
  replace(body, failure ? h("div", { class: "alarm" }, h("strong", {}, `The run failed${known.documents["failure.json"].step ? ` in step ${known.documents["failure.json"].step}` : ""}: ${failure.kind ?? ""}`), h("p", {}, failure.message ?? "")) : null,
    facts([["incidents", known.incidents.length, "steps that were taken apart"], ["bad steps", bad ? figure(bad.all) : "0", bad ? `${bad.nan} NaN, ${bad.inf} infinite, ${bad.overflow} too large, ${bad.explosion} exploded` : "of those that were logged"],
      ["unreadable lines", figure(known.unread), known.trouble ?? "in the run's files"]]),
    diagnosisCard(), [...known.incidents].reverse().slice(0, 20).map(incidentCard),
    known.incidents.length ? null : empty("No incident.", "A step with numbers that are not finite is taken apart here: the op that made the first one, and how it came to where it was noticed."),
    totals.some(([, v]) => v > 0) ? card("", lineChart({ title: "Bad steps so far", y: "steps", stairs: true, series: [{ name: "all", points: totals }] })) : null,
    told.length ? card("What was done about it", table("What was done", [["step", (l) => l.step, true], ["what", (l) => l.kind], ["detail", (l) => (l.kind === "fallback" ? `${l.layer} runs in f32` : l.kind === "restore" ? `back to step ${l.to}, rate ${figure(l.lr)}` : "lines before this one are lost")]], told)) : null);
}

function drawResources(body) {
  const lines = ofKind("timing", "step");
  if (!known.timing.length) {
    replace(body, empty("The run has told nothing of the machine yet.", "Lines of timing.jsonl come with each logged step."));
    return;
  }
  const last = lines.at(-1) ?? {};
  const memory = points(known.timing.filter((line) => typeof line.rss_bytes === "number"), (line) => line.rss_bytes / 1048576);
  const paused = sum(ofKind("timing", "pause").map((line) => line.paused_seconds ?? 0));
  const events = known.timing.filter((line) => !["step", "epoch"].includes(line.kind));
  const detail = (line) => ({ checkpoint: "a checkpoint", resume: "went on from a checkpoint", pause: `paused for ${figure(line.paused_seconds)} s`, op_by_op: `steps run op by op: ${line.reason}` })[line.kind] ?? JSON.stringify(line);
  const opByOp = ofKind("timing", "op_by_op").at(-1);
  const environment = known.documents["environment.json"];
  replace(body, facts([["rows in a second", figure(last.rows_per_second), `at step ${last.step ?? "–"}`], ["loader wait", milli((last.loader_wait_seconds ?? NaN) * 1000), "since the line before"], ["memory", bytes(last.rss_bytes), "resident, of the process"],
    ["last checkpoint", ofKind("timing", "checkpoint").at(-1)?.step ?? "none", "step"], ["paused", `${figure(paused)} s`, `${ofKind("timing", "pause").length} times`], ["steps", opByOp ? "op by op" : "captured", opByOp ? opByOp.reason : "replayed as one function, where the device can"]]),
    cards(card("", lineChart({ title: "Rows in a second", y: "rows/s", series: [{ name: "rows/s", points: points(lines, (line) => line.rows_per_second) }] })),
      card("", lineChart({ title: "Wait for the loader, between two logged steps", y: "ms", series: [{ name: "wait", class: colour(1), points: points(lines, (line) => line.loader_wait_seconds * 1000) }] })),
      card("", lineChart({ title: "Memory of the process", y: "MiB", series: [{ name: "resident", class: colour(2), points: memory }] }))),
    card("What happened", events.length ? table("What happened", [["step", (l) => l.step ?? "–", true], ["after", (l) => (typeof l.seconds === "number" ? `${figure(l.seconds)} s` : "–"), true], ["what", (l) => l.kind], ["detail", detail]], [...events].reverse()) : hint("No checkpoint, pause or capture was told yet.")),
    environment && typeof environment === "object" ? h("details", { class: "card" }, h("summary", {}, "The machine, as environment.json tells it"), h("pre", {}, JSON.stringify(environment, null, 1))) : null);
}
