import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { ago, amount, duration, relative, tilde, untilde, visible } from "../src/lib/format";
import { permissionOf } from "../src/lib/permission";
import type { ToolNode } from "../src/transcript/model";
import { Markdown } from "../src/views/markdown";
import { describe as describeCall, plain } from "../src/views/tool-body";

const html = (text: string) => renderToStaticMarkup(<Markdown text={text} />);

describe("markdown", () => {
  it("becomes elements", () => {
    expect(html("# T\n\n**b** *i* `c & d`\n\n- [x] done\n- two")).toBe(
      '<div class="prose"><h2 data-depth="1">T</h2><p><strong>b</strong> <em>i</em> <code>c &amp; d</code></p>' +
        '<ul><li class="task"><input type="checkbox" readOnly="" aria-label="task state" checked=""/>done</li><li>two</li></ul></div>',
    );
  });

  it("shows HTML as text and opens no dangerous link", () => {
    const text = html(
      '<img src=x onerror="alert(1)">\n\n[a](javascript:alert(1)) [b](https://b.example)',
    );
    expect(text).not.toContain("<img");
    expect(text).not.toContain('href="javascript');
    expect(text).toContain('href="https://b.example" target="_blank" rel="noopener noreferrer"');
  });

  it("links an image instead of fetching it", () => {
    expect(html("![x](https://t.example/a.png)")).not.toContain("<img");
  });

  it("keeps an unfinished fence as code", () => {
    expect(html("```rust\nfn main() {")).toContain("<code>fn main() {</code>");
  });

  it("writes what people meant by entities once", () => {
    expect(html("a &lt; b &amp;&amp; c < d")).toContain("a &lt; b &amp;&amp; c &lt; d");
  });
});

describe("words", () => {
  it("write times and amounts in their shortest form", () => {
    const minute = 60_000;
    expect([0, 5, 90, 60 * 50, 60 * 24 * 45, 60 * 24 * 800].map((m) => ago(0, m * minute))).toEqual(
      ["now", "5m", "1h", "2d", "1mo", "2y"],
    );
    expect([400, 9_960, 61_000].map(duration)).toEqual(["0.4s", "10s", "1m 01s"]);
    expect([950, 1234, 34_000, 1_500_000].map(amount)).toEqual(["950", "1.2k", "34k", "1.5M"]);
  });

  it("spell out what would turn or hide what is read", () => {
    expect(visible("a\u202eb\tc\n\u0007")).toBe("a\\u{202e}b\tc\n\\u{7}");
  });

  it("claim no change of a call that failed", () => {
    const node = {
      name: "edit",
      state: "failed",
      meta: {},
    } as unknown as ToolNode;
    const args = { path: "a.md", old_string: "a", new_string: "b" };
    const failed = describeCall(node, args, undefined);
    expect([failed.verb, failed.note]).toEqual(["Edit", undefined]);
    const done = describeCall({ ...node, state: "done" }, args, undefined);
    expect([done.verb, done.note]).toEqual(["Edited", "+1 −1"]);
    const ran = describeCall({ ...node, name: "bash" }, { command: "false" }, undefined);
    expect(ran.verb).toBe("Ran");
  });

  it("shorten paths", () => {
    expect([tilde("/home/x/a", "/home/x"), tilde("/home/xy", "/home/x"), tilde("/a", "/")]).toEqual(
      ["~/a", "/home/xy", "/a"],
    );
    expect([untilde("~/a", "/home/x"), untilde("~", "/home/x"), untilde("~b", "/home/x")]).toEqual([
      "/home/x/a",
      "/home/x",
      "~b",
    ]);
    expect(relative("/p/src/a.rs", "/p")).toBe("src/a.rs");
  });

  it("name the permission in force from projections, then the log, then the default", () => {
    expect(
      permissionOf({ permissions: { currentValue: "read-only" } }, "workspace-write").label,
    ).toBe("Read only");
    expect(permissionOf({}, "danger-full-access").label).toBe("Full access");
    const custom = { currentValue: "mine", options: [{ value: "mine", name: "My own" }] };
    expect(permissionOf({ permissions: custom }, undefined).label).toBe("My own");
    expect(permissionOf({}, undefined).id).toBe("workspace-write");
  });

  it("take the colours of a terminal away", () => {
    expect(plain("\u001b[1;32mok\u001b[0m \u001b]8;;x\u0007link")).toBe("ok link");
  });
});
