// Subagents in the browser: delegated by the offline model, watched, opened, and there after a kill.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { folder, openPage, picture, startHost, startModelServer } from "./house.mjs";

const folders = ["alpha", "beta", "gamma"];
// Ten seconds: nobody waits for its end.
const slow = { text: "word ".repeat(400), delayMs: 25 };

function project(home) {
  const path = join(home, "project");
  for (const name of folders) {
    mkdirSync(join(path, name), { recursive: true });
    writeFileSync(join(path, name, "notes.md"), `# The ${name} part\n`);
  }
  return path;
}

/** Puts a scripted model behind every agent of a home. */
async function useScript(t, home, replies) {
  const script = join(home, "script.json");
  writeFileSync(script, JSON.stringify({ models: ["small"], strict: true, replies }));
  const config = [
    'default_model = "local/small"',
    "[providers.local]",
    'kind = "openai-chat"',
    `base_url = "${await startModelServer(t, script)}"`,
    'models = ["small"]',
  ];
  writeFileSync(join(home, "config.toml"), config.join("\n"));
}

async function startIn(page, host, cwd) {
  await page.getByTestId("composer-input").waitFor();
  await page.goto(`${host.url}/#/new/${encodeURIComponent(cwd)}`);
}

async function say(page, text) {
  await page.getByTestId("composer-input").fill(text);
  await page.keyboard.press("Enter");
}

test("agents are shown at work, opened by their own address, and there after a kill", async (t) => {
  const home = folder(t, "agents");
  const cwd = project(home);
  let host = await startHost(t, home, { cwd });
  const { page, errors } = await openPage(t, host.link);
  await startIn(page, host, cwd);
  await say(page, "summarise this repository with subagents");

  // A card for each folder, which is done in the end.
  const cards = page.getByTestId("agent-card");
  await cards.nth(2).waitFor();
  await page.locator('[data-testid="agent-card"][data-state="done"]').nth(2).waitFor();
  assert.equal(await cards.count(), 3);
  await page.getByTestId("agent-open").nth(2).waitFor();

  // Subagents are no rows of the list.
  assert.equal(await page.getByTestId("session-row").count(), 1);
  await page.getByTestId("agents").click();
  const rows = page.getByTestId("agent-row");
  await rows.nth(2).waitFor();
  assert.match(await rows.first().textContent(), /done/);
  await picture(page, "agents-tree");
  await page.keyboard.press("Escape");
  assert.equal(await page.getByTestId("agents-panel").count(), 0);

  // A child's own conversation, and the way back.
  const parentUrl = page.url();
  await cards.first().getByTestId("agent-open").click();
  await page.getByTestId("one-shot").waitFor();
  assert.equal(await page.getByTestId("composer-input").count(), 0);
  await page.getByTestId("message-assistant").last().waitFor();
  const childUrl = page.url();
  assert.match(childUrl, /#\/a\//);
  await picture(page, "agent-child");
  await page.getByTestId("crumb").click();
  await cards.nth(2).waitFor();
  assert.equal(page.url(), parentUrl);

  // The Host is killed: the page finds everything again, also by the child's own address.
  await host.kill();
  host = await startHost(t, home, { cwd, port: Number(new URL(host.url).port) });
  await page.goto(host.link);
  await page.goto(childUrl);
  await page.getByTestId("one-shot").waitFor();
  await page.getByTestId("message-assistant").last().waitFor();
  await page.getByTestId("crumb").click();
  await cards.nth(2).waitFor();
  assert.equal(await page.locator('[data-testid="agent-card"][data-state="done"]').count(), 3);
  await page.getByTestId("agents").click();
  await rows.nth(2).waitFor();
  await page.keyboard.press("Escape");

  // A link to a subagent as if it were a session leads to its own place.
  const child = await cards.first().getAttribute("data-session");
  await page.goto(`${host.url}/#/s/${child}`);
  await page.getByTestId("one-shot").waitFor();
  assert.equal(page.url(), childUrl);
  await page.setViewportSize({ width: 380, height: 760 });
  await page.getByTestId("sidebar").waitFor({ state: "hidden" });
  await picture(page, "agent-child-narrow");
  assert.deepEqual(errors, []);
});

test("a session is archived and deleted with a way back", async (t) => {
  const home = folder(t, "away");
  const cwd = project(home);
  const host = await startHost(t, home, { cwd });
  const { page, errors } = await openPage(t, host.link, { colorScheme: "dark" });
  await startIn(page, host, cwd);
  await say(page, "hello");
  const row = page.getByTestId("session-row");
  await row.waitFor();
  await page.getByTestId("message-assistant").last().waitFor();
  await page.getByTestId("send").waitFor();
  const choose = async (name) => {
    await row.first().hover();
    await row
      .first()
      .getByRole("button", { name: /^Session / })
      .click();
    await page.getByRole("menuitem", { name }).click();
  };
  await choose("Archive");
  await page.getByTestId("toast").waitFor();
  await page.getByTestId("archived").waitFor();
  assert.equal(await row.filter({ visible: true }).count(), 0);
  await page.getByTestId("undo").click();
  await page.getByTestId("archived").waitFor({ state: "detached" });
  await row.filter({ visible: true }).waitFor();

  await choose("Delete");
  await row.waitFor({ state: "detached" });
  await page.getByTestId("open-trash").click();
  await page.getByTestId("trashed").waitFor();
  await picture(page, "trash");
  await page.getByRole("button", { name: "Restore" }).click();
  await page.getByTestId("trashed").waitFor({ state: "detached" });
  await page.keyboard.press("Escape");
  await row.waitFor();
  assert.deepEqual(errors, []);
});

test("a subagent that stays is stopped and spoken to at its own place", async (t) => {
  const home = folder(t, "stays");
  const cwd = project(home);
  const task = { description: "count", prompt: "THE-CHILD counts", run_in_background: true };
  const replies = [
    {
      for: "THE-PARENT",
      toolCalls: [{ id: "c1", name: "subagent", arguments: JSON.stringify(task) }],
    },
    { for: "THE-PARENT", text: "It works by itself." },
    { for: "THE-CHILD", ...slow },
    { for: "THE-CHILD", text: "The second answer." },
    { for: "THE-PARENT", text: "Heard." },
    { for: "THE-PARENT", text: "Heard it all." },
  ];
  await useScript(t, home, replies);
  const host = await startHost(t, home, { cwd });
  const { page, errors } = await openPage(t, host.link);
  await startIn(page, host, cwd);
  await say(page, "THE-PARENT delegates");

  const card = page.getByTestId("agent-card");
  await page.locator('[data-testid="agent-card"][data-state="working"]').waitFor();
  await page.getByText("It works by itself.").waitFor();
  await card.getByTestId("agent-open").click();
  await page.getByTestId("crumb").waitFor();
  await page.getByText("word word").first().waitFor();
  await picture(page, "agent-speaks");
  await page.getByTestId("stop").click();
  await page.getByTestId("stop").waitFor({ state: "detached" });
  await page.getByText("Stopped").first().waitFor();

  await say(page, "THE-CHILD once more");
  await page.getByText("The second answer.").waitFor();
  await picture(page, "agent-answers");
  await page.getByTestId("crumb").click();
  // What the child came to is a notice in the parent's conversation, which goes on by it.
  await page.getByText("Heard it all.").waitFor();
  await page.locator('[data-testid="agent-card"][data-state="done"]').waitFor();
  await page.getByText("Subagent count: completed").waitFor();
  await picture(page, "agent-notice");
  assert.deepEqual(errors, []);
});

test("a Host that is killed while subagents work tells what was cut off, and goes on", async (t) => {
  const home = folder(t, "cut");
  const cwd = project(home);
  const call = (id) => {
    const task = { description: id, prompt: "THE-CHILD works", run_in_background: false };
    return { id, name: "subagent", arguments: JSON.stringify(task) };
  };
  await useScript(t, home, [
    { for: "THE-PARENT", toolCalls: [call("c1"), call("c2")] },
    { for: "THE-CHILD", ...slow },
    { for: "THE-CHILD", ...slow },
    { for: "THE-PARENT", text: "On it again." },
  ]);
  let host = await startHost(t, home, { cwd });
  const { page, errors } = await openPage(t, host.link);
  await startIn(page, host, cwd);
  await say(page, "THE-PARENT delegates");
  await page.locator('[data-testid="agent-card"][data-state="working"]').nth(1).waitFor();
  await page.getByTestId("agent-open").nth(1).waitFor();
  await picture(page, "agents-at-work");
  await host.kill();
  host = await startHost(t, home, { cwd, port: Number(new URL(host.url).port) });
  // The page finds the new Host by itself.
  const cut = page.locator('[data-testid="agent-card"][data-state="interrupted"]');
  await cut.nth(1).waitFor();
  await page.getByText("The Host stopped before this turn ended").waitFor();
  await picture(page, "agents-cut-off");
  await page.getByTestId("agents").click();
  // One that had not told yet who it is when the Host died is there, and why it cannot be shown.
  const rows = '[data-testid="agent-row"], [data-testid="agent-diagnostic"]';
  await page.locator(rows).nth(1).waitFor();
  await page.keyboard.press("Escape");
  await say(page, "THE-PARENT goes on");
  await page.getByText("On it again.").waitFor();
  assert.deepEqual(errors, []);
});
