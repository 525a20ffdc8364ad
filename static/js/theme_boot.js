// Sets the theme before the first paint; a classic script, since modules run too late. theme.js does the rest.
(function () {
  let choice = "system";
  try {
    choice = localStorage.getItem("theme") || "system";
  } catch {
    // storage may be forbidden: the system's theme then
  }
  const dark = choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.dataset.themeChoice = choice;
})();
