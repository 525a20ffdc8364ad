// Boxes that scroll say so: an edge behind which there is more is shaded (base.css), and keys reach the box, by its card's name.
// Knows no page, and does nothing at rest: what was added and what changed its size is looked at, and what was scrolled.

import { $, $$, setAttr } from "./dom.js";

const BOXES = ".scroll, .astable, .top nav, main pre";
const sized = new ResizeObserver((entries) => {
  for (const box of new Set(entries.map(({ target }) => target.closest(BOXES)))) if (box && box.isConnected) look(box);
});

function look(box) {
  const [right, down] = [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight];
  const more = [
    box.scrollLeft > 1 && "left",
    box.scrollLeft < right - 1 && "right",
    box.scrollTop > 1 && "up",
    box.scrollTop < down - 1 && "down",
  ];
  const edges = more.filter(Boolean).join(" ");
  setAttr(box, "data-more", edges || null);
  if (box.matches("nav")) return; // its links take the keys
  const near = box.closest(".card, fieldset, dialog");
  const name = (near && $("h2, legend, summary", near)) || $("h1");
  setAttr(box, "tabindex", edges ? 0 : null);
  setAttr(box, "role", edges ? "region" : null);
  setAttr(box, "aria-label", edges ? `${name.textContent.trim()}: scrolls` : null);
}

function adopt(box) {
  for (const each of [box, ...box.children]) sized.observe(each);
}

/** From now on, for every box that is in the document or comes into it. */
export function watchScrolling() {
  $$(BOXES).forEach(adopt);
  new MutationObserver((records) => {
    for (const { target, addedNodes } of records)
      for (const node of addedNodes) {
        if (node.nodeType !== Node.ELEMENT_NODE) continue;
        if (node.matches(BOXES)) adopt(node);
        else if (target.matches(BOXES)) sized.observe(node);
        $$(BOXES, node).forEach(adopt);
      }
  }).observe(document.body, { childList: true, subtree: true });
  document.addEventListener("scroll", ({ target }) => target !== document && target.matches(BOXES) && look(target), { capture: true, passive: true });
}
