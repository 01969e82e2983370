import { describe, expect, it } from "vitest";
import { excerpt } from "../src/lib/excerpt";

describe("an excerpt", () => {
  const cut = (text: string, word: string) => {
    const start = text.indexOf(word);
    const made = excerpt(text, [[start, start + word.length]]);
    const [from, to] = made.ranges[0] ?? [0, 0];
    return { text: made.text, marked: made.text.slice(from, to) };
  };

  it("stays whole while its first match is near", () => {
    expect(cut("a short way to the match", "match").text).toBe("a short way to the match");
  });

  it("begins at a word shortly before a match that is far", () => {
    const { text, marked } = cut(`${"and so on ".repeat(20)}to the match and more`, "match");
    expect(marked).toBe("match");
    expect(text).toMatch(/^…(and|so|on) [a-z ]{8,28}to the match and more$/);
  });

  it("never begins with half a character", () => {
    for (let shift = 0; shift < 4; shift += 1) {
      const { text, marked } = cut(`${"x".repeat(shift)}${"😀".repeat(60)}match`, "match");
      expect(marked).toBe("match");
      expect(text).not.toMatch(
        /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/,
      );
    }
  });

  it("is the text where nothing matches", () => {
    expect(excerpt("text", [])).toEqual({ text: "text", ranges: [] });
  });
});
