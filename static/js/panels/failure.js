// What stands in place of what could not be had: the server's words, and a way to ask again; what of a link is left out. Knows no page.

import { $, el, setHidden, setText } from "../dom.js";

/** The words of `error` and a button that calls `again()`. */
export function failure(error, again) {
  const retry = el("button", { type: "button", onclick: () => again() }, "Try again");
  return el("p", { class: "error", role: "alert" }, error.message, " ", retry);
}

/** The page's #warning names what its link asks for in vain. */
export function warnOf(names) {
  setHidden($("#warning"), names.length === 0);
  setText($("#warning"), `This page knows no ${names.join(", ")}; the rest of the link is applied.`);
}
