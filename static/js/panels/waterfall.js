// The lifecycle of a request on one bar: waits by reason, prefill, stalled, decode, preempted. Pure: a request's JSON in, spans out
// (spans() runs in node for its test); waterfall() makes nodes of them.

import { el } from "../dom.js";
import { ms } from "../format.js";
import { REASONS, SHORT } from "../words.js";

/** Spans [{ from, to, kind, label }] of one sequence, ms since received; `until` ends what is still open. */
export function spans(request, events, until) {
  const found = [];
  let at = 0;
  let open = null;
  const close = (to) => {
    if (open !== null && to > at) found.push(...open(at, to));
    at = to;
  };
  for (const event of events) {
    if (event.t_ms === null) continue;
    if (event.kind === "RequestQueued") open = (from, to) => waits(request, from, to);
    else if (event.kind === "RequestScheduled") {
      close(event.t_ms);
      open = (from, to) => serving(request, from, to);
    } else if (event.kind === "RequestPreempted") {
      close(event.t_ms);
      open = (from, to) => [{ from, to, kind: "preempted", label: "preempted" }];
    } else if (event.kind === "RequestFinished") {
      close(event.t_ms);
      open = null;
    }
  }
  close(Math.max(at, until));
  return found;
}

/** The queue by reason: how long each is exact, in which order they came is not recorded; drawn in a fixed one. */
function waits(request, from, to) {
  const parts = REASONS.filter((reason) => request.waits[reason] > 0).map((reason) => [reason, request.waits[reason]]);
  const total = parts.reduce((sum, [, length]) => sum + length, 0);
  if (total === 0 || request.sequences > 1) return [{ from, to, kind: "queued", label: "queued" }];
  let at = from;
  return parts.map(([reason, length]) => {
    const start = at;
    at = Math.min(to, start + length);
    return { from: start, to: at, kind: `r-${reason}`, label: `waited for ${SHORT[reason]}` };
  });
}

/** Between an admission and what ends it: its prefill slices, the gaps between them (stalled), then decode. */
function serving(request, from, to) {
  const slices = request.slices;
  const found = [];
  let at = from;
  if (request.sequences > 1) return [{ from, to, kind: "decode", label: "running" }];
  for (let i = 0; i < slices.step.length; i += 1) {
    const start = slices.t_ms[i],
      end = start + slices.ms[i];
    if (slices.kind[i] !== "prefill" || end <= from || start >= to) continue;
    if (start > at + 0.001) found.push({ from: at, to: start, kind: "stalled", label: "running, given no tokens" });
    found.push({
      from: Math.max(from, start),
      to: Math.min(to, end),
      kind: "prefill",
      label: `prefill of ${slices.tokens[i]} tokens`,
    });
    at = Math.min(to, end);
    if (slices.emitted[i]) break;
  }
  if (to > at)
    found.push({
      from: at,
      to,
      kind: slices.step.length ? "decode" : "prefill",
      label: slices.step.length ? "decode" : "running",
    });
  return found;
}

function lane(list, scale, marks) {
  const node = el("div", { class: "lane" });
  for (const span of list) {
    const bar = el("i", {
      class: span.kind.startsWith("r-") ? "wait" : span.kind,
      title: `${span.label}: ${ms(span.to - span.from)}, from ${ms(span.from)}`,
    });
    bar.style.setProperty("left", `${100 * span.from * scale}%`);
    bar.style.setProperty("width", `${100 * (span.to - span.from) * scale}%`);
    if (!["decode", "stalled", "preempted"].includes(span.kind)) bar.style.setProperty("background", `var(--${span.kind})`);
    node.append(bar);
  }
  for (const mark of marks) {
    const line = el("i", { class: "mark", title: `${mark.label} at ${ms(mark.at)}` });
    line.style.setProperty("left", `calc(${100 * mark.at * scale}% - 1px)`);
    node.append(line);
  }
  return node;
}

/** Lanes for each sequence and for the client, over one axis. */
export function waterfall(request, until) {
  const client = request.client;
  const end = Math.max(until, client && client.e2e_ms ? client.e2e_ms : 0, 0.001);
  const names = [...new Set(request.events.map((event) => event.sequence || request.id))];
  const rows = names.slice(0, 32).flatMap((name) => {
    const events = request.events.filter((event) => (event.sequence || request.id) === name);
    const marks = events
      .filter((event) => event.kind === "FirstToken")
      .map((event) => ({ at: event.t_ms, label: "first token" }));
    return [
      el("span", {}, names.length > 1 ? `/${name.split("/")[1] || 0}` : "server"),
      lane(spans(request, events, until), 1 / end, marks),
    ];
  });
  if (client && client.ttft_ms !== null) {
    const seen = [
      { from: 0, to: client.ttft_ms, kind: "queued", label: "client waits for the first token" },
      { from: client.ttft_ms, to: client.e2e_ms, kind: "decode", label: "tokens arrive at the client" },
    ];
    rows.push(el("span", { title: "aligned at sending: the two clocks are not compared" }, "client"), lane(seen, 1 / end, []));
  }
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const tick = el("span", {}, ms(share * end));
    tick.style.setProperty("left", `${100 * share}%`);
    return tick;
  });
  return el("div", { class: "fall" }, ...rows, el("span"), el("div", { class: "axis" }, ...ticks));
}
