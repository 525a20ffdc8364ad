// What the chosen scenario will offer: expected arrivals a second over time, by stream. The server says it; nothing is computed here.

import { ApiError, get, query } from "../api.js";
import { $, el, replace, setAttr, setHidden, swatch } from "../dom.js";
import { int, sig3 } from "../format.js";
import { onTheme, palette } from "../theme.js";
import { begin, line, scales } from "./rate_plot.js";

const STREAMS = ["prefill", "r-kv_blocks", "kv", "r-slots", "running", "preempted"];
const DASHES = [[], [7, 4], [2, 3]];
const PAUSE_MS = 200;

/** The card's show(scenario, set): asks once its caller has been silent for a while, and draws the newest answer. */
export function createOffer(card) {
  let [found, asked, timer] = [null, 0, null];
  const canvas = $("canvas", card);
  const again = () => found && canvas.clientWidth && draw(canvas, found);
  new ResizeObserver(again).observe(canvas);
  onTheme(again);
  const ask = async (scenario, set) => {
    const mine = (asked += 1);
    const problem = $(".problem", card);
    try {
      const answer = await get(`/api/scenarios/${encodeURIComponent(scenario)}/offered${query(set)}`);
      if (mine !== asked) return;
      found = answer;
      replace(problem);
      tell(card, found);
      again();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const again = error.status >= 400 && error.status < 500 ? [] : [" ", el("button", { type: "button", onclick: () => ask(scenario, set) }, "Try again")];
      if (mine === asked) replace(problem, error.message, ...again);
    }
    setHidden(problem, problem.textContent === "");
  };
  return (scenario, set) => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS, scenario, set);
  };
}

function tell(card, { streams }) {
  const words = (stream) =>
    stream.rates === null
      ? stream.said
      : `about ${int(stream.expected)} arrivals, at most ${sig3(Math.max(...stream.rates))} a second · ${stream.said}`;
  const said = streams.map((stream, i) =>
    el("li", {}, stream.rates && swatch(STREAMS[i % STREAMS.length], true), el("b", {}, stream.name), ` ${words(stream)}`),
  );
  replace($("ul", card), ...said);
  setHidden($(".plot", card), !streams.some((stream) => stream.rates));
  setAttr($("canvas", card), "aria-label", streams.map((stream) => `${stream.name}: ${words(stream)}`).join("; "));
}

function draw(canvas, { duration_s: seconds, bin_s: bin, streams }) {
  const known = streams.filter((stream) => stream.rates);
  if (!known.length) return;
  const scale = scales(canvas, seconds, Math.max(...known.flatMap((stream) => stream.rates)));
  const [context, colours] = [begin(canvas, scale), palette()];
  streams.forEach(({ rates }, i) => {
    if (!rates) return;
    const points = rates.flatMap((rate, n) => [[n * bin, rate], [(n + 1) * bin, rate]]);
    line(context, scale, points, colours[STREAMS[i % STREAMS.length]], DASHES[i % DASHES.length]);
  });
}
