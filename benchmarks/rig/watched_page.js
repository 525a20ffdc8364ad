// Runs before a page's own scripts and notes what they cost: ms of each callback that drew steps, and when their bars were there.
(() => {
  const noted = { draws: [], shown: [] };
  const frame = requestAnimationFrame.bind(window);
  const label = () => document.querySelector("#strip canvas")?.getAttribute("aria-label");
  window.requestAnimationFrame = (call) =>
    frame((now) => {
      const [began, before] = [performance.now(), label()];
      call(now);
      if (label() !== before) noted.draws.push(performance.now() - began);
    });
  // the strip's label names the newest step it drew; the frame after is the first that cannot begin before that is on screen
  addEventListener("DOMContentLoaded", () =>
    new MutationObserver(([{ target }]) => {
      const step = Number(/Step (\d+)/.exec(target.getAttribute("aria-label"))?.[1]);
      if (step) frame(() => noted.shown.push([step, performance.timeOrigin + performance.now()]));
    }).observe(document.querySelector("#strip canvas"), { attributeFilter: ["aria-label"] }),
  );
  // what a visit cost until the first paint and, of a page that has some, the first figures were there: ms, files, bytes as they came
  window.visited = async (hasFigures) => {
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
    while (hasFigures && !document.body?.dataset.seq) await new Promise(frame);
    const figures = performance.now();
    while (!paint()) await new Promise(frame);
    const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    const bytes = files.reduce((sum, each) => sum + each.transferSize, 0);
    return { paint: paint().startTime, figures, files: files.length, bytes };
  };
  // what was noted since the last call
  window.noted = () => ({ draws: noted.draws.splice(0), shown: noted.shown.splice(0) });
})();
