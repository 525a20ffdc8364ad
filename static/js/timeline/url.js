// What the page shows is in its URL: run, from, to (seconds), rows, sel (a request, and which of
// its phases), area, marks, pins, step (its boot and seq: a dialog over the page). Knows no data.

export const ROWS = ["slot", "request", "tenant"];

const number = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);
const numbers = (text) =>
  (text || "")
    .split(",")
    .map(number)
    .filter((value) => value !== null);

/** The state of a link; what is not understood is left out. */
export function read() {
  const params = new URLSearchParams(location.search);
  const [from, to] = [number(params.get("from")), number(params.get("to"))];
  const area = /^(-?[\d.]+)~(-?[\d.]+)$/.exec(params.get("area") || "");
  const rows = params.get("rows");
  const sel = /^req:(.+?)(?:@(\d+))?$/.exec(params.get("sel") || "");
  return {
    run: params.get("run"),
    range: from !== null && to !== null && to > from ? [from, to] : null,
    rows: ROWS.includes(rows) ? rows : "slot",
    sel: sel ? sel[1] : null,
    phase: sel && sel[2] !== undefined ? Number(sel[2]) : null,
    area: area && Number(area[2]) > Number(area[1]) ? [Number(area[1]), Number(area[2])] : null,
    marks: numbers(params.get("marks")),
    pins: numbers(params.get("pins")),
    step: params.get("step"), // "boot.seq"
  };
}

/** Put the state into the URL; `step`: a place to come back to with the browser's Back; `shown`: the run where no link named one. */
export function write(state, step, shown) {
  state.run ||= shown;
  const precise = (value) => String(Math.round(value * 1e6) / 1e6); // µs: no step changes sides on its way through a link
  const params = new URLSearchParams();
  if (state.run) params.set("run", state.run);
  if (state.range) for (const [i, name] of ["from", "to"].entries()) params.set(name, precise(state.range[i]));
  if (state.rows !== "slot") params.set("rows", state.rows);
  if (state.sel) params.set("sel", `req:${state.sel}${state.phase === null ? "" : `@${state.phase}`}`);
  if (state.area) params.set("area", state.area.map(precise).join("~"));
  if (state.marks.length) params.set("marks", state.marks.map(precise).join(","));
  if (state.pins.length) params.set("pins", state.pins.join(","));
  const dialog = read().step;
  if (dialog) params.set("step", dialog);
  const query = params.toString().replace(/%(3A|2C|7E|40)/g, decodeURIComponent); // : , ~ @ may stand in a query as they are
  const url = `${location.pathname}${query ? `?${query}` : ""}`;
  if (url === location.pathname + location.search) return;
  if (step) history.pushState(null, "", url);
  else history.replaceState(null, "", url);
}
