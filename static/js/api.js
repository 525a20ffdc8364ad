// HTTP to our own API: JSON in, JSON out, errors as ApiError with the server's own words.

import { gone, goneWords } from "./fields.js";

export class ApiError extends Error {
  constructor(message, status, param, code) {
    super(message);
    Object.assign(this, { status, param, code });
  }
}

async function failure(response) {
  const id = response.headers.get("X-Request-Id");
  const body = await response.json().catch(() => null);
  const error = body && body.error;
  const message = error ? error.message : `${response.status} ${response.statusText}`;
  return new ApiError(
    id && response.status >= 500 ? `${message} (request ${id})` : message,
    response.status,
    error && error.param,
    error && error.code,
  );
}

async function call(method, path, body) {
  const options = { method, headers: { Accept: "application/json" }, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new ApiError("the server does not answer", 0, null, null);
  }
  if (!response.ok) throw await failure(response);
  if (response.status === 204) return null;
  const answer = exact(await response.text());
  const missing = method === "GET" ? gone(path.split("?")[0], answer) : [];
  if (missing.length) throw new ApiError(`${goneWords(missing)}: ${path.split("?")[0]}`, response.status, null, "field_gone");
  return answer;
}

/** JSON with each whole number that a Number would round as text. */
export function exact(text) {
  const kept = (found) => (/^-?\d+$/.test(found) && !Number.isSafeInteger(+found) ? `"${found}"` : found);
  return JSON.parse(/[^.\d]\d{16}/.test(text) ? text.replace(/"(?:[^"\\]+|\\.)*"|[-+.\de]+/gi, kept) : text);
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const remove = (path) => call("DELETE", path);
export const patch = (path, body) => call("PATCH", path, body);

/** A query string of what is set. */
export function query(params) {
  const kept = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept).toString();
  return text ? `?${text}` : "";
}

/** Scheduler settings as a link names them: `scheduler.NAME`, `scheduler.policy_params.NAME`. */
export const linked = (settings, stem = "scheduler.") =>
  Object.entries(settings).reduce(
    (found, [name, value]) => ({ ...found, ...(name === "policy_params" ? linked(value, `${stem}${name}.`) : { [stem + name]: value }) }),
    {},
  );

/** What of a run the Load page is to fill in; the bounds that it is judged by are its scenario's and have no field. */
export const again = ({ scenario, parameters, seed }, settings) =>
  query({ scenario, ...parameters, slo_ttft_ms: null, slo_tpot_ms: null, seed, ...linked(settings) });

/** POST a streamed chat completion; calls `onText(piece)` as text comes. Resolves to { id, ttftMs, totalMs, pieces }. */
export async function streamChat(body, { onText, onId, signal }) {
  const began = performance.now();
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  });
  if (!response.ok) throw await failure(response);
  const id = response.headers.get("X-Request-Id");
  if (id) onId(id);
  const found = { id, ttftMs: null, totalMs: null, pieces: 0 };
  for await (const data of serverSentEvents(response.body)) {
    if (data === "[DONE]") break;
    const event = JSON.parse(data);
    if (event.error) throw new ApiError(event.error.message, response.status, null, event.error.code);
    const piece = event.choices && event.choices[0] && event.choices[0].delta && event.choices[0].delta.content;
    if (!piece) continue;
    if (found.ttftMs === null) found.ttftMs = performance.now() - began;
    found.pieces += 1;
    onText(piece);
  }
  found.totalMs = performance.now() - began;
  return found;
}

/** The `data:` payloads of an event stream. */
async function* serverSentEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop();
      for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
    }
  } finally {
    reader.cancel().catch(() => null); // leaving early tells the server that nobody reads
  }
}
