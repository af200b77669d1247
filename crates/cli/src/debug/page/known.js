// What the run has said: filled by the stream of events, which begins with all that is known whenever it is opened.

const TOKEN = new URLSearchParams(location.search).get("token") ?? "";
const FILES = ["metrics", "timing", "incidents", "profiles"];
// Lines that this page keeps of a file; where more come, every other one goes, as in the program.
const MOST_KEPT = 12000;

const known = { metrics: [], timing: [], incidents: [], profiles: [], documents: {}, status: {}, unread: 0, trouble: null, live: false, whole: false };
// How often each of these has changed: who draws looks only where something has.
const version = { metrics: 0, looks: 0, timing: 0, incidents: 0, profiles: 0, documents: 0, status: 0, stream: 0 };
const listeners = [];
let due = 0;
function changed(...what) {
  for (const of of what) version[of] += 1;
  if (!due) due = setTimeout(() => { due = 0; for (const listen of listeners) listen(); }, 250);
}
const ofKind = (file, kind) => known[file].filter((line) => line.kind === kind);
const steps = () => ofKind("metrics", "step").filter((line) => Number.isFinite(line.step));
const epochs = () => ofKind("metrics", "epoch");
// Lines that tell what layers and parameters were like.
const looks = () => ofKind("metrics", "layers");
const points = (lines, value) => lines.map((line) => [line.step, value(line)]);

// Every other line of the kinds that there are many of, and the last of all.
function halved(lines) {
  const many = new Map([...grouped(lines, (line) => String(line.kind))].map(([kind, of]) => [kind, of.length > MOST_KEPT / 8]));
  const seen = new Map();
  return lines.filter((line, at) => {
    const kind = String(line.kind);
    const k = (seen.get(kind) ?? 0) + 1;
    seen.set(kind, k);
    return at === lines.length - 1 || !many.get(kind) || k % 2 === 1;
  }).slice(-MOST_KEPT);
}
function take(file, lines) {
  for (const line of lines) if (line && typeof line === "object") known[file].push(line);
  if (known[file].length > MOST_KEPT) known[file] = halved(known[file]);
  changed(file);
  if (file === "metrics" && lines.some((line) => line?.kind === "layers")) changed("looks");
}
function open() {
  const stream = new EventSource(`/api/events?token=${encodeURIComponent(TOKEN)}`);
  const on = (name, act) => stream.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on("begin", () => {
    for (const file of FILES) known[file] = [];
    Object.assign(known, { documents: {}, live: true, whole: false });
    changed(...FILES, "looks", "documents", "stream");
  });
  for (const file of FILES) on(file, (lines) => take(file, lines));
  on("status", (status) => { known.status = status ?? {}; changed("status"); });
  on("document", ({ name, value }) => { known.documents[name] = value; changed("documents"); });
  on("whole", ({ unread, trouble }) => { Object.assign(known, { unread, trouble, whole: true }); changed("stream", ...FILES); });
  stream.onerror = () => {
    known.live = false;
    changed("stream");
    // A browser gives up where it was refused; one that ended is there again only when its page is loaded anew.
    if (stream.readyState === EventSource.CLOSED) setTimeout(open, 2000);
  };
}
async function fetched(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { Authorization: `Bearer ${TOKEN}` }, cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}
// Asks the run; what is answered, or why it was not, as the protocol says it.
async function ask(request) {
  try {
    return await fetched("/api/control", { method: "POST", body: JSON.stringify(request) });
  } catch (error) {
    return { ok: false, error: `the page's program does not answer: ${error.message}` };
  }
}
