// "Show as table": the same data as rows, for those who cannot see the canvas or want the figures.

import { $, replace, setAttr, setHidden, setText, table } from "../dom.js";

export const ROWS = 50;

/** The card's button shows its table and hides it; `then()` is called afterwards. */
export function wireTable(card, then = () => {}) {
  const button = $("[data-as-table]", card);
  const box = $(".astable", card);
  button.addEventListener("click", () => {
    setHidden(box, !box.hidden);
    setAttr(button, "aria-expanded", String(!box.hidden));
    setText(button, box.hidden ? "Show as table" : "Hide table");
    then();
  });
}

/** Wires the card's button; `rows(state)` gives at most 50 rows for `columns`. Returns draw(state), to be called at 1 Hz. */
export function asTable(card, store, columns, rows) {
  const box = $(".astable", card);
  const draw = (state) => {
    if (!box.hidden) replace(box, table(columns, rows(state)));
  };
  wireTable(card, () => draw(store.state));
  return draw;
}
