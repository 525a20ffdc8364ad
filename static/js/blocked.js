// Who held what, in words: the sets of blockers, merged stretches of a wait, a step's picks. Pure; the reasons' own words are in
// words.js. `blockers` is the JSON of docs/events.md; a name is shown as it is, as text.

import { int, percents, plural } from "./format.js";

const NAMES_SHOWN = 5;

/** "tenant b 12, a 4": who holds most, then what all others hold together. */
function holders({ holders: found, rest }) {
  const names = found.slice(0, NAMES_SHOWN).map(({ tenant, amount, prefill }) => {
    const part = prefill ? ` (${int(prefill)} prefill)` : "";
    return `${tenant} ${int(amount)}${part}`;
  });
  if (names.length === 0) return "nobody";
  return `tenant ${names.join(", ")}${rest ? `, others ${int(rest)}` : ""}`;
}

const held = (blockers) => blockers.holders.reduce((sum, { amount }) => sum + amount, blockers.rest || 0);

function blocks(blockers, number) {
  const who = blockers.holders.length ? `; held: ${holders(blockers)}${shared(blockers)}` : "";
  const kept = blockers.kept ? `, ${int(blockers.kept)} kept for the running` : "";
  const free = `${int(blockers.free)} free${kept}${who}`;
  if (!blockers.head) return `memory ran out for the running: ${free}`;
  const whose = blockers.head === number ? "it" : "the next in line";
  return `${whose} needs ${plural(blockers.needed, "KV block")}, ${free}`;
}

/** References are counted, so that what tenants hold may be more than there is. */
function shared(blockers) {
  const again = held(blockers) - (blockers.limit - blockers.free);
  return again > 0 ? ` (${int(again)} more than are in use: a block that requests share counts for each)` : "";
}

function quota(blockers) {
  const [{ tenant, amount }] = blockers.holders;
  const parts = [];
  if (blockers.limit) parts.push(`tenant ${tenant} runs ${int(amount)} of its ${int(blockers.limit)}`);
  if (blockers.max_tokens)
    parts.push(
      `tenant ${tenant} holds ${int(blockers.tokens)} of its ${int(blockers.max_tokens)} tokens, ` +
        `this one needs ${int(blockers.needed)}`,
    );
  return parts.join("; ");
}

/** "16 of 16 slots: tenant b 12, a 4". `number`: the request that asks, which may be the next in line itself. */
export function blockersWords(blockers, number = null) {
  if (!blockers) return "";
  if (blockers.unit === "blocks") return blocks(blockers, number);
  if (blockers.unit === "requests") return quota(blockers);
  const what = blockers.unit === "tokens" ? "tokens of the step" : "slots";
  return `${int(held(blockers))} of ${int(blockers.limit)} ${what}: ${holders(blockers)}`;
}

/** Neighbouring stretches of one reason as one: { from_ms, to_ms, reason, sets, longest: the set that stood longest }. */
export function merged(stretches, until) {
  const found = [];
  let longest = 0;
  for (const one of stretches) {
    const end = one.to_ms === null ? until : one.to_ms;
    const length = end - one.from_ms;
    const last = found.at(-1);
    if (last && last.reason === one.reason && last.sequence === one.sequence) {
      last.to_ms = end;
      last.open = one.to_ms === null;
      last.sets += 1;
      if (length > longest) [last.longest, longest] = [one.blockers, length];
    } else {
      longest = length;
      const { sequence, from_ms, reason, blockers } = one;
      found.push({ sequence, from_ms, to_ms: end, open: one.to_ms === null, reason, sets: 1, longest: blockers });
    }
  }
  return found;
}

/** The same with the exact ms that the scheduler booked, where it has: stretches are made of steps, and a hold has no step. */
export function booked(sums, waits) {
  const known = Object.entries(waits || {}).filter(([, length]) => length > 0);
  if (known.length === 0) return sums;
  const found = known.map(([reason, length]) => {
    const one = sums.find((each) => each.reason === reason);
    return { reason, ms: length, stretches: one ? one.stretches : 0, shares: one ? one.shares : [] };
  });
  return found.sort((a, b) => b.ms - a.ms);
}

/** By reason, longest first: { reason, ms, stretches, shares: [[tenant, share of what was held, by time]] }. */
export function byReason(stretches, until) {
  const sums = new Map();
  for (const one of stretches) {
    const length = (one.to_ms === null ? until : one.to_ms) - one.from_ms;
    if (!sums.has(one.reason)) sums.set(one.reason, { reason: one.reason, ms: 0, stretches: 0, amounts: new Map() });
    const sum = sums.get(one.reason);
    sum.ms += length;
    sum.stretches += 1;
    if (!one.blockers) continue;
    const rest = one.blockers.rest ? [{ tenant: null, amount: one.blockers.rest }] : [];
    for (const { tenant, amount } of [...one.blockers.holders, ...rest])
      sum.amounts.set(tenant, (sum.amounts.get(tenant) || 0) + amount * length);
  }
  return [...sums.values()].sort((a, b) => b.ms - a.ms).map(({ amounts, ...sum }) => ({ ...sum, shares: shares(amounts) }));
}

function shares(amounts) {
  const all = [...amounts.values()].reduce((sum, amount) => sum + amount, 0);
  return [...amounts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, NAMES_SHOWN)
    .map(([tenant, amount]) => [tenant, all ? amount / all : null]);
}

/** "held by tenant b 78 %, a 22 %". */
export function sharesWords(found) {
  if (found.length === 0) return "";
  const said = percents(found.map(([, share]) => share));
  const names = found.map(([tenant], index) => `${tenant === null ? "others" : tenant} ${said[index]} %`);
  return `held by tenant ${names.join(", ")}`;
}
