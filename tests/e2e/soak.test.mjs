// Two hundred subagents that come and go in one Host, some of them stopped on the way: afterwards it
// holds as many files, locks and threads as before, and hardly more memory.
//
// `ORRERY_SOAK_ROUNDS` says how often; each round is one delegation to 25 subagents.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { caller, folder, startHost } from "./house.mjs";

const rounds = Number(process.env.ORRERY_SOAK_ROUNDS ?? 10);
const folders = 25;
const patience = 60_000;
// What an allocator may keep between two looks, in KiB.
const slack = 24 * 1024;

/** What a process holds, as Linux tells it. */
function held(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const number = (name) => Number(status.match(new RegExp(`${name}:\\s+(\\d+)`))[1]);
  const names = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      return []; // Closed between the two looks.
    }
  });
  const sessions = names.filter((name) => name.includes("/data/sessions/"));
  const locks = readFileSync("/proc/locks", "utf8").split("\n");
  const own = locks.filter((lock) => lock.split(/\s+/)[4] === String(pid));
  return {
    memory: number("VmRSS"),
    threads: number("Threads"),
    files: sessions,
    locks: own.length,
  };
}

async function until(what, wanted) {
  const begin = Date.now();
  for (;;) {
    const found = await wanted();
    if (found) return found;
    assert.ok(Date.now() - begin < patience, `not within ${patience} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test("two hundred subagents that come and go leave nothing behind", async (t) => {
  const home = folder(t, "soak");
  const project = join(home, "project");
  for (let number = 0; number < folders; number += 1) {
    mkdirSync(join(project, `part${number}`), { recursive: true });
    writeFileSync(join(project, `part${number}`, "notes.md"), `# Part ${number}\n`);
  }
  writeFileSync(join(home, "config.toml"), "[session]\nidle_detach_seconds = 1\n");
  const host = await startHost(t, home);
  const post = caller(host, home);
  const children = async (parentSessionId) =>
    (await post("subagent/list", { parentSessionId })).entries;
  const nobodyRuns = async () => (await post("host/stats", {})).runningSessions === 0;
  const atRest = () =>
    until("no log is open", () => {
      const now = held(host.child.pid);
      return now.files.length === 0 && now;
    });

  let before;
  let made = 0;
  for (let round = 0; round < rounds; round += 1) {
    const { sessionId } = await post("session/create", { cwd: project });
    await post("session/prompt", {
      requestId: `soak-${round}`,
      sessionId,
      mode: "queue",
      content: [{ type: "text", text: "summarise this repository with subagents" }],
    });
    if (round % 5 === 4) {
      // Some are done then, some at work, and most were not begun.
      await until("several subagents are there", async () => {
        return (await children(sessionId)).length >= 12;
      });
      await post("session/cancel", { sessionId });
    }
    await until("everybody rests", nobodyRuns);
    const rows = await children(sessionId);
    if (round % 5 !== 4) assert.equal(rows.length, folders);
    made += rows.length;
    for (const row of rows) {
      assert.equal(row.kind === "child" && row.activity, "inactive", JSON.stringify(row));
    }
    if (round === 1) before = await atRest();
  }
  const after = await atRest();
  t.diagnostic(`${made} subagents; ${JSON.stringify({ before, after })}`);
  assert.ok(rounds < 10 || made >= 200, `${made} were made`);
  assert.equal(after.locks, before.locks);
  assert.ok(after.threads <= before.threads + 4, `${before.threads} to ${after.threads} threads`);
  assert.ok(after.memory <= before.memory + slack, `${before.memory} to ${after.memory} KiB`);
  assert.equal(await host.stop(), 0);
  assert.deepEqual(
    host.said.filter((text) => /WARN|ERROR/.test(text)),
    [],
  );
});
