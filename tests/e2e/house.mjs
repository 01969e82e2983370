// What the browser tests share: a Host of their own, a browser, and patience with a limit.
//
// Programs come from the environment (`cargo xtask test` sets it), with the debug build as default.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = process.env.ORRERY_ROOT ?? fileURLToPath(new URL("../../", import.meta.url));
export const program = process.env.ORRERY_BIN ?? join(root, "target/debug/orrery");
const modelServer = process.env.ORRERY_MODEL_SERVER ?? join(root, "target/debug/model-server");
const browserPath = process.env.ORRERY_BROWSER ?? "/usr/bin/chromium";
const pictures = join(root, "tests/e2e/out");

// The browser driver is installed with the page's own packages.
const { chromium } = createRequire(join(root, "web/package.json"))("playwright-core");

/** A folder that goes with the test. */
export function folder(t, name) {
  const path = mkdtempSync(join(tmpdir(), `orrery-${name}-`));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The first line of a child's output that satisfies, or its end as a failure. */
async function line(child, stream, wanted) {
  const lines = createInterface({ input: stream });
  try {
    for await (const text of lines) {
      const found = wanted(text);
      if (found) return found;
    }
  } finally {
    lines.close();
    stream.resume();
  }
  throw new Error(`the program ended early with ${child.exitCode}`);
}

/** Starts a Host on a home folder; `link` signs a browser in once. */
export async function startHost(t, home, options = {}) {
  const args = ["--home", home, "serve", "--port", String(options.port ?? 0)];
  const child = spawn(program, args, {
    cwd: options.cwd ?? home,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ORRERY_HOME: "" },
  });
  const said = [];
  child.stderr.setEncoding("utf8");
  let announce;
  const link = new Promise((resolve) => {
    announce = resolve;
  });
  child.stderr.on("data", (text) => {
    said.push(text);
    const found = said.join("").match(/http:\/\/\S+\?token=\S+/);
    if (found) announce(found[0]);
  });
  const url = await line(child, child.stdout, (text) => text.match(/http:\/\/\S+/)?.[0]);
  const host = {
    url,
    link: await link,
    child,
    said,
    /** Ends it as a power cut does. */
    async kill() {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
    /** Ends it as a service manager does; gives its exit code. */
    async stop() {
      child.kill("SIGTERM");
      const [code] = await once(child, "exit");
      return code;
    },
  };
  t.after(() => {
    if (child.exitCode === null) child.kill("SIGKILL");
  });
  return host;
}

/** Calls operations of a Host as a program does; each must succeed. */
export function caller(host, home) {
  const token = readFileSync(join(home, "state/token"), "utf8").trim();
  return async (name, body) => {
    const response = await fetch(`${host.url}/api/${name}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer;
  };
}

/** Starts the scripted model server; gives its base URL. */
export async function startModelServer(t, script) {
  const child = spawn(modelServer, [script], { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  return line(child, child.stdout, (text) => text.match(/http:\/\/\S+/)?.[0]);
}

/** A browser page that fails the test on any error of the page's own. */
export async function openPage(t, url, options = {}) {
  const browser = await chromium.launch({
    executablePath: browserPath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  t.after(() => browser.close());
  const context = await browser.newContext({
    viewport: options.viewport ?? { width: 1280, height: 800 },
    colorScheme: options.colorScheme ?? "light",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    // A lost connection is what some of these tests are about.
    const lost = /ERR_CONNECTION|WebSocket connection|Failed to fetch|401|Failed to load resource/;
    if (message.type() === "error" && !lost.test(message.text())) errors.push(message.text());
  });
  await page.goto(url);
  return { page, context, errors };
}

/** Keeps a picture for a person to look at. */
export async function picture(page, name) {
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}
