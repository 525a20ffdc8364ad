// The lifecycle of a request on one axis: waits by reason, prefill, stalled, decode, preempted; below it what its client saw. Pure:
// a request's JSON in, spans out (spans() and clientLane() run in node for their test); waterfall() makes nodes of them.

import { blockersWords, merged } from "../blocked.js";
import { el } from "../dom.js";
import { int, ms, plural } from "../format.js";
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
  events.forEach((event, index) => {
    if (event.t_ms === null) return;
    if (event.kind === "RequestQueued") open = (from, to) => waits(request, event.sequence, from, to);
    else if (event.kind === "RequestScheduled") {
      close(event.t_ms);
      open = (from, to) => serving(request, from, to);
    } else if (event.kind === "RequestPreempted") {
      close(event.t_ms);
      const label = lostWords(event, events.slice(index + 1));
      open = (from, to) => [{ from, to, kind: "preempted", label }];
    } else if (event.kind === "RequestFinished") {
      close(event.t_ms);
      open = null;
    }
  });
  close(Math.max(at, until));
  return found;
}

/** "preempted: 17 computed tokens lost, 8 of them found again in the cache": the others are recomputed. */
export function lostWords(event, later) {
  const lost = event.data && event.data.computed_tokens_lost;
  if (lost === undefined || lost === null) return "preempted";
  const again = later.find((each) => each.kind === "RequestScheduled");
  if (again === undefined) return `preempted: ${plural(lost, "computed token")} lost`;
  const cached = Math.min(lost, again.data.cached_tokens);
  const words = `${int(cached)} found again in the cache, ${int(lost - cached)} recomputed`;
  return `preempted: ${plural(lost, "computed token")} lost, ${words}`;
}

/** The queue by reason: its stretches in their order; of one whose steps are not in the records, the sums in a fixed order. */
function waits(request, sequence, from, to) {
  const own = (request.waited || []).filter((one) => one.sequence === sequence);
  if (own.length > 0) return stretches(own, from, to);
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

/** Merged ones within [from, to]; what lies before the first is its way here, or a life of the engine that ended. */
function stretches(own, from, to) {
  const found = merged(own, to)
    .map((one) => ({ ...one, from: Math.max(from, one.from_ms), to: Math.min(to, one.to_ms) }))
    .filter((one) => one.to > one.from)
    .map((one) => ({ from: one.from, to: one.to, kind: `r-${one.reason}`, label: waitLabel(one) }));
  const first = found.length ? found[0].from : to;
  return first > from ? [{ from, to: first, kind: "queued", label: "on its way to the queue" }, ...found] : found;
}

function waitLabel(one) {
  const words = blockersWords(one.longest);
  return `waited for ${SHORT[one.reason]}${words ? ` (${words})` : ""}`;
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

function lane(list, axis, marks) {
  const node = el("div", { class: "lane" });
  for (const span of list) {
    const bar = el("i", {
      class: span.kind.startsWith("r-") ? "wait" : span.kind,
      title: `${span.label}: ${ms(span.to - span.from)}, from ${ms(span.from)}`,
    });
    bar.style.setProperty("left", `${axis.share(span.from)}%`);
    bar.style.setProperty("width", `${axis.share(span.to) - axis.share(span.from)}%`);
    if (!["decode", "stalled", "preempted"].includes(span.kind)) bar.style.setProperty("background", `var(--${span.kind})`);
    node.append(bar);
  }
  for (const mark of marks) {
    const line = el("i", { class: "mark", title: `${mark.label} at ${ms(mark.at)}` });
    line.style.setProperty("left", `calc(${axis.share(mark.at)}% - 1px)`);
    node.append(line);
  }
  return node;
}

/** What the client saw, on our clock where the two can be compared, else aligned at sending: { words, spans, marks } or null. */
export function clientLane(client) {
  if (!client || client.sent_ms === null || client.first_ms === null) return null;
  const one = client.clock;
  const at = one || { due_ms: null, sent_ms: 0, first_ms: client.ttft_ms, last_ms: client.e2e_ms };
  const found = [{ from: at.sent_ms, to: at.first_ms, kind: "queued", label: "the client waits for the first token" }];
  if (at.due_ms !== null && at.due_ms < at.sent_ms)
    found.unshift({ from: at.due_ms, to: at.sent_ms, kind: "stalled", label: "due, but not sent yet" });
  if (at.last_ms !== null && at.last_ms > at.first_ms)
    found.push({ from: at.first_ms, to: at.last_ms, kind: "decode", label: "tokens arrive at the client" });
  const marks = [
    ["sent", at.sent_ms],
    ["first token seen", at.first_ms],
    ["last token seen", at.last_ms],
  ];
  return {
    words: one ? `on our clock, ± ${ms(one.error_ms)}` : "aligned at sending: the two clocks cannot be compared",
    spans: found,
    marks: marks.filter(([, instant]) => instant !== null).map(([label, instant]) => ({ label, at: instant })),
  };
}

/** Lanes for each sequence and for the client, over one axis of ms since we received it. */
export function waterfall(request, until) {
  const seen = clientLane(request.client);
  const all = seen ? [...seen.spans.flatMap(({ from, to }) => [from, to]), 0, until] : [0, until];
  const [start, end] = [Math.min(...all), Math.max(...all, 0.001)];
  const axis = { share: (at) => (100 * (at - start)) / (end - start) };
  const names = [...new Set(request.events.map((event) => event.sequence || request.id))];
  const rows = names.slice(0, 32).flatMap((name) => {
    const events = request.events.filter((event) => (event.sequence || request.id) === name);
    const marks = events
      .filter((event) => event.kind === "FirstToken")
      .map((event) => ({ at: event.t_ms, label: "first token" }));
    return [
      el("span", {}, names.length > 1 ? `/${name.split("/")[1] || 0}` : "server"),
      lane(spans(request, events, until), axis, marks),
    ];
  });
  if (seen) rows.push(el("span", { title: seen.words }, "client"), lane(seen.spans, axis, seen.marks));
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const tick = el("span", {}, ms(start + share * (end - start)));
    tick.style.setProperty("left", `${100 * share}%`);
    return tick;
  });
  return el("div", { class: "fall" }, ...rows, el("span"), el("div", { class: "axis" }, ...ticks));
}
