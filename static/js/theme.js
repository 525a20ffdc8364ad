// The theme toggle, and the palette for canvases. Knows no data. Whoever draws listens to onTheme and draws again.

const NAMES = [
  "bg",
  "card",
  "raised",
  "fg",
  "mut",
  "line",
  "grid",
  "acc",
  "queued",
  "prefill",
  "decode",
  "decode-edge",
  "preempted",
  "unused",
  "kv",
  "running",
  "tip-bg",
  "tip-fg",
  "r-step",
  "r-slots",
  "r-token_budget",
  "r-kv_blocks",
  "r-prefill_cap",
  "r-quota",
  "r-static_batch",
  "r-engine_down",
  "r-paused",
];
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print"); // is light
const listeners = new Set();
let cache = null;

/** Colours by name, as the style sheet has them now. */
export function palette() {
  if (!cache) {
    const style = getComputedStyle(root);
    cache = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return cache;
}

export function onTheme(listener) {
  listeners.add(listener);
}

function apply(choice) {
  const dark = !paper.matches && (choice === "dark" || (choice === "system" && system.matches));
  root.dataset.themeChoice = choice;
  root.dataset.theme = dark ? "dark" : "light";
  cache = null;
  press(choice);
  for (const listener of listeners) listener();
}

function press(choice) {
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    if (button !== root) button.setAttribute("aria-pressed", String(button.dataset.themeChoice === choice));
  }
}

export function startTheme() {
  press(root.dataset.themeChoice);
  for (const button of document.querySelectorAll("button[data-theme-choice]")) {
    button.addEventListener("click", () => {
      const choice = button.dataset.themeChoice;
      try {
        if (choice === "system") localStorage.removeItem("theme");
        else localStorage.setItem("theme", choice);
      } catch {
        // storage may be forbidden: the choice lasts as long as the page
      }
      apply(choice);
    });
  }
  paper.addEventListener("change", () => apply(root.dataset.themeChoice));
  system.addEventListener("change", () => {
    if (root.dataset.themeChoice === "system") apply("system");
  });
}
