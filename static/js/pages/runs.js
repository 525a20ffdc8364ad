// All load runs, newest first, page by page; refreshed when a run begins or ends.

import { $, el, replace, setHidden, setText } from "../dom.js";
import { get, query } from "../api.js";
import { plural } from "../format.js";
import { runsTable } from "../panels/runs_table.js";
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
    replace($("#runs"), runsTable(runs));
    setHidden($("#older"), before === null);
  } catch (error) {
    replace($("#runs"), el("p", { class: "error" }, error.message));
  }
}

$("#older").addEventListener("click", () => load(true));
loop.add(500, (state) => {
  const status = state.run === null ? null : `${state.run.id} ${state.run.status}`;
  if (status === lastStatus) return;
  lastStatus = status;
  if (runs.length <= PAGE) load(false);
});
load(false);
