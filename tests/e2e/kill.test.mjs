// A whole Host that is killed at any moment, again and again: what it accepted is in the log, once,
// and what was told before it was saved is what was saved.
//
// `ORRERY_KILL_ROUNDS` says how often; the log is read here as text, without the product's reader.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { caller, folder, program, startHost } from "./house.mjs";

const rounds = Number(process.env.ORRERY_KILL_ROUNDS ?? 8);
const prompts = ["hello", "read README.md", "list src", "count slowly to 50"];

/** The whole lines of the one log below a home. */
function logOf(home, session) {
  const sessions = join(home, "data/sessions");
  const [project] = readdirSync(sessions).filter((name) => name.startsWith("--"));
  const text = readFileSync(join(sessions, project, session, "session.jsonl"), "utf8");
  const whole = text.slice(0, text.lastIndexOf("\n"));
  return whole.split("\n").map((line) => JSON.parse(line));
}

/** Follows until the connection breaks; gives what came. */
async function follow(url, token, session, seen, ended) {
  try {
    const response = await fetch(`${url}/api/session/follow?sessionId=${session}`, {
      headers: { authorization: `Bearer ${token}` },
      signal: ended,
    });
    let rest = "";
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        const item = JSON.parse(line.slice(5));
        if (item.type === "event") seen.push(item.event);
      }
    }
  } catch {
    // That is what a kill looks like from here.
  }
}

test("a Host that is killed at any moment keeps every prompt that it accepted", async (t) => {
  const home = folder(t, "kill");
  const project = join(home, "project");
  mkdirSync(join(project, "src"), { recursive: true });
  writeFileSync(join(project, "README.md"), "# A lamp\n");
  writeFileSync(
    join(home, "config.toml"),
    '[session]\ncompression = "none"\ncheckpoint_every_events = 3\ncheckpoint_interval_ms = 20\n',
  );
  let session;
  const accepted = [];
  let number = 0;
  let compared = 0;
  let keeping = 0;
  for (let round = 0; round < rounds; round += 1) {
    const host = await startHost(t, home);
    const token = readFileSync(join(home, "state/token"), "utf8").trim();
    const post = caller(host, home);
    session ??= (await post("session/create", { cwd: project })).sessionId;
    const seen = [];
    const ended = new AbortController();
    const following = follow(host.url, token, session, seen, ended.signal);
    const before = accepted.length;
    // Prompts go on until the kill, so that one is under way whenever it comes.
    let alive = true;
    const prompting = (async () => {
      while (alive) {
        number += 1;
        const requestId = `prompt-${number}`;
        const content = [{ type: "text", text: prompts[number % prompts.length] }];
        try {
          const body = { requestId, sessionId: session, mode: "queue", content };
          await post("session/prompt", body);
        } catch (error) {
          if (alive && error instanceof assert.AssertionError) throw error;
          return;
        }
        accepted.push(requestId);
        if (accepted.length - before >= 4) return;
      }
    })();
    const moment = Math.random() * 400;
    await new Promise((resolve) => setTimeout(resolve, moment));
    alive = false;
    await host.kill();
    ended.abort();
    await Promise.all([prompting, following]);

    // Every log reads, and no checkpoint is ahead of its log or says other than it.
    const doctor = spawnSync(program, ["--home", home, "doctor"], { encoding: "utf8" });
    assert.equal(doctor.status, 0, doctor.stdout + doctor.stderr);
    if (/checkpoints of [1-9]/.test(doctor.stdout)) keeping += 1;

    const log = logOf(home, session);
    const inserted = log
      .filter((event) => event.type === "agent/inbox/spliced")
      .flatMap((event) => event.data.inserted.map((one) => one.source?.rpcId));
    const said = log
      .filter((event) => event.type === "user/message")
      .map((event) => event.data.source?.rpcId);
    for (const id of accepted) {
      const where = `${id} after ${moment.toFixed(1)} ms of round ${round}`;
      assert.equal(inserted.filter((one) => one === id).length, 1, where);
      assert.ok(said.filter((one) => one === id).length <= 1, where);
    }
    const saved = new Map(log.map((event) => [event.seq, event]));
    const synced = Math.max(
      -1,
      ...log
        .filter((event) => event.type === "agent/inbox/spliced")
        .filter((event) => event.data.inserted.some((one) => accepted.includes(one.source?.rpcId)))
        .map((event) => event.seq),
    );
    for (const event of seen) {
      // Pieces of an answer may be packed; what came after the last answer may be lost.
      if (event.type === "assistant/chunk" || event.seq > synced) continue;
      assert.deepEqual(saved.get(event.seq)?.data, event.data, `seq ${event.seq}`);
      compared += 1;
    }
  }
  assert.ok(accepted.length >= rounds / 2, `only ${accepted.length} prompts were accepted`);
  assert.ok(compared > 0, "no event was both followed and saved");
  assert.ok(keeping >= rounds / 2, `only after ${keeping} kills there were checkpoints`);
  t.diagnostic(`${accepted.length} prompts accepted, ${compared} followed events compared`);
});
