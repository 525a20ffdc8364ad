// What the page draws: the bars and steps of a run, or of the engine's newest minute. Reads /api/segments, /api/steps, /api/runs.
// Whole where it is small enough; of a longer run the bars of the window in view, and no more than 50,000 steps.

import { get, query } from "../api.js";
import { changeWords } from "../panels/settings_changes.js";
import { RUN_LIVE } from "../shell.js";
import { fromColumns } from "./bars.js";

export const LIVE = "live"; // in place of a run's id: the engine, whoever asks it
const MAX_BARS = 20_000;
const MAX_STEPS = 50_000;
const MINUTE_MS = 60_000;
const COLUMNS = ["boot", "seq", "step", "prefill", "decode", "budget", "running", "binding", "waiting", "kv_used", "ms"];

/** {items} of the newest runs, for the picker; the asked one is added if it is older. */
export async function listRuns(asked) {
  const { items } = await get("/api/runs?limit=50");
  if (!asked || asked === LIVE || items.some((run) => run.id === asked)) return items;
  return [...items, await get(`/api/runs/${encodeURIComponent(asked)}`)];
}

/** The row of a run as it is now. */
export async function renewed(run) {
  return (await listRuns(run.id)).find((each) => each.id === run.id) || run;
}

/** Everything of `run` (a row of /api/runs, or null: the engine). `window`: seconds, where the whole does not fit. */
export async function load(run, rows, window, start) {
  const wall = (t) => Math.max(0, start + t * 1000).toFixed(3);
  const range = window ? { since: wall(window[0]), until: wall(window[1]) } : {};
  const asked = { run: run && run.id, rows, max: MAX_BARS, ...range };
  const found = await get(`/api/segments${query(asked)}`);
  return {
    bars: fromColumns(found.segments, found.boots, found.start_ms),
    groups: found.groups,
    boots: found.boots,
    start: found.start_ms,
    end: found.end_ms === null ? null : (found.end_ms - found.start_ms) / 1000,
    total: found.total,
    truncated: found.truncated,
    requestsTruncated: found.requests_truncated,
    window,
  };
}

export const isLive = (run) => run === null || RUN_LIVE.includes(run.status);

/** An empty list of steps. */
export function noSteps() {
  const steps = { t: [], by_reason: {}, blocks: [], more: false };
  for (const name of COLUMNS) steps[name] = [];
  return steps;
}

/** Append what `steps` lacks, page by page, to at most MAX_STEPS; `steps.more` when there is more than that. */
export async function loadSteps(run, start, steps, newest) {
  for (;;) {
    const last = steps.t.length - 1;
    const since = last >= 0 ? start + steps.t[last] * 1000 - 1 : run ? null : start + newest * 1000 - MINUTE_MS;
    const page = await get(
      `/api/steps${query({ run: run && run.id, since: since === null ? null : Math.max(0, since).toFixed(3) })}`,
    );
    const added = append(steps, page, start);
    steps.more = page.truncated;
    if (!page.truncated || added === 0 || steps.t.length >= MAX_STEPS) return steps;
  }
}

function append(steps, page, start) {
  const before = steps.t.length;
  const columns = page.steps;
  const last = before - 1;
  for (const reason of Object.keys(columns.by_reason)) steps.by_reason[reason] ||= new Array(before).fill(0);
  for (let i = 0; i < columns.seq.length; i += 1) {
    const life = page.boots[columns.boot[i]];
    const known = last >= 0 && columns.boot[i] === steps.boot[last] && columns.seq[i] <= steps.seq[last];
    if (!life || known) continue;
    for (const name of COLUMNS) steps[name].push(columns[name][i]);
    steps.t.push((life.wall_ms - start + columns.t[i]) / 1000);
    steps.blocks.push(life.blocks_total);
    for (const reason of Object.keys(steps.by_reason)) {
      const column = columns.by_reason[reason];
      steps.by_reason[reason].push(column ? column[i] : 0);
    }
  }
  return steps.t.length - before;
}

/** What was done to the scheduler and to the load meanwhile: [{ t, text }], t in seconds since `start` (wall ms). */
export async function loadChanges(run, start) {
  const { items } = await get(`/api/scheduler/changes${query({ run: run && run.id, limit: 500 })}`);
  const settings = items.map(({ at, changes }) => ({ t: (Date.parse(at) - start) / 1000, text: changeWords(changes) }));
  const rates = ((run && run.progress && run.progress.rate_changes) || []).map(({ at_s: t, factor }) => ({ t, text: `rate × ${factor}` }));
  return [...settings.filter(({ text }) => text), ...rates];
}

/** [first, last] second of what is known; a run begins at 0 whether or not anything ran then. */
export function extent(records, steps, run) {
  let [first, last] = [Infinity, 0];
  if (steps.t.length) [first, last] = [steps.t[0] - steps.ms[0] / 1000, steps.t[steps.t.length - 1]];
  const { bars } = records;
  for (let i = 0; i < bars.count; i += 1) {
    first = Math.min(first, bars.t0[i]);
    last = Math.max(last, bars.t0[i], bars.isOpen(i) ? 0 : bars.t1[i]);
  }
  return [run ? Math.min(0, first) : first, Math.max(last, first + 0.01)];
}

/** The last second of any bar. */
export const newest = (records) => extent(records, noSteps(), null)[1];

/** The server's present on the axis, while the engine lives of which `run` is (`live`: the store's state); else `last`. */
export function present(records, run, live, last) {
  const life = live.gauges && records.boots[live.boot];
  if (!isLive(run) || !life) return last;
  return Math.max(last, (life.wall_ms - records.start + live.gauges.now_ms) / 1000);
}
