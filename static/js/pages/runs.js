// All load runs, newest first, page by page; filtered, sorted and picked in the URL; refreshed when a run begins or ends.

import { $, $$, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { get, query, remove } from "../api.js";
import { int, plural } from "../format.js";
import { failure, warnOf } from "../panels/failure.js";
import { ordered, policyOf, runsTable, SORTS, title } from "../panels/runs_table.js";
import { MOST } from "../panels/sides.js";
import { startShell } from "../shell.js";

const { loop } = startShell();
const PAGE = 50;
const SIFTED = 1000; // what filters and orders look through: as much as one answer holds
const NEWEST = "-started";
const FILTERS = { scenario: (run) => run.scenario || run.name, policy: policyOf, verdict: (run) => run.verdict };
const KNOWN = [...Object.keys(FILTERS), "sort", "picked"];
let runs = [];
let total = 0;
let before = null;
let lastStatus = null;

// ---- the URL

function asked() {
  const given = new URLSearchParams(location.search);
  const sort = given.get("sort") || NEWEST;
  const filters = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, given.get(name) || ""]));
  const picked = [...new Set((given.get("picked") || "").split(",").filter(Boolean))];
  const unknown = [...given.keys()].filter((name) => !KNOWN.includes(name));
  const lawful = SORTS.includes(sort.replace(/^-/, ""));
  return { filters, picked, sort: lawful ? sort : NEWEST, unknown: lawful ? unknown : [...unknown, `sort=${sort}`] };
}

function go(changes, kept = false) {
  const state = { ...asked(), ...changes };
  const sort = state.sort === NEWEST ? null : state.sort;
  const url = `/runs${query({ ...state.filters, sort, picked: state.picked.join(",") }).replaceAll("%2C", ",")}`;
  history[kept ? "replaceState" : "pushState"](null, "", url);
}

const sifts = ({ filters, sort }) => sort !== NEWEST || Object.values(filters).some(Boolean);

// ---- the list

async function load(more = false) {
  try {
    const size = sifts(asked()) ? SIFTED : PAGE;
    const page = await get(`/api/runs${query({ limit: size, before: more ? before : null })}`);
    runs = more ? [...runs, ...page.items] : page.items;
    before = page.next_before;
    total = page.total;
    draw();
  } catch (error) {
    replace($("#runs"), failure(error, load));
  }
}

function draw() {
  const { filters, picked, sort, unknown } = asked();
  const wanted = Object.entries(filters).filter(([, value]) => value);
  const shown = ordered(
    runs.filter((run) => wanted.every(([name, value]) => FILTERS[name](run) === value)),
    sort,
  );
  setText($("#total"), wanted.length ? `${int(shown.length)} of ${plural(runs.length, "run")}` : plural(total, "run"));
  const { key } = document.activeElement.dataset;
  replace($("#runs"), shown.length || !wanted.length ? listOf(shown, picked, sort) : nothing());
  const again = key && $(`#runs [data-key="${CSS.escape(key)}"]`);
  if (again) again.focus(); // the list was drawn anew under the reader's hands
  setHidden($("#older"), before === null);
  setText(
    $("#truncated"),
    before !== null && sifts(asked()) ? `among the newest ${int(runs.length)} of ${plural(total, "run")}` : "",
  );
  warnOf(unknown);
  drawFilters(filters);
  drawPicked(picked);
}

const listOf = (shown, picked, sort) =>
  runsTable(shown, {
    onDelete: forget,
    picked,
    onPick: pick,
    sort,
    onSort: (next) => {
      go({ sort: next });
      load();
    },
  });

function nothing() {
  const clear = () => {
    go({ filters: {} });
    load();
  };
  return el("p", { class: "empty" }, "No run is like that. ", el("button", { type: "button", onclick: clear }, "Show all"));
}

function drawFilters(filters) {
  for (const [name, value] of Object.entries(filters)) {
    const values = [...new Set([...runs.map(FILTERS[name]), value].filter(Boolean))].sort();
    const select = $(`#filter-${name}`);
    const key = JSON.stringify(values);
    if (select.dataset.key !== key) {
      select.dataset.key = key;
      replace(
        select,
        el("option", { value: "" }, "any"),
        ...values.map((each) => el("option", { value: each }, each.replaceAll("_", " "))),
      );
    }
    select.value = value;
  }
}

// ---- picking

function pick(run) {
  const { picked } = asked();
  go({ picked: picked.includes(run.id) ? picked.filter((id) => id !== run.id) : [...picked, run.id] }, true);
  draw();
}

function drawPicked(picked) {
  const ready = picked.length >= 2 && picked.length <= MOST;
  const link = $("#compare");
  const began = (id) => (runs.find((run) => run.id === id) || { created: "" }).created;
  const inTime = [...picked].sort((a, b) => (began(a) < began(b) ? -1 : 1));
  setAttr(link, "href", ready ? `/compare?runs=${inTime.map(encodeURIComponent).join(",")}` : null);
  setAttr(link, "aria-disabled", String(!ready));
  setText(link, picked.length ? `Compare ${int(picked.length)}` : "Compare");
  setText($("#picked"), pickedWords(picked.length));
  setHidden($("#unpick"), picked.length === 0);
}

function pickedWords(count) {
  if (count > MOST) return `at most ${MOST} at once: leave out ${int(count - MOST)}`;
  if (count === 0) return `pick 2 to ${MOST} runs`;
  return count === 1 ? "pick a second run" : "the oldest is the base";
}

/** A long run goes in slices, which take their time; the list stays as it is until the last of it is gone. */
async function forget(run) {
  if (!confirm(`Delete the run “${title(run)}” with its requests and report? This cannot be undone.`)) return;
  for (const button of $$("#runs button")) button.disabled = true;
  let failure = null;
  try {
    await remove(`/api/runs/${encodeURIComponent(run.id)}`);
    setText($("#announce"), `Deleted the run ${title(run)}.`);
    go({ picked: asked().picked.filter((id) => id !== run.id) }, true);
  } catch (error) {
    failure = error.message;
    setText($("#announce"), failure);
  }
  await load();
  if (failure) $("#runs").prepend(el("p", { class: "error", role: "alert" }, failure));
  const next = $("#runs button.danger") || $(".pagehead a");
  if (next) next.focus();
}

for (const name of Object.keys(FILTERS))
  $(`#filter-${name}`).addEventListener("change", (event) => {
    go({ filters: { ...asked().filters, [name]: event.target.value } });
    load();
  });
$("#unpick").addEventListener("click", () => {
  go({ picked: [] }, true);
  draw();
});
$("#older").addEventListener("click", () => load(true));
addEventListener("popstate", () => load());
loop.add(500, (state) => {
  const status = state.run === null ? null : `${state.run.id} ${state.run.status}`;
  if (status === lastStatus) return;
  lastStatus = status;
  if (runs.length <= PAGE || sifts(asked())) load();
});
load();
