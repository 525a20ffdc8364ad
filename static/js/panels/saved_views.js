// Saved views: a name for the state of the address bar. Kept in this browser alone; a link shares one with others.

import { el, replace } from "../dom.js";

function read(key) {
  try {
    const kept = JSON.parse(localStorage.getItem(key) || "{}");
    return kept && typeof kept === "object" && !Array.isArray(kept) ? kept : {};
  } catch {
    return {}; // storage may be forbidden, or hold what is not ours: then there are none
  }
}

/** The select and its buttons. `now()` is the present query string; `open(text)` goes to one; `one`: what they are called. */
export function createViews(node, now, open, one = "view", key = `request-${one}s`) {
  const select = el("select", { "aria-label": `Saved ${one}s` });
  const name = el("input", { placeholder: `name of this ${one}`, maxlength: 60, "aria-label": `Name of this ${one}` });
  const save = el("button", { type: "button" }, `Save ${one}`);
  const forget = el("button", { type: "button", class: "quiet", hidden: true }, "Forget");
  const said = el("small", { role: "status" });

  function keep(views, words) {
    try {
      localStorage.setItem(key, JSON.stringify(views));
      said.textContent = words;
    } catch {
      said.textContent = "this browser keeps nothing: copy the address instead";
    }
    draw();
  }
  function draw() {
    const views = Object.entries(read(key));
    const current = views.find(([, state]) => state === now());
    replace(select, el("option", { value: "" }, `${views.length ? "" : "no "}saved ${one}s${views.length ? "…" : ""}`), ...views.map(([each]) => el("option", { value: each }, each)));
    select.value = current ? current[0] : "";
    select.disabled = views.length === 0;
    forget.hidden = !current;
  }
  select.addEventListener("change", () => select.value && open(String(read(key)[select.value])));
  save.addEventListener("click", () => {
    const given = name.value.trim();
    if (!given) return name.focus();
    name.value = "";
    keep({ ...read(key), [given]: now() }, "kept in this browser");
  });
  forget.addEventListener("click", () => {
    const { [select.value]: _, ...others } = read(key);
    keep(others, "forgotten");
  });
  replace(node, said, select, forget, name, save);
  return draw;
}
