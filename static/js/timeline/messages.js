// What stands in place of the drawing (loading, empty, elsewhere, failed), and the picker of runs.

import { query } from "../api.js";
import { $, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { when } from "../format.js";

/** A sentence, and what can be done; nothing: the drawing itself. */
function showMessage(...children) {
  const box = $("#message");
  setHidden(box, children.length === 0);
  setHidden($("#drawing"), children.length > 0);
  if (children.length) replace(box, ...children);
}

export function fillPicker(runs, chosen, live) {
  const name = (run) =>
    `${run.name || run.scenario || run.id} · ${run.simulated ? "simulated" : when(run.started || run.created)} · ${run.status}`;
  const options = runs.map((run) => el("option", { value: run.id, title: run.id }, name(run)));
  replace($("#run"), ...options, el("option", { value: live }, "the engine, last minute"));
  $("#run").value = chosen;
  setAttr($("#export"), "href", chosen === live ? null : `/api/export/trace.json${query({ run: chosen })}`);
  setHidden($("#export"), chosen === live);
}

export const showDrawing = () => showMessage();
export const showLoading = () => showMessage(el("p", { class: "empty" }, "Loading…"));

export function showFailure(error, again) {
  setText($("#window"), "Not loaded");
  showMessage(el("p", { class: "error" }, error.message), el("button", { type: "button", onclick: again }, "Try again"));
}

export function showNothing(run) {
  setText($("#window"), "Nothing to draw");
  const text = run ? "No step and no request of this run is on record. " : "Nothing ran in the engine's last minute. ";
  showMessage(el("p", { class: "empty" }, text, el("a", { href: "/load" }, "Start a scenario"), "."));
}

/** The link asks for seconds of which there is nothing. */
export function showElsewhere([from, to], view, jump) {
  setText($("#window"), "Nothing here");
  const there = `data exists from ${view.first.toFixed(1)} s to ${view.last.toFixed(1)} s`;
  showMessage(
    el("p", { class: "empty" }, `No steps between ${from} s and ${to} s; ${there}.`),
    el("button", { type: "button", onclick: jump }, "Show it"),
  );
}
