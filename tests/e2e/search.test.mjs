// Finding something said: type, see where it stands, click, and be at that message.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";

import { folder, openPage, picture, program, startHost } from "./house.mjs";

const id = (name) => `[data-testid="${name}"]`;

function run(home, cwd, ...words) {
  const done = spawnSync(program, ["--home", home, ...words], { cwd, encoding: "utf8" });
  assert.equal(done.status, 0, done.stdout + done.stderr);
  return done.stdout;
}

test("a person finds an old message from the sidebar and lands on it", async (t) => {
  const home = folder(t, "search");
  const path = folder(t, "project");
  const filler = "and so on ".repeat(40);
  run(home, path, "run", `hello ${filler} the parseHttpHeader of Zanzibar 会话控制器`);
  const listed = JSON.parse(run(home, path, "sessions", "list", "--json"));
  const { sessionId } = listed.items[0];
  for (let turn = 0; turn < 12; turn += 1) {
    run(home, path, "run", "--session", sessionId, `hello number ${turn} ${filler}`);
  }
  run(home, path, "run", "hello something else");

  const host = await startHost(t, home, { cwd: path });
  const { page, errors } = await openPage(t, host.link);

  const field = page.locator(id("sidebar")).getByRole("searchbox");
  const hit = page.locator(id("search-hit"));
  for (const query of ["zanzi", "header", "控制"]) {
    await field.fill(query);
    await page.locator(`${id("search-results")}[aria-busy="false"]`).waitFor();
    await hit.first().waitFor();
    assert.equal(await hit.count(), 1, query);
    assert.equal(await hit.first().getAttribute("data-session"), sessionId);
    const marks = await hit.first().locator("mark").allTextContents();
    const shown = await hit.first().locator("mark").first().boundingBox();
    const snippet = await hit.first().locator(".found-snippet").boundingBox();
    assert.ok(shown.y + shown.height <= snippet.y + snippet.height + 1, "the mark is seen");
    assert.ok(marks.join(" ").toLowerCase().includes(query), `${query}: ${marks}`);
  }
  await picture(page, "search-01-results");
  await field.fill("nobodyeversaidthis");
  await page.getByText("No message holds").waitFor();

  await field.fill("zanzi");
  await hit.first().click();
  const row = page.locator(".row.found");
  await row.getByText("Zanzibar").waitFor();
  await page.waitForFunction(() => {
    const found = document.querySelector(".row.found")?.getBoundingClientRect();
    return found !== undefined && found.bottom > 0 && found.top < window.innerHeight;
  });
  assert.match(page.url(), /[?]at=\d+/);
  await picture(page, "search-02-landed");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "search-03-dark");

  // The same from the terminal, while the Host runs.
  const found = JSON.parse(run(home, path, "sessions", "search", "zanzibar", "--json"));
  assert.deepEqual(
    found.items.map((item) => item.sessionId),
    [sessionId],
  );
  assert.deepEqual(errors, []);
});
