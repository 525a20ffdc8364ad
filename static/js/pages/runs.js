// All load runs, newest first, page by page; refreshed when a run begins or ends.

import { $, $$, el, replace, setHidden, setText } from "../dom.js";
import { get, query, remove } from "../api.js";
import { plural } from "../format.js";
import { runsTable, title } from "../panels/runs_table.js";
import { startShell } from "../shell.js";

const { loop } = startShell();
const PAGE = 50;
let runs = [];
let before = null;
let lastStatus = null;

async function load(more) {
  try {
    const page = await get(`/api/runs${query({ limit: PAGE, before: more ? before : null })}`);
    runs = more ? [...runs, ...page.items] : page.items;
    before = page.next_before;
    setText($("#total"), plural(page.total, "run"));
    replace($("#runs"), runsTable(runs, forget));
    setHidden($("#older"), before === null);
  } catch (error) {
    replace($("#runs"), el("p", { class: "error" }, error.message));
  }
}

/** A long run goes in slices, which take their time; the list stays as it is until the last of it is gone. */
async function forget(run) {
  if (!confirm(`Delete the run “${title(run)}” with its requests and report? This cannot be undone.`)) return;
  for (const button of $$("#runs button")) button.disabled = true;
  try {
    await remove(`/api/runs/${encodeURIComponent(run.id)}`);
    setText($("#announce"), `Deleted the run ${title(run)}.`);
  } catch (error) {
    setText($("#announce"), error.message);
    $("#runs").before(el("p", { class: "error", role: "alert" }, error.message));
  }
  await load(false);
  const next = $("#runs button") || $(".pagehead a");
  if (next) next.focus();
}

$("#older").addEventListener("click", () => load(true));
loop.add(500, (state) => {
  const status = state.run === null ? null : `${state.run.id} ${state.run.status}`;
  if (status === lastStatus) return;
  lastStatus = status;
  if (runs.length <= PAGE) load(false);
});
load(false);
