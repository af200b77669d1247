"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", "Use " + button.textContent.toLowerCase() + " colours"); };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();

  const data = JSON.parse(document.getElementById("data").textContent);
  const svgNS = "http://www.w3.org/2000/svg";
  const text = v => {
    const a = Math.abs(v);
    return a !== 0 && (a < 1e-3 || a >= 1e6) ? v.toExponential(2) : String(+v.toPrecision(4));
  };
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    const plot = data[figure.dataset.plot];
    const svg = figure.querySelector("svg"), out = figure.querySelector("output");
    // Every x that a series has a point at, in order: the places a reader can go to.
    const places = [...new Set(plot.series.flatMap(s => s.x))].sort((a, b) => a - b);
    const at = ([low, high, from, to], v, log) => {
      const f = log ? Math.log : (t => t);
      const part = (f(v) - f(low)) / (f(high) - f(low));
      return from + (isFinite(part) ? part : 0) * (to - from);
    };
    const group = document.createElementNS(svgNS, "g");
    group.setAttribute("class", "reading");
    svg.append(group);
    const shape = (name, attributes) => {
      const e = document.createElementNS(svgNS, name);
      for (const k in attributes) e.setAttribute(k, attributes[k]);
      group.append(e);
    };
    const nearest = (list, v) => {
      let lo = 0, hi = list.length - 1;
      while (hi - lo > 1) { const m = (lo + hi) >> 1; if (list[m] < v) lo = m; else hi = m; }
      return Math.abs(list[lo] - v) <= Math.abs(list[hi] - v) ? lo : hi;
    };
    let place = -1;
    const show = k => {
      place = k;
      group.replaceChildren();
      out.replaceChildren();
      if (k < 0) return;
      const x = places[k], px = at(plot.x, x, false);
      shape("path", { class: "cursor", d: `M${px} ${plot.y[3]}V${plot.y[2]}` });
      const add = (s, cls) => { const e = document.createElement("span"); e.textContent = s; if (cls) e.className = cls; out.append(e); };
      add(plot.label + " " + x);
      for (const s of plot.series) {
        const i = nearest(s.x, x);
        shape("circle", { class: "dot series-" + s.colour, cx: at(plot.x, s.x[i], false), cy: at(plot.y, s.y[i], plot.log), r: 4 });
        add(s.name + " " + text(s.y[i]) + (s.x[i] === x ? "" : " at " + s.x[i]), "swatch series-" + s.colour);
      }
    };
    svg.addEventListener("pointermove", e => {
      const box = svg.getBoundingClientRect();
      const u = (e.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const [low, high, from, to] = plot.x;
      show(nearest(places, low + (u - from) / (to - from) * (high - low)));
    });
    svg.addEventListener("pointerleave", () => { if (document.activeElement !== figure) show(-1); });
    figure.addEventListener("blur", () => show(-1));
    figure.addEventListener("keydown", e => {
      const last = places.length - 1, page = Math.max(1, Math.round(last / 10));
      const move = { ArrowRight: 1, ArrowLeft: -1, PageUp: page, PageDown: -page };
      let to;
      if (e.key in move) to = place < 0 ? (move[e.key] > 0 ? 0 : last) : place + move[e.key];
      else if (e.key === "Home") to = 0;
      else if (e.key === "End") to = last;
      else if (e.key === "Escape") { show(-1); return; }
      else return;
      e.preventDefault();
      show(Math.max(0, Math.min(last, to)));
    });
  }
})();
