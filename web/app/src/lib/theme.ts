/** Light, dark, or what the system says. */
export type Theme = "system" | "light" | "dark";

const KEY = "orrery.theme";

export function storedTheme(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") {
    localStorage.removeItem(KEY);
    document.documentElement.removeAttribute("data-theme");
  } else {
    localStorage.setItem(KEY, theme);
    document.documentElement.setAttribute("data-theme", theme);
  }
}
