"use strict";
// What is searched for stands in the address, so that a link shows the same rows.
const searches = [...document.querySelectorAll("input[type=search]")];
function show(text) {
  for (const input of searches) {
    if (input.value !== text) input.value = text;
    for (const row of input.closest("section").querySelectorAll("tbody tr")) row.hidden = !row.textContent.toLowerCase().includes(text.toLowerCase());
  }
}
for (const input of searches) input.addEventListener("input", () => {
  show(input.value);
  history.replaceState(null, "", input.value ? "#show=" + encodeURIComponent(input.value) : "#");
});
if (location.hash.startsWith("#show=")) {
  try { show(decodeURIComponent(location.hash.slice(6))); } catch { /* an address that is none */ }
}
// A column's head sorts by its times, or by its text.
for (const table of document.querySelectorAll("table")) {
  [...table.querySelectorAll("thead th")].forEach((head, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => row.children[k].dataset.ns ?? row.children[k].textContent;
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)], [p, q] = [parseFloat(x), parseFloat(y)];
        if (isNaN(p) !== isNaN(q)) return isNaN(p) ? 1 : -1;
        return (isNaN(p) ? x.localeCompare(y) : p - q) * (up ? 1 : -1);
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(order));
    });
  });
}
