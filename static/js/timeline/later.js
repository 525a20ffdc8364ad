// Deeds put off by name: asking again for one of a name puts it off anew.

const timers = {};

export function soon(name, wait, deed) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(deed, wait);
}

export const never = (name) => clearTimeout(timers[name]);
