// Tenants now: who holds which share of the running, who waits, and who has waited longest. counts() is pure: bars in, rows out.

import { $, el, setAttr, setHidden, setStyle, setText } from "../dom.js";
import { int, ms, NONE, percents } from "../format.js";

const SHOWN = 12;

/** Rows { tenant, running, waiting, preempted, longest: ms or null }, most running first, then most waiting. */
export function counts(bars, now) {
  const rows = new Map();
  for (const bar of bars) {
    if (bar.t1 !== null) continue;
    if (!rows.has(bar.tenant)) rows.set(bar.tenant, { tenant: bar.tenant, running: 0, waiting: 0, preempted: 0, longest: null });
    const row = rows.get(bar.tenant);
    if (bar.phase === "preempted") row.preempted += 1;
    else if (bar.phase === "queued") {
      row.waiting += 1;
      row.longest = Math.max(row.longest || 0, now - bar.t0);
    } else row.running += 1;
  }
  return [...rows.values()].sort((a, b) => b.running - a.running || b.waiting - a.waiting || (a.tenant < b.tenant ? -1 : 1));
}

export function drawTenants(state) {
  if (state.gauges === null) return;
  const card = $("#tenants");
  const rows = counts(state.bars.values(), state.gauges.now_ms);
  const shown = rows.slice(0, SHOWN);
  const body = $("tbody", card);
  while (body.rows.length > shown.length) body.deleteRow(-1);
  while (body.rows.length < shown.length) body.append(newRow());
  const running = rows.reduce((sum, row) => sum + row.running, 0);
  const said = percents(rows.map((row) => (running ? row.running / running : null)));
  shown.forEach((row, index) => fill(body.rows[index], row, said[index], state.gauges.max_num_seqs));
  setHidden($(".scroll", card), rows.length === 0);
  setHidden($(".empty", card), rows.length > 0);
  const more = rows.length > SHOWN ? ` · the first ${int(SHOWN)} of ${int(rows.length)}` : "";
  setText($(".note", card), `share of the running, and who waits${more}`);
}

function newRow() {
  const cell = (name, ...children) => el("td", { class: name }, ...children);
  const track = el("div", { class: "track" }, el("i"));
  return el("tr", {}, cell(null, el("a")), cell("share", track), cell("num"), cell("num"), cell("num"), cell("num"));
}

function fill(node, row, ofRunning, slots) {
  const [tenant, share, of, run, waiting, longest] = node.cells;
  const link = tenant.firstChild;
  setText(link, row.tenant);
  setAttr(link, "href", `/requests?${new URLSearchParams({ tenant: row.tenant })}`);
  setStyle($("i", share), "width", `${slots ? (100 * row.running) / slots : 0}%`);
  setText(of, ofRunning === NONE ? NONE : `${ofRunning} %`);
  setText(run, row.preempted ? `${int(row.running)} + ${int(row.preempted)} preempted` : int(row.running));
  setText(waiting, int(row.waiting));
  setText(longest, ms(row.longest));
}
