// Numbers for people: "—" for what is undefined, three significant digits of ms, commas in thousands. Pure; never a unit lost.

export const NONE = "—";
const missing = (value) => value === null || value === undefined || Number.isNaN(value);
const FORMATS = [0, 1, 2, 3].map(
  (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);
const commas = (value, digits) => FORMATS[digits].format(value); // toLocaleString would make one at each call

export function int(value) {
  return missing(value) ? NONE : commas(typeof value === "string" ? BigInt(value) : Math.round(value), 0);
}

/** Three significant digits, no exponent: 0.123, 4.56, 78.9, 1,234. */
export function sig3(value) {
  if (missing(value)) return NONE;
  const size = Math.abs(Number(value.toPrecision(3))); // 9.996 is 10.0, not 10.00
  if (size >= 100 || value === 0) return commas(value, 0);
  if (size >= 10) return commas(value, 1);
  if (size >= 1) return commas(value, 2);
  return commas(value, 3);
}

/** ms as a number with its unit; from 10,000 ms in seconds. */
export function ms(value) {
  if (missing(value)) return NONE;
  return Math.abs(value) >= 10_000 ? `${sig3(value / 1000)} s` : `${sig3(value)} ms`;
}

/** [number, unit] of a duration in ms, for tiles. */
export function msParts(value) {
  if (missing(value)) return [NONE, "ms"];
  return Math.abs(value) >= 10_000 ? [sig3(value / 1000), "s"] : [sig3(value), "ms"];
}

/** A share 0..1 in percent: no decimals from 10 % on; what is not all is never 100. */
export function percent(share) {
  if (missing(share)) return NONE;
  const value = share * 100;
  if (value >= 99.5 && value < 100) return commas(Math.min(value, 99.9), 1);
  return commas(value, value >= 10 || value === 0 ? 0 : 1);
}

/** Parts of one whole in percent, as people add them up: as many decimals in each, together never over 100 (Hamilton's method). */
export function percents(shares) {
  const digits = shares.some((share) => share > 0 && share < 0.1) ? 1 : 0;
  const exact = shares.map((share) => (missing(share) ? 0 : share * 100 * 10 ** digits));
  const whole = exact.map((value) => Math.floor(value + 1e-9));
  const short = Math.round(exact.reduce((sum, value) => sum + value, 0)) - whole.reduce((sum, value) => sum + value, 0);
  const most = exact.map((_, index) => index).sort((a, b) => exact[b] - whole[b] - (exact[a] - whole[a]));
  for (const index of most.slice(0, Math.max(0, short))) whole[index] += 1;
  return shares.map((share, index) => (missing(share) ? NONE : commas(whole[index] / 10 ** digits, digits)));
}

/** Seconds as m:ss or h:mm:ss. */
export function clock(seconds) {
  if (missing(seconds)) return NONE;
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** "60 s", or "20 of 60 s" where there is no more than that yet. */
export const secondsOf = (there, wanted) => (there < wanted ? `${int(there)} of ${int(wanted)} s` : `${int(there)} s`);

/** Seconds since something, coarse: "3 s", "2 min", "5 h". */
export function age(seconds) {
  if (missing(seconds)) return NONE;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

let timeZone; // undefined: the reader's own

/** Whether instants are shown in UTC from now on. */
export function setUtc(utc) {
  timeZone = utc ? "UTC" : undefined;
}

/** An ISO instant in the zone chosen; the zone is in the tooltip that `zone()` gives. */
export function when(iso) {
  if (!iso) return NONE;
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? String(iso) : date.toLocaleString("sv-SE", { hour12: false, timeZone });
}

/** The same, short: today's instants as a time with ms, others with their date. */
export function whenShort(iso) {
  const full = when(iso);
  if (full.length < 19) return full;
  const today = new Date().toLocaleDateString("sv-SE", { timeZone });
  return full.startsWith(today) ? `${full.slice(11)}.${String(new Date(iso).getMilliseconds()).padStart(3, "0")}` : full;
}

export const zone = () => timeZone || Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The request that a sequence id belongs to: ours are `<id>` or `<id>/0`. */
export const requestOf = (id) => id.split("/")[0];
export const requestUrl = (id) => `/requests/${encodeURIComponent(requestOf(id))}`;

/** The tail of a long id, which is what tells ours apart; show the whole id in a title. */
export const shortId = (id) => (id.length > 16 ? `…${id.slice(-10)}` : id);

export function plural(count, one, many = `${one}s`) {
  return `${int(count)} ${count === 1 ? one : many}`;
}

export function valueText(value) {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "object") return Object.entries(value).map(([name, each]) => `${name}=${valueText(each)}`).join(" ") || NONE;
  return typeof value === "number" && Number.isInteger(value) ? int(value) : String(value);
}
