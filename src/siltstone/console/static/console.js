// What htmx does not do: copying, keys, and rows that stay open while a page follows a topic.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Cannot copy";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// Keys: "/" goes to the filter of the page; g, then a letter, goes to a page. Both only outside of fields.
const pages = { o: "/", t: "/topics", s: "/sql", g: "/groups", b: "/objects", m: "/maintenance", c: "/cluster" };
let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (isGoing && pages[event.key]) location.assign(pages[event.key]);
  isGoing = event.key === "g" && !isGoing;
  const field = event.key === "/" && document.querySelector("[data-key='/']");
  if (field) { event.preventDefault(); field.focus(); }
});

// A part that is loaded again waits while one of its messages is open, so that nobody's text disappears.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt.id === "rows" && event.detail.elt.querySelector("details[open]")) event.preventDefault();
});

// Refusals are shown where the answer would have been.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400) { event.detail.shouldSwap = true; event.detail.isError = false; }
});
