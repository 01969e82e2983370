/** Showing the place of a match where there is little room. */

/** How much text may stand before the first match, in UTF-16 units: about a line of the sidebar. */
const BEFORE = 32;

export interface Excerpt {
  text: string;
  /** In UTF-16 units of `text`. */
  ranges: readonly (readonly [number, number])[];
}

/**
 * The same text, begun anew at a word shortly before its first range, so that the range is among
 * the first that is seen. Ranges are in UTF-16 units.
 */
export function excerpt(text: string, ranges: readonly (readonly number[])[]): Excerpt {
  const pairs = ranges.map(([start = 0, end = 0]) => [start, end] as const);
  const first = pairs[0]?.[0] ?? 0;
  if (first <= BEFORE) return { text, ranges: pairs };
  const from = first - BEFORE;
  const space = text.slice(from, first).search(/\s/);
  let cut = space < 0 ? from : from + space + 1;
  // Never between the halves of one character.
  if (/[\uDC00-\uDFFF]/.test(text.charAt(cut))) cut += 1;
  const moved = pairs.map(([start, end]) => [start - cut + 1, end - cut + 1] as const);
  return { text: `…${text.slice(cut)}`, ranges: moved };
}
