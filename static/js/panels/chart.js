// What the charts by Chart.js share: one font, no animation, no parsing, the theme's colours. Knows no data.
// Chart.js comes last of a page's files and nothing waits for it: until it is there, a chart keeps what it was last asked to draw.

import { $, el } from "../dom.js";
import { palette } from "../theme.js";
import { FONT } from "./canvas.js";

/** Is Chart.js there? Once it has come, or could not be fetched. */
const arrival = new Promise((resolve) => {
  if (window.Chart) return resolve(true);
  const script = $('script[src*="/vendor/chart-"]');
  script.addEventListener("load", () => resolve(true));
  script.addEventListener("error", () => resolve(false));
});

function setDefaults() {
  const { defaults } = window.Chart;
  Object.assign(defaults, { animation: false, maintainAspectRatio: false, parsing: false, normalized: true });
  Object.assign(defaults.font, { family: FONT.slice(FONT.indexOf(" ") + 1), size: 11 });
  Object.assign(defaults.interaction, { mode: "index", axis: "x", intersect: false });
  Object.assign(defaults.elements.point, { radius: 0 });
  Object.assign(defaults.plugins.tooltip, { animation: false });
  defaults.plugins.legend.display = false;
}

/**
 * A line chart on `canvas`: draw(change) has change(chart) set new data and scales, and draws. `options`: Chart.js's own, beyond
 * the defaults above; `plugins`: its own, too, for this chart.
 */
export function createChart(canvas, options, plugins = []) {
  let chart = null;
  let change = null;
  const draw = () => {
    change(chart);
    dress(chart);
    chart.update("none");
  };
  arrival.then((there) => {
    if (!there) return canvas.parentElement.append(el("p", { class: "empty" }, "Chart.js could not be loaded: no picture here."));
    setDefaults();
    chart = new window.Chart(canvas, { type: "line", data: { datasets: [] }, options, plugins });
    if (change) draw();
  });
  return {
    draw(next) {
      change = next;
      if (chart) draw();
    },
  };
}

/** The theme's colours; those of lines are the data's business. Set on each chart, since one that is made minds no later default. */
function dress({ options, scales }) {
  const colours = palette();
  for (const id of Object.keys(scales)) {
    const axis = options.scales[id];
    axis.ticks.color = axis.title.color = colours.mut;
    axis.grid.color = axis.border.color = colours.grid;
  }
  Object.assign(options.plugins.tooltip, {
    backgroundColor: colours["tip-bg"],
    titleColor: colours["tip-fg"],
    bodyColor: colours["tip-fg"],
  });
}
