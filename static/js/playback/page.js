// The Live page without an engine and without a socket: a recording in their place, its bar, its keys and its place in the URL.
// Everything on show says that it is recorded; what would act on an engine is not offered.

import { $, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { get } from "../api.js";
import { int } from "../format.js";
import { onKey } from "../keys.js";
import { createPlayer, SPEEDS } from "./player.js";

const ACTS = ["#try", "#hold", "#pause", "#freeze"];
const ELSEWHERE = 'a[href^="/requests/"], a[href^="/runs"], #strip canvas, #timeline canvas'; // records that this server does not have
const URL_MS = 250; // browsers refuse to rewrite the address much oftener
const seconds = (ms) => (ms / 1000).toFixed(2);

/** Instead of the socket: fills `store` from the recording of that name. */
export async function playInto(store, name) {
  setAttr(document.body, "data-recorded", name);
  document.title = `Recorded · ${document.title}`;
  for (const node of ACTS) setHidden($(node), true);
  const card = el("section", { class: "card", id: "playback", "aria-label": "Playback of a recording", "aria-busy": "true" });
  await styled();
  replace(card, el("p", { class: "empty", role: "status" }, "Loading the recording…"));
  $("main").prepend(card);
  $(".says .end").prepend(el("span", { class: "tag", "data-tone": "warn" }, "recorded"));
  await load(card, store, name);
}

function styled() {
  const href = new URL("../../css/playback.css", import.meta.url).href;
  return new Promise((done) => document.head.append(el("link", { rel: "stylesheet", href, onload: done, onerror: done })));
}

async function load(card, store, name) {
  try {
    const recording = await get(`/recorded/${encodeURIComponent(name)}.json`);
    setAttr(card, "aria-busy", null);
    controls(card, store, recording);
  } catch (error) {
    if (error.status === undefined) throw error; // ours, not the server's
    const other = error.status === 404 ? el("a", { href: "/?recorded=tutorial" }, "Watch the tutorial instead") : again(card, store, name);
    const why = error.status === 404 ? `There is no recording “${name}”.` : `The recording could not be read: ${error.message}.`;
    setText($("#sentence"), "Nothing is played");
    setAttr(document.body, "data-empty", "true");
    replace(card, el("p", { class: "error", role: "alert" }, why, " ", other));
  }
}

const again = (card, store, name) => el("button", { type: "button", onclick: () => load(card, store, name) }, "Try again");

function controls(card, store, recording) {
  const button = (id, title, text, act) => el("button", { type: "button", id, title, onclick: act }, text);
  const play = button("playback-play", "Play or pause (p)", "Play", toggle);
  const place = el("input", { type: "range", "aria-label": "Place in the recording", oninput: () => player.seek(Number(place.value)) });
  const where = el("output", { class: "num" });
  const speed = el("select", { "aria-label": "Speed", title: "Speed (< and >)", onchange: () => player.setSpeed(Number(speed.value)) });
  const note = el("small", { class: "note", role: "status" });
  speed.append(...SPEEDS.map((value) => el("option", { value }, `${value}×`)));
  place.addEventListener("pointerup", () => place.blur());

  const player = createPlayer(recording, store, draw);
  const step = (by) => player.seek(player.position + by);
  const faster = (by) => player.setSpeed(SPEEDS[SPEEDS.indexOf(player.speed) + by]);
  function toggle() {
    if (player.playing) player.pause();
    else player.play();
  }
  function draw() {
    const newest = store.state.steps.step.at(-1);
    const said = `${seconds(player.ms)} of ${seconds(player.end)} s · ${newest === undefined ? "before the first step" : `step ${int(newest)}`}`;
    setText(play, player.playing ? "Pause" : player.position === player.last ? "Play again" : "Play");
    if (place.value !== String(player.position)) place.value = player.position;
    setAttr(place, "aria-valuetext", said);
    setText(where, said);
    speed.value = player.speed;
    setAttr(card, "data-position", player.position);
    setAttr(card, "data-playing", String(player.playing));
    remember(player);
  }

  place.max = player.last;
  const row = el(
    "div",
    { class: "row" },
    button("playback-back", "One frame back (,)", "◂ Back", () => step(-1)),
    play,
    button("playback-step", "One frame on (.)", "Step ▸", () => step(1)),
    place,
    where,
    speed,
  );
  replace(card, head(recording, store.state.server, note), row);
  onKey("p", "play the recording, or pause", toggle);
  onKey(".", "one frame on", () => step(1));
  onKey(",", "one frame back", () => step(-1));
  onKey(">", "play faster", () => faster(1));
  onKey("<", "play slower", () => faster(-1));
  onKey("Home", "to the recording's begin", () => player.seek(0));
  onKey("End", "to its end", () => player.seek(player.last));
  keepHere(note, recording.scenario);
  begin(player);
}

function head({ scenario, recorded }, { model, simulated, hardware, device, dtype }, note) {
  const on = simulated ? `simulated ${hardware}` : `${device}, ${dtype}`;
  const links = [el("a", { href: "/lesson" }, "What to look at: the lesson"), el("a", { href: "/" }, "Leave the recording")];
  const facts = el("small", {}, `${model} on ${on}, ${recorded.slice(0, 10)}; no engine is asked`);
  return el("div", { class: "cardhead" }, el("h2", {}, `Recorded: ${scenario}`), facts, note, el("span", { class: "end" }, ...links));
}

/** With a place in the URL (`at`: seconds, `step`: of the engine) it stands there; without one it plays. */
function begin(player) {
  const given = new URLSearchParams(location.search);
  player.setSpeed(Number(given.get("speed") || 1));
  const [at, step] = [given.get("at"), given.get("step")];
  if (at !== null) player.seek(player.stopAt(Number(at) * 1000 || 0));
  else if (step !== null) player.seek(player.stopOf(Number(step) || 0));
  else player.play();
}

let writing = null;
/** The place and the speed, so that a link shows what its sender saw. */
function remember(player) {
  writing ??= setTimeout(() => {
    writing = null;
    const url = new URL(location.href);
    url.searchParams.set("at", seconds(player.ms));
    url.searchParams.delete("step");
    if (player.speed === 1) url.searchParams.delete("speed");
    else url.searchParams.set("speed", player.speed);
    history.replaceState(null, "", url);
  }, URL_MS);
}

function keepHere(note, scenario) {
  const stay = (event) => {
    if (!(event.target instanceof Element) || !event.target.closest(ELSEWHERE) || event.target.closest("nav")) return;
    event.preventDefault();
    event.stopPropagation();
    const link = el("a", { href: `/load?scenario=${encodeURIComponent(scenario)}` }, `start ${scenario} yourself`);
    replace(note, "The records of this run are not on this server: ", link, " to have some.");
  };
  document.addEventListener("click", stay, true);
}
