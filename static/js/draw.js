// When to draw: only after data came, only in a visible tab, each panel no more often than it asks. Knows no panel's content.

/** A loop over a store. add(everyMs, draw) → draw(state) is called from animation frames while there is something new. */
export function createLoop(store) {
  const panels = [];
  let requested = false;
  let timer = null;

  function request() {
    if (requested || document.hidden) return;
    requested = true;
    requestAnimationFrame(tick);
  }

  function tick(now) {
    requested = false;
    if (document.hidden) return; // asked for before the tab was hidden; its return asks again
    let soonest = Infinity;
    for (const panel of panels) {
      if (!panel.dirty) continue;
      const due = panel.last + panel.every;
      if (now + 4 < due) {
        soonest = Math.min(soonest, due - now);
        continue;
      }
      panel.dirty = false;
      panel.last = now;
      panel.draw(store.state);
    }
    if (soonest < Infinity && timer === null) {
      timer = setTimeout(() => {
        timer = null;
        request();
      }, soonest);
    }
  }

  function markAll() {
    for (const panel of panels) panel.dirty = true;
    request();
  }

  store.subscribe(markAll);
  document.addEventListener("visibilitychange", request);
  return {
    add(every, draw) {
      panels.push({ every, draw, last: -Infinity, dirty: true });
      request();
    },
    /** Draw everything anew: the theme or the size changed. */
    again() {
      for (const panel of panels) panel.last = -Infinity;
      markAll();
    },
  };
}

const timers = new Map();

/** A deed put off by name: asking again for one of a name puts it off anew. */
export function soon(name, wait, deed) {
  never(name);
  timers.set(name, setTimeout(deed, wait));
}

export const never = (name) => clearTimeout(timers.get(name));

/** Calls `draw` once the window has its new size. */
export const onResize = (draw) => addEventListener("resize", () => soon(draw, 80, draw));
