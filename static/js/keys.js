// Keys of a page, and the dialog that lists them. A key does nothing while somebody types, or with Ctrl, Alt or Meta held.

import { $, $$, el } from "./dom.js";

const keys = new Map();

/** `key` calls `act` from now on; `words` say so in the dialog. The last to name a key has it. */
export function onKey(key, words, act) {
  keys.set(key, { words, act });
}

function typing(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const found = keys.get(event.key);
  if (found === undefined || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  found.act();
}

function search() {
  const field = $("[data-search], input[type=search]");
  if (field) field.focus();
  else location.href = "/requests";
}

function dialog() {
  const rows = (list) => list.flatMap(([key, { words }]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, words)]);
  const links = $$(".top nav a");
  const pages = [[`1–${links.length}`, { words: links.map((link) => link.textContent.trim()).join(", ") }]];
  const close = el("form", { method: "dialog" }, el("button", { class: "quiet" }, "Close"));
  const node = el(
    "dialog",
    { id: "keys", "aria-label": "Keys" },
    el("div", { class: "cardhead" }, el("h2", {}, "Keys"), el("span", { class: "end" }, close)),
    el("dl", { class: "step" }, ...rows(pages), ...rows([...keys]), ...rows([["Esc", { words: "close a dialog, leave a field" }]])),
  );
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
}

/** The keys of every page, and the button #help. */
export function startKeys() {
  onKey("/", "search the records", search);
  onKey("?", "these keys", dialog);
  $("#help").addEventListener("click", dialog);
  addEventListener("keydown", (event) => {
    const link = /^[1-9]$/.test(event.key) && $$(".top nav a")[Number(event.key) - 1];
    if (link && !typing(event.target) && !event.ctrlKey && !event.altKey && !event.metaKey) link.click();
    else pressed(event);
  });
}
