// The SQL console: one SELECT, in the URL; what it gives, how long it took, and whether there is more.

import { $, el, replace, setAttr, setHidden, setText, table } from "../dom.js";
import { get, post, query } from "../api.js";
import { int, ms, NONE, plural } from "../format.js";
import { failure } from "../panels/failure.js";
import { startShell } from "../shell.js";

const FIRST = "SELECT tenant, count(*) AS requests, avg(ttft_ms) AS mean_ttft_ms\nFROM requests\nGROUP BY tenant";
const WHY = { rows: "the first 1,000 rows: there are more", size: "cut off at 4 MiB: there is more" };
let turns = 0;

startShell();

function cell(value) {
  if (value === null) return NONE;
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return Math.abs(value) < 1e9 ? int(value) : String(value);
  return el("span", { title: String(value) }, String(Number(value.toPrecision(6))));
}

function drawResult({ columns, rows, truncated, elapsed_ms }) {
  setText($("#took"), `${plural(rows.length, "row")} in ${ms(elapsed_ms)}${truncated ? ` · ${WHY[truncated]}` : ""}`);
  if (rows.length === 0) {
    replace($("#result"), el("p", { class: "empty" }, `No row. Columns: ${columns.join(", ")}.`));
    return;
  }
  const shown = columns.map((label, index) => ({
    label,
    num: rows.every((row) => row[index] === null || typeof row[index] === "number" || /^-?\d{16,19}$/.test(row[index])),
    cell: (row) => (label === "id" && typeof row[index] === "string" && row[index].startsWith("req_") ? el("a", { class: "mono", href: `/requests/${encodeURIComponent(row[index])}` }, row[index]) : cell(row[index])),
  }));
  replace($("#result"), table(shown, rows));
}

async function ask() {
  const turn = (turns += 1);
  const sql = $("#statement").value;
  setText($("#took"), "running…");
  setHidden($("#mistake"), true);
  setAttr($("#statement"), "aria-invalid", "false");
  try {
    const answer = await post("/api/sql", { sql });
    if (turn !== turns) return;
    drawResult(answer);
    $("#csv").disabled = false;
  } catch (error) {
    if (turn !== turns) return;
    setText($("#took"), "");
    setText($("#mistake p"), error.message);
    setHidden($("#mistake"), false);
    setAttr($("#statement"), "aria-invalid", "true");
    replace($("#result"), el("p", { class: "empty" }, "No answer: see above."));
    $("#csv").disabled = true;
  }
}

/** The same statement again, as a file. */
async function download() {
  const body = JSON.stringify({ sql: $("#statement").value, format: "csv" });
  const response = await fetch("/api/sql", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  if (!response.ok) {
    setText($("#took"), `CSV: ${response.status} ${response.statusText}`);
    return;
  }
  const href = URL.createObjectURL(await response.blob());
  el("a", { href, download: "batchscope.csv" }).click();
  URL.revokeObjectURL(href);
}

function fromUrl() {
  const given = new URLSearchParams(location.search).get("q");
  $("#statement").value = given ?? FIRST;
  if (given !== null) ask();
}

$("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = query({ q: $("#statement").value });
  if (text !== location.search) history.pushState(null, "", `${location.pathname}${text}`);
  ask();
});
$("#statement").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("#ask").requestSubmit();
});
$("#csv").addEventListener("click", download);
addEventListener("popstate", fromUrl);
fromUrl();
const listTables = () => get("/api/sql/schema")
  .then(({ tables, bounds }) => {
    setText($("#bounds"), `read only · ${bounds.seconds} s · ${int(bounds.rows)} rows · no texts of prompts`);
    const entries = Object.entries(tables);
    replace($("#schema .list"), ...entries.map(([name, columns]) => el("details", { open: name === "requests" }, el("summary", {}, el("code", {}, name)), el("p", { class: "names mono" }, columns.join(", ")))));
  })
  .catch((error) => replace($("#schema .list"), failure(error, listTables)));
listTables();
