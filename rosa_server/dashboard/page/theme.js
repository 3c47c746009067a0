// Before the first paint: the theme that was chosen last, so that a dark page does not flash white.
(() => {
  const chosen = localStorage.getItem("rosa-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
