// The main job, in a real browser against the real binary: pick a folder, prompt, watch, allow,
// stop, reload, and find everything again after the Host was killed in the middle of a turn.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { folder, openPage, picture, startHost } from "./house.mjs";

const id = (name) => `[data-testid="${name}"]`;

function project(t) {
  const path = folder(t, "project");
  writeFileSync(join(path, "README.md"), "# Lighthouse\n\nA lamp for ships.\n");
  mkdirSync(join(path, "src"));
  writeFileSync(join(path, "src", "lamp.js"), "export const lit = true;\n");
  return path;
}

/** Picks a folder through the dialog, by its path, with or without a look into it; the next prompt
 * opens a session in it. */
async function pick(page, path, look = true) {
  await page.locator(id("new-session")).click();
  await page.locator(id("choose-folder")).first().click();
  const dialog = page.locator(id("folder-dialog"));
  await dialog.getByRole("button", { name: "Type a path" }).click();
  await dialog.locator(id("folder-path")).fill(path);
  if (look) {
    await dialog.locator(id("folder-path")).press("Enter");
    await dialog.locator(id("folder-entry")).getByText("src").waitFor();
    await picture(page, "02-folder-dialog");
  }
  await dialog.locator(id("folder-choose")).click();
  await dialog.waitFor({ state: "hidden" });
}

async function say(page, text) {
  const input = page.locator(id("composer-input"));
  await input.fill(text);
  await input.press("Enter");
}

async function idle(page) {
  await page.locator(id("stop")).waitFor({ state: "hidden" });
}

test("a person works with the offline model in a folder of theirs", async (t) => {
  const home = folder(t, "home");
  const path = project(t);
  const host = await startHost(t, home, { cwd: path });
  const { page, errors } = await openPage(t, host.link);
  await page.locator(id("sidebar")).waitFor();
  await picture(page, "01-start");
  await pick(page, path);

  await say(page, "read README.md");
  await page.locator(id("message-user")).getByText("read README.md").waitFor();
  await page.locator(id("tool-card")).first().waitFor();
  await idle(page);
  await page.locator(id("message-assistant")).last().waitFor();
  await picture(page, "03-answer");

  await say(page, "run `echo made-by-hand > made.txt`");
  await page.locator(id("approval-allow")).first().waitFor();
  assert.equal(existsSync(join(path, "made.txt")), false, "nothing runs before it is allowed");
  await picture(page, "04-approval");
  await page.locator(id("approval-allow")).first().click();
  await idle(page);
  assert.equal(existsSync(join(path, "made.txt")), true);

  await say(page, "run `echo never > refused.txt`");
  await page.locator(id("approval-refuse")).first().click();
  await idle(page);
  assert.equal(existsSync(join(path, "refused.txt")), false);
  await picture(page, "05-refused");

  await say(page, "count slowly to 500");
  await page.locator(id("stop")).waitFor();
  await page.getByText("12", { exact: false }).first().waitFor();
  await say(page, "list src");
  await page.locator(id("queue-item")).first().waitFor();
  await picture(page, "06-streaming-and-queue");
  await page.locator(id("stop")).click();
  await idle(page);
  await page.locator(id("queue-item")).first().waitFor();
  await picture(page, "07-stopped-and-parked");

  const before = await page.locator(id("message-user")).count();
  await page.reload();
  await page
    .locator(id("message-user"))
    .nth(before - 1)
    .waitFor();
  assert.equal(await page.locator(id("message-user")).count(), before);
  await picture(page, "08-reloaded");
  assert.deepEqual(errors, []);
  assert.equal(await host.stop(), 0, "SIGTERM drains and exits 0");
});

test("a Host that is killed in the middle of a turn comes back with everything", async (t) => {
  const home = folder(t, "home");
  const path = project(t);
  const first = await startHost(t, home, { cwd: path });
  const port = Number(new URL(first.url).port);
  const { page, errors } = await openPage(t, first.link, { colorScheme: "dark" });
  await page.locator(id("sidebar")).waitFor();
  await pick(page, path, false);
  await say(page, "read README.md");
  await page
    .locator(id("stop"))
    .waitFor({ state: "visible" })
    .catch(() => {});
  await idle(page);
  await say(page, "count slowly to 500");
  await page.getByText("15", { exact: false }).first().waitFor();
  await first.kill();
  await page.waitForFunction(
    (selector) => !/^connected$/i.test(document.querySelector(selector)?.dataset.state ?? ""),
    id("connection-state"),
  );
  await picture(page, "09-connection-lost");

  const second = await startHost(t, home, { cwd: path, port });
  await page
    .getByText(/interrupted/i)
    .first()
    .waitFor();
  await picture(page, "10-interrupted-dark");
  await say(page, "list src");
  await page.getByText("lamp.js", { exact: false }).first().waitFor();
  await idle(page);
  const prompts = await page.locator(id("message-user")).allInnerTexts();
  const said = (text) => prompts.filter((prompt) => prompt.includes(text)).length;
  assert.deepEqual(
    [said("read README.md"), said("count slowly to 500"), said("list src")],
    [1, 1, 1],
    "no message is lost or doubled",
  );
  await picture(page, "11-goes-on");
  assert.deepEqual(errors, []);
  assert.equal(await second.stop(), 0);
});
