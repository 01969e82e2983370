/** Light, dark, or what the system says. */
import { type ReactNode, useState } from "react";
import { applyTheme, storedTheme, type Theme } from "../lib/theme";
import { Icon, type IconName } from "./icons";

const CHOICES: ReadonlyArray<[Theme, IconName, string]> = [
  ["system", "screen", "Like the system"],
  ["light", "sun", "Light"],
  ["dark", "moon", "Dark"],
];

export function ThemeSwitch(): ReactNode {
  const [theme, setTheme] = useState(storedTheme);
  return (
    <fieldset className="theme-switch">
      <legend className="visually-hidden">Theme</legend>
      {CHOICES.map(([choice, icon, label]) => (
        <button
          key={choice}
          type="button"
          aria-pressed={theme === choice}
          aria-label={`Theme: ${label}`}
          title={label}
          onClick={() => {
            applyTheme(choice);
            setTheme(choice);
          }}
        >
          <Icon name={icon} size={14} />
        </button>
      ))}
    </fieldset>
  );
}
