/** The page's icons: strokes on a 20-unit square, drawn here so that nothing is loaded. */
import type { ReactNode } from "react";

const PATHS = {
  plus: "M10 4v12M4 10h12",
  folder:
    "M2.5 5.5a1.5 1.5 0 0 1 1.5-1.5h3.2l1.8 2H16a1.5 1.5 0 0 1 1.5 1.5v7A1.5 1.5 0 0 1 16 16H4a1.5 1.5 0 0 1-1.5-1.5z",
  search: "M9 15a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM13.5 13.5 17 17",
  send: "M10 16V4M5 9l5-5 5 5",
  chevron: "M7.5 5l5 5-5 5",
  down: "M5 7.5l5 5 5-5",
  toBottom: "M10 4v12M5 11l5 5 5-5",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  close: "M5 5l10 10M15 5L5 15",
  check: "M4 10.5l4 4 8-9",
  alert: "M10 3.5 17.5 16h-15zM10 8.5v3.5M10 14.2v.1",
  info: "M10 17.5a7.5 7.5 0 1 0 0-15 7.5 7.5 0 0 0 0 15zM10 9v5M10 6.3v.1",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  fork: "M6 6.2v1.3a3 3 0 0 0 3 3h2a3 3 0 0 0 3-3V6.2M10 10.5v3.3M4.4 4.6a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 1 0-3.2 0M12.4 4.6a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 1 0-3.2 0M8.4 15.4a1.6 1.6 0 1 0 3.2 0 1.6 1.6 0 1 0-3.2 0",
  pencil: "M4 16l1-4 8.5-8.5 3 3L8 15z",
  agents:
    "M10 3.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM10 7.5v3M5 16.5v-3.5h10v3.5M10 10.5V13M3.5 16.5h3M13.5 16.5h3",
  archive: "M3 4h14v3.5H3zM4.5 7.5V16h11V7.5M8 10.5h4",
  back: "M12.5 5l-5 5 5 5",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.6l.7-10",
  terminal: "M3 4.5h14v11H3zM6 8l2.5 2L6 12M10.5 12.5H14",
  file: "M5 3h6l4 4v10H5zM11 3v4h4",
  edit: "M11 3H5v14h10V9M9 11l6.5-6.5 1.5 1.5-6.5 6.5H9z",
  list: "M7 5.5h10M7 10h10M7 14.5h10M3.5 5.5h.01M3.5 10h.01M3.5 14.5h.01",
  glob: "M10 3v14M4 6.5l12 7M16 6.5l-12 7",
  bolt: "M11 2.5 4.5 11.5H10L9 17.5l6.5-9H10z",
  lock: "M5.5 9h9v7.5h-9zM7.5 9V6.5a2.5 2.5 0 0 1 5 0V9",
  menu: "M3 5.5h14M3 10h14M3 14.5h14",
  sun: "M10 13.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  moon: "M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5z",
  screen: "M3 4h14v9.5H3zM7.5 16.5h5M10 13.5v3",
  up: "M5 12.5l5-5 5 5",
  spark: "M10 3l1.6 4.4L16 9l-4.4 1.6L10 15l-1.6-4.4L4 9l4.4-1.6z",
  steer: "M4 10h10M10 5.5l4.5 4.5L10 14.5M16.5 4v12",
  eye: "M2.5 10S5 5 10 5s7.5 5 7.5 5-2.5 5-7.5 5-7.5-5-7.5-5zM10 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg
      className="icon"
      width={size}
      height={size}
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === "more" ? 2.4 : 1.6}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo({ size = 22 }: { size?: number }): ReactNode {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 32 32"
      fill="none"
      aria-hidden="true"
      className="logo"
    >
      <ellipse
        cx="16"
        cy="16"
        rx="13"
        ry="6"
        stroke="currentColor"
        strokeWidth="2"
        transform="rotate(-28 16 16)"
      />
      <circle cx="16" cy="16" r="4.6" className="logo-sun" />
      <circle cx="26.6" cy="9.8" r="2.6" fill="currentColor" />
    </svg>
  );
}
