// What the filtered set holds, by field: each value with its count is a link that puts the filter on or takes it off.

import { el, replace } from "../dom.js";
import { int } from "../format.js";
import { SHORT } from "../words.js";

const TITLES = { state: "State", finish: "Finish", top_wait: "Waited most for", tenant: "Tenant", kind: "Kind", policy: "Policy", run: "Run" };
const SEVERAL = ["state", "finish", "top_wait"]; // fields that take several values

function toggled(field, value, now) {
  const had = now ? (SEVERAL.includes(field) ? now.split(",") : [now]) : [];
  if (had.includes(value)) return had.filter((each) => each !== value).join(",") || null;
  return SEVERAL.includes(field) ? [...had, value].join(",") : value;
}

function line(field, { value, count }, params, link) {
  const now = params[field];
  const on = now !== undefined && (SEVERAL.includes(field) ? now.split(",") : [now]).includes(value);
  const words = field === "top_wait" ? SHORT[value] || value : value;
  return link(
    { [field]: toggled(field, value, now) },
    { title: on ? `${value}: take this filter off` : value, "aria-current": on ? "true" : null },
    el("span", {}, words || "(empty)"),
    el("span", { class: "n" }, int(count)),
  );
}

/** Draws them. `params`: the filters in force; `link(changes, attributes, ...children)` makes a link to the changed filters. */
export function drawFacets(node, facets, params, link) {
  const shown = facets.filter((facet) => facet.timed_out || facet.values.length > 1 || params[facet.field] !== undefined);
  const blocks = shown.map((facet) => {
    const values = facet.values || [];
    const lost = params[facet.field] !== undefined && !SEVERAL.includes(facet.field) && !values.some((each) => each.value === params[facet.field]);
    return el(
      "div",
      { class: "facet", "data-field": facet.field },
      el("h3", {}, TITLES[facet.field]),
      ...values.map((each) => line(facet.field, each, params, link)),
      lost && !facet.timed_out && line(facet.field, { value: params[facet.field], count: null }, params, link),
      facet.timed_out && el("small", {}, "not counted: timed out"),
      facet.more && el("small", {}, `the ${values.length} most frequent`),
    );
  });
  replace(node, el("div", { class: "facets" }, ...blocks), blocks.length === 0 && el("small", {}, "All of one kind: nothing to narrow down by."));
}
