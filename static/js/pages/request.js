// One request: its lifecycle on a bar, where its time went, its steps and events. Asked again each second until it has ended.

import { $, drawLegend, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { onResize } from "../draw.js";
import { get, query } from "../api.js";
import { int, ms, plural, requestUrl, when } from "../format.js";
import { onKey } from "../keys.js";
import { eventsTable, facts, ledger, matesTable, SLICES_SHOWN, slicesTable } from "../panels/request_tables.js";
import { followSteps, openStep } from "../panels/step_card.js";
import { createTokenGaps } from "../panels/token_gaps.js";
import { outcomeTag } from "../panels/verdict.js";
import { placeWords, waitLedger } from "../panels/wait_ledger.js";
import { clientLane, waterfall } from "../panels/waterfall.js";
import { startShell } from "../shell.js";
import { onTheme } from "../theme.js";
import { REASONS, SHORT } from "../words.js";

startShell();
followSteps();
const gaps = createTokenGaps(openStep);
onTheme(gaps.again);
onResize(gaps.again);
const id = document.body.dataset.subject;
const path = `/api/requests/${encodeURIComponent(id)}`;
const AGAIN_MS = 1000;
setAttr($("#json"), "href", path);

/** Who came before and after it, its place on the timeline, its JSON. */
function around(request) {
  for (const [selector, neighbour] of [["#previous", request.previous], ["#next", request.next]]) {
    const link = $(selector);
    setAttr(link, "href", neighbour && requestUrl(neighbour));
    setAttr(link, "aria-disabled", neighbour ? null : "true");
  }
  setAttr($("#timeline"), "href", `/timeline${query({ run: request.run, sel: `req:${request.id}` })}`);
  setHidden($("#around"), false);
}

/** "queue 12 ms · first token 20 ms, at the client 24 ms (± 1 ms) · E2E 300 ms". */
function summary(request) {
  const lane = clientLane(request.client);
  const seen = request.client && lane ? `, seen by the client after ${ms(request.client.ttft_ms)} (${lane.words})` : "";
  return `queue ${ms(request.queue_ms)} · first token ${ms(request.ttft_ms)}${seen} · E2E ${ms(request.e2e_ms)}`;
}

function show(request) {
  const ended = request.state === "finished";
  const last = Math.max(
    0,
    ...request.events.map((event) => event.t_ms || 0),
    ...request.slices.t_ms.map((t, i) => t + request.slices.ms[i]),
  );
  const until = request.e2e_ms === null ? last : request.e2e_ms;
  const now = request.age_ms === null ? until : request.age_ms;
  replace($("#tags"), outcomeTag(request), el("small", {}, when(request.received)));
  setHidden($("#cancel"), ended);
  setText($("#summary"), summary(request));
  around(request);
  replace(
    $("#life .body"),
    request.events.length ? waterfall(request, ended ? until : now) : el("p", { class: "empty" }, "It never reached the queue."),
  );
  const seen = new Set(request.waited.map((one) => one.reason));
  const reasons = REASONS.filter((reason) => request.waits[reason] > 0 || seen.has(reason)).map((reason) => [
    `r-${reason}`,
    `waits: ${SHORT[reason]}`,
  ]);
  drawLegend($("#life .legend"), [
    ...reasons,
    ["prefill", "prefill"],
    ["decode", "decode"],
    ["line", "stalled"],
    ["preempted", "preempted"],
    ["fg", "first token", true],
  ]);
  setText($("#waited .note"), placeWords(request));
  const opened = $("#waited details");
  replace($("#waited .body"), ...waitLedger(request, now));
  if (opened && $("#waited details")) $("#waited details").open = opened.open;
  replace($("#ledger .body"), ...ledger(request));
  replace($("#facts .body"), ...facts(request));
  const slices = request.slices.step.length;
  const some = slices > SLICES_SHOWN ? `the first ${int(SLICES_SHOWN)} of ` : "";
  setText($("#slices .note"), `${some}${plural(slices, "slice")}`);
  replace($("#slices .body"), slices ? slicesTable(request.slices) : el("p", { class: "empty" }, "It ran in no step."));
  replace($("#events .body"), eventsTable(request.events));
  const mates = request.batch_mates;
  setText($("#mates .note"), mates.length ? `the ${int(mates.length)} that shared most` : "");
  const own = Math.max(1, new Set(request.slices.step).size);
  replace($("#mates .body"), mates.length ? matesTable(mates, own) : el("p", { class: "empty" }, "It shared no step."));
  setHidden($("#halves"), false);
  gaps.draw(request);
  if (!ended) setTimeout(load, AGAIN_MS);
}

async function load() {
  try {
    show(await get(path));
  } catch (error) {
    setHidden($("#halves"), true);
    const again = el("button", { type: "button", onclick: load }, "Try again");
    const way = error.status === 404 ? el("a", { href: "/requests" }, "All requests") : again;
    const none = "There is no such request in the records: it was never accepted, or it was removed with its run.";
    const absent = error.code === "request_purged" ? error.message : none;
    const [kind, words] = error.status === 404 ? ["empty", absent] : ["error", error.message];
    replace($("#life .body"), el("p", { class: kind }, words, " ", way));
  }
}

const go = (selector) => () => $(selector).hasAttribute("href") && $(selector).click();
onKey("[", "the request that arrived before it", go("#previous"));
onKey("]", "the request that arrived after it", go("#next"));
$("#copy").addEventListener("click", () =>
  navigator.clipboard.writeText(id).then(
    () => setText($("#copy"), "Copied"),
    () => getSelection().selectAllChildren($("#name")),
  ),
);
$("#cancel").addEventListener("click", async () => {
  const response = await fetch(path, { method: "DELETE" });
  if (!response.ok) setText($("#summary"), `could not be cancelled: HTTP ${response.status}`);
});
load();
