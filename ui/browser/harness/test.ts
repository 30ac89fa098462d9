// Fixtures of every test: servers that are stopped afterwards, and a browser whose errors fail the test.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, test as base, type Cookie, type Download, type Page } from "@playwright/test";

import { FakeProvider, type ModelAnswer, type ModelRequest } from "./provider.ts";
import { TestServer, type Run, type ServerOptions } from "./server.ts";
import { Worker } from "./worker.ts";

export { expect, type Run, TestServer, Worker };

/** Errors in the browser; an error that the test does not allow fails the test. */
interface Faults {
  /** Allows errors that match the pattern. */
  allow(pattern: RegExp): void;
  /** All errors so far. */
  seen(): string[];
}

/** A server with finished runs, shared by the tests of a Playwright worker: a test may add data but not change it. */
export interface Shared {
  server: TestServer;
  /** A consultation of two rounds. */
  consult: Run;
  /** A program that fails at the first attempt. */
  code: Run;
  /** A program that writes an SVG file. */
  drawing: Run;
  debate: Run;
  /** A file-editing run whose draft was accepted; its workspace `site` also has an escalated and a rejected draft. */
  work: Run;
  /** Cookies of a signed-in browser. */
  cookies: Cookie[];
}

export const WATCHDOG = `#!/usr/bin/env python3
import sys


def main():
    print("watching")
    return 0


if __name__ == "__main__":
    sys.exit(main())
`;

interface Fixtures {
  serve: (options?: ServerOptions) => Promise<TestServer>;
  provider: (respond: (request: ModelRequest) => ModelAnswer) => Promise<FakeProvider>;
  faults: Faults;
}

/** Running servers; a request of the browser to any other address is an error. */
const servers = new Set<TestServer>();

async function startServer(options: ServerOptions): Promise<TestServer> {
  const server = await TestServer.start(options);
  servers.add(server);
  return server;
}

async function stopServer(server: TestServer): Promise<void> {
  servers.delete(server);
  await server.close();
}

export const test = base.extend<Fixtures, { shared: Shared }>({
  serve: async ({}, use) => {
    const all: TestServer[] = [];
    await use(async (options = {}) => {
      const server = await startServer(options);
      all.push(server);
      return server;
    });
    for (const server of all) await stopServer(server);
  },

  provider: async ({}, use) => {
    const all: FakeProvider[] = [];
    await use(async (respond) => {
      const provider = await FakeProvider.start(respond);
      all.push(provider);
      return provider;
    });
    for (const provider of all) await provider.close();
    expect(all.flatMap((provider) => provider.unexpected), "unexpected requests to the provider").toEqual([]);
  },

  faults: [
    // Depends on `serve`, so that it checks before the servers are stopped.
    async ({ context, serve: _ }, use, info) => {
      const errors: string[] = [];
      const allowed: RegExp[] = [];
      context.on("console", (message) => {
        if (message.type() === "error") errors.push(`console: ${message.text()} (${message.location().url})`);
      });
      // A violation of the content security policy is an error, though blocked: the page must not attempt it.
      await context.exposeBinding("__violation", (_, violation: string) => errors.push(`content security policy: ${violation}`));
      await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
          const { __violation } = window as unknown as { __violation: (violation: string) => void };
          __violation(`${event.effectiveDirective} stopped ${event.blockedURI} ${event.sample}`);
        });
      });
      context.on("weberror", (error) => errors.push(`page: ${error.error().stack ?? error.error().message}`));
      context.on("dialog", (dialog) => {
        errors.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      context.on("request", (request) => {
        const { protocol, origin } = new URL(request.url());
        const known = [...servers].some((server) => server.address === origin);
        if (/^(http|ws)s?:$/.test(protocol) && !known) errors.push(`request to an unknown server: ${request.url()}`);
      });
      await use({ allow: (pattern) => allowed.push(pattern), seen: () => [...errors] });
      const left = errors.filter((one) => !allowed.some((pattern) => pattern.test(one)));
      if (left.length > 0 || info.errors.length > 0) {
        for (const { address, log } of servers) await info.attach(`log of ${address}`, { body: log || "(empty)", contentType: "text/plain" });
      }
      expect(left, "errors in the browser").toEqual([]);
    },
    { auto: true },
  ],

  shared: [
    async ({}, use) => {
      const server = await startServer({ roots: ["site"] });
      await writeFile(join(server.folder("site"), "watchdog.py"), WATCHDOG);
      const [consult, code, drawing, debate, work] = await Promise.all([
        server.completeRun({ kind: "consult", ticker: "NVDA", rounds: 2 }),
        server.completeRun({ kind: "run", task: "Read data from users.json and print usernames" }),
        server.completeRun({ kind: "run", task: "Draw a sine wave as an SVG file" }),
        server.completeRun({ kind: "debate", document: "# Open a second bakery\n\nThe first one sells out by ten.", rounds: 2 }),
        server.completeRun({ kind: "work", workspace: "site", task: "Add --version flag to watchdog.py" }),
      ]);
      const worker = await Worker.connect(server, "site");
      // The gate escalates changes to build files, and rejects personal home paths.
      const escalated = await worker.submit("build", { ".gitlab-ci.yml": "build:\n  script: make\n", "NOTES.md": "# Notes\n\nIt watches.\n" }, "Say how it is built, and what it is");
      const rejected = await worker.submit("log", { "log.py": 'LOG = "/home/ada/watch.log"\n' }, "Write a log");
      expect([escalated.verdict, rejected.verdict]).toEqual(["escalated", "rejected"]);
      await use({ server, consult, code, drawing, debate, work, cookies: [] });
      await stopServer(server);
    },
    { scope: "worker", timeout: 180_000 },
  ],
});

/** Creates an escalated draft in the workspace `site` whose file has changed since. */
export async function createConflict(server: TestServer): Promise<{ path: string; base: string; draft: string; now: string }> {
  const name = ".gitlab-ci.yml";
  const path = join(server.folder("site"), name);
  const base = "build:\n  script: make\n";
  const draft = "build:\n  script: make all\n";
  const now = "# reviewed by the platform team\nbuild:\n  script: make\n";
  await writeFile(path, base);
  const worker = await Worker.connect(server, "site");
  expect((await worker.submit("build", { [name]: draft }, "Build everything")).verdict).toBe("escalated");
  await writeFile(path, now);
  return { path, base, draft, now };
}

/** Chooses the kind of trial in the start form. */
export async function chooseKind(page: Page, kind: "Consult" | "Code" | "Debate"): Promise<void> {
  await page.getByRole("radiogroup", { name: "Kind of trial" }).getByText(kind, { exact: true }).click();
  await expect(page.getByRole("radio", { name: kind })).toBeChecked();
}

/** Signs in with a link of the server, then opens a path of the page. */
export async function signIn(page: Page, server: TestServer, path = "/"): Promise<void> {
  await page.goto(await server.link());
  await expect(page.getByRole("navigation", { name: "Main" })).toBeVisible();
  // The one-time ticket is removed from the URL.
  expect(new URL(page.url()).search).toBe("");
  if (path !== "/") await page.goto(server.address + path);
}

/** Opens a path of the shared server; signs in once and reuses the cookies. */
export async function visit(page: Page, shared: Shared, path: string): Promise<void> {
  if (shared.cookies.length === 0) {
    await signIn(page, shared.server);
    shared.cookies = await page.context().cookies();
  }
  await page.context().addCookies(shared.cookies);
  await page.goto(shared.server.address + path);
}

/** Text of a downloaded file. */
export async function textOf(download: Download): Promise<string> {
  return readFile(await download.path(), "utf8");
}

/** Expects that the page does not scroll horizontally. */
export async function expectFits(page: Page): Promise<void> {
  const widths = await page.evaluate(() => {
    const root = document.scrollingElement ?? document.documentElement;
    const { scrollWidth: needs, clientWidth: has } = root;
    if (needs <= has) return { needs, has, beyond: [] };
    // For the message: elements beyond the right edge that no scrolling container clips.
    const beyond = [...document.querySelectorAll("body *")].filter((one) => {
      if (one.getBoundingClientRect().right <= has + 1) return false;
      for (let at = one.parentElement; at; at = at.parentElement) {
        if (at !== document.body && getComputedStyle(at).overflowX !== "visible") return false;
      }
      return true;
    });
    return { needs, has, beyond: beyond.slice(0, 4).map((one) => one.outerHTML.slice(0, 160)) };
  });
  // Soft, so that one failure does not hide the next.
  expect.soft(widths.needs, `${page.url()} is wider than its window: ${widths.beyond.join("\n")}`).toBeLessThanOrEqual(widths.has);
}
