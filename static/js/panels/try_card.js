// Try it: start first_look, send one prompt and read its answer, or copy the curl that does the same.

import { $, el, replace, setAttr, setHidden, setText } from "../dom.js";
import { post, streamChat } from "../api.js";
import { ms, plural, requestUrl } from "../format.js";
import { RUN_LIVE } from "../shell.js";

const MAX_TOKENS = 96;

export function createTryCard(store) {
  const start = $("#start-first-look");
  start.addEventListener("click", () => startFirstLook(start));
  $("#prompt-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sendPrompt(store.state.server);
  });
  $("#prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("#prompt-form").requestSubmit();
  });
  setText($("#base-url"), `${location.origin}/v1`);
  $("#copy-curl").addEventListener("click", copyCurl);
  return { draw };
}

function draw(state) {
  const live = state.run !== null && RUN_LIVE.includes(state.run.status);
  const start = $("#start-first-look");
  if (start.disabled !== live && start.dataset.busy !== "true") start.disabled = live;
  setAttr(start, "title", live ? "a run is active" : null);
  if (state.server !== null) setText($("#curl"), curl(state.server.model));
}

function curl(model) {
  const body = JSON.stringify({
    model,
    messages: [{ role: "user", content: "What is a GPU?" }],
    max_tokens: 32,
    temperature: 0,
    stream: true,
  });
  return `curl -N ${location.origin}/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

async function copyCurl() {
  try {
    await navigator.clipboard.writeText($("#curl").textContent);
    setText($("#copy-note"), "copied");
  } catch {
    getSelection().selectAllChildren($("#curl")); // no clipboard without a secure origin: leave it selected
    setText($("#copy-note"), "selected: press Ctrl-C");
  }
}

async function startFirstLook(button) {
  const note = $("#start-note");
  button.disabled = true;
  button.dataset.busy = "true";
  setText(note, "starting…");
  try {
    const run = await post("/api/runs", { scenario: "first_look" });
    replace(note, "started: ", el("a", { href: `/runs/${encodeURIComponent(run.id)}` }, "its report"));
  } catch (error) {
    setText(note, error.message);
    button.disabled = false;
  }
  button.dataset.busy = "false";
}

async function sendPrompt(server) {
  const [send, stop, note, answer] = [$("#send"), $("#stop"), $("#prompt-note"), $("#answer")];
  const abort = new AbortController();
  stop.onclick = () => abort.abort();
  send.disabled = true;
  setHidden(stop, false);
  answer.replaceChildren();
  setText(note, "waiting for the first token…");
  const body = {
    model: server === null ? undefined : server.model,
    messages: [{ role: "user", content: $("#prompt").value }],
    max_tokens: MAX_TOKENS,
    temperature: 0, // a small model at temperature 1 answers a newcomer with nonsense
    kind: "interactive",
  };
  let id = null;
  const link = (text) => replace(note, text, id ? el("a", { href: requestUrl(id) }, "its lifecycle") : null);
  try {
    const onText = (piece) => {
      if (!answer.hasChildNodes()) link("first token is here · ");
      answer.append(piece);
    };
    const done = await streamChat(body, { onText, onId: (found) => (id = found), signal: abort.signal });
    link(`first token after ${ms(done.ttftMs)}, ${plural(done.pieces, "piece")} in ${ms(done.totalMs)} · `);
  } catch (error) {
    link(abort.signal.aborted ? "stopped · " : `${error.message} `);
  }
  send.disabled = false;
  setHidden(stop, true);
}
