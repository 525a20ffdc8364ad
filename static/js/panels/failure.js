// What stands in place of what could not be had: the server's words, and a way to ask again. Knows no page.

import { el } from "../dom.js";

/** The words of `error` and a button that calls `again()`. */
export function failure(error, again) {
  const retry = el("button", { type: "button", onclick: again }, "Try again");
  return el("p", { class: "error", role: "alert" }, error.message, " ", retry);
}
