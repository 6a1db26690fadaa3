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

// A part that is loaded again waits while one of its messages is open, so that nobody's text disappears, and while
// nobody sees the page.
const follows = (part) => (part.getAttribute("hx-trigger") || "").startsWith("every");
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.detail.elt;
  if (follows(part) && (document.hidden || (part.id === "rows" && part.querySelector("details[open]")))) event.preventDefault();
});

// Refusals are shown where the answer would have been; that of a part that is loaded again above the page, once, until
// a load succeeds.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  const note = document.getElementById("note");
  if (xhr.status < 400) { if (follows(event.detail.requestConfig.elt)) note.replaceChildren(); return; }
  event.detail.isError = false;
  event.detail.shouldSwap = xhr.getResponseHeader("HX-Retarget") !== "#note" || note.innerHTML.trim() !== xhr.responseText.trim();
});
