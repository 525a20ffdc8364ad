// In which zone wall-clock times are shown: the reader's own or UTC. A preference of the reader: kept in the browser, not in links.

import { $, setAttr, setText } from "./dom.js";
import { setUtc } from "./format.js";

const KEY = "zone";

function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be forbidden: local it is
  }
}

/** The button #zone. A page that shows no such time, or draws it anew itself, prevents the default of the event "zone". */
export function startZone() {
  const button = $("#zone");
  const show = (utc) => {
    setUtc(utc);
    setText(button, utc ? "UTC" : "Local");
    setAttr(button, "aria-pressed", String(utc));
  };
  let utc = kept() === "utc";
  show(utc);
  button.addEventListener("click", () => {
    utc = !utc;
    try {
      localStorage.setItem(KEY, utc ? "utc" : "local");
    } catch {
      // then it lasts as long as the page
    }
    show(utc);
    if (document.dispatchEvent(new CustomEvent("zone", { cancelable: true }))) location.reload();
  });
}
