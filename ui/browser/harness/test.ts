// Playwright fixtures that all tests use: servers that are stopped after the test, and a check that fails the test if
// the browser reports an error.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, test as base, type Cookie, type Download, type Page } from "@playwright/test";

import { FakeProvider, type ModelAnswer, type ModelRequest } from "./provider.ts";
import { TestServer, type Run, type ServerOptions } from "./server.ts";
import { DraftClient } from "./draft-client.ts";

export { expect, type Run, TestServer, DraftClient };

/** Errors that the browser reports. After a test, each error that the test has not allowed fails the test. */
interface BrowserErrors {
  /** Allows the errors that match the pattern. */
  allow(pattern: RegExp): void;
  /** Returns all errors so far, allowed or not. */
  seen(): string[];
}

/**
 * Server with finished runs, which all tests of a Playwright worker process share. A test may add data, but must not
 * change existing data.
 */
export interface Shared {
  server: TestServer;
  /** Finished consultation with two rounds per debate. */
  consult: Run;
  /** Finished code run whose first program failed. */
  code: Run;
  /** Finished code run whose program wrote an SVG file. */
  svgRun: Run;
  debate: Run;
  /**
   * Finished file-editing run whose draft was accepted. Its workspace `site` also has an escalated and a rejected
   * submission.
   */
  work: Run;
  /** Cookies of a signed-in browser; empty until the first sign-in. */
  cookies: Cookie[];
}

/** Python program that tests put into a workspace, for models to edit. */
export const WATCHDOG = `#!/usr/bin/env python3
import sys


def main():
    print("watching")
    return 0


if __name__ == "__main__":
    sys.exit(main())
`;

interface Fixtures {
  /** Starts a server, which is stopped after the test. */
  serve: (options?: ServerOptions) => Promise<TestServer>;
  /** Starts a fake model provider, which is stopped after the test. */
  provider: (respond: (request: ModelRequest) => ModelAnswer) => Promise<FakeProvider>;
  browserErrors: BrowserErrors;
}

/** Running servers. A request of the browser to any other server is reported as an error. */
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
    expect(all.flatMap((provider) => provider.unexpected), "requests to the fake provider that failed its checks").toEqual([]);
  },

  browserErrors: [
    // This fixture depends on `serve`, so that Playwright checks the errors before it stops the servers.
    async ({ context, serve: _ }, use, info) => {
      const errors: string[] = [];
      const allowed: RegExp[] = [];
      context.on("console", (message) => {
        if (message.type() === "error") errors.push(`console: ${message.text()} (${message.location().url})`);
      });
      // The browser blocks violations of the content security policy. The page must not cause any, so they count as
      // errors.
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
      expect(left, "errors in the browser that the test did not allow").toEqual([]);
    },
    { auto: true },
  ],

  shared: [
    async ({}, use) => {
      const server = await startServer({ roots: ["site"] });
      await writeFile(join(server.folder("site"), "watchdog.py"), WATCHDOG);
      const [consult, code, svgRun, debate, work] = await Promise.all([
        server.completeRun({ kind: "consult", ticker: "NVDA", rounds: 2 }),
        server.completeRun({ kind: "run", task: "Read data from users.json and print usernames" }),
        server.completeRun({ kind: "run", task: "Draw a sine wave as an SVG file" }),
        server.completeRun({ kind: "debate", document: "# Open a second bakery\n\nThe first one sells out by ten.", rounds: 2 }),
        server.completeRun({ kind: "work", workspace: "site", task: "Add --version flag to watchdog.py" }),
      ]);
      const agent = await DraftClient.connect(server, "site");
      // The gate escalates changes to build files, and rejects personal home paths.
      const escalated = await agent.submit("build", { ".gitlab-ci.yml": "build:\n  script: make\n", "NOTES.md": "# Notes\n\nIt watches.\n" }, "Say how it is built, and what it is");
      const rejected = await agent.submit("log", { "log.py": 'LOG = "/home/ada/watch.log"\n' }, "Write a log");
      expect([escalated.verdict, rejected.verdict]).toEqual(["escalated", "rejected"]);
      await use({ server, consult, code, svgRun, debate, work, cookies: [] });
      await stopServer(server);
    },
    { scope: "worker", timeout: 180_000 },
  ],
});

/** Creates an escalated submission in the workspace `site` and then changes the same file, which causes a conflict. */
export async function createConflict(server: TestServer): Promise<{ path: string; base: string; draft: string; now: string }> {
  const name = ".gitlab-ci.yml";
  const path = join(server.folder("site"), name);
  const base = "build:\n  script: make\n";
  const draft = "build:\n  script: make all\n";
  const now = "# reviewed by the platform team\nbuild:\n  script: make\n";
  await writeFile(path, base);
  const agent = await DraftClient.connect(server, "site");
  expect((await agent.submit("build", { [name]: draft }, "Build everything")).verdict).toBe("escalated");
  await writeFile(path, now);
  return { path, base, draft, now };
}

/** Chooses the kind of trial in the start form. */
export async function chooseKind(page: Page, kind: "Consult" | "Code" | "Debate"): Promise<void> {
  await page.getByRole("radiogroup", { name: "Kind of trial" }).getByText(kind, { exact: true }).click();
  await expect(page.getByRole("radio", { name: kind })).toBeChecked();
}

/** Signs in with a sign-in link of the server, then opens a path of the page. */
export async function signIn(page: Page, server: TestServer, path = "/"): Promise<void> {
  await page.goto(await server.link());
  await expect(page.getByRole("navigation", { name: "Main" })).toBeVisible();
  // The page removes the one-time ticket of the sign-in link from the URL.
  expect(new URL(page.url()).search).toBe("");
  if (path !== "/") await page.goto(server.address + path);
}

/** Opens a path of the shared server. The first call signs in; later calls reuse its cookies. */
export async function visit(page: Page, shared: Shared, path: string): Promise<void> {
  if (shared.cookies.length === 0) {
    await signIn(page, shared.server);
    shared.cookies = await page.context().cookies();
  }
  await page.context().addCookies(shared.cookies);
  await page.goto(shared.server.address + path);
}

/** Returns the content of a downloaded file as text. */
export async function textOf(download: Download): Promise<string> {
  return readFile(await download.path(), "utf8");
}

/** Expects that the page is not wider than its window, so that it does not scroll horizontally. */
export async function expectFits(page: Page): Promise<void> {
  const widths = await page.evaluate(() => {
    const root = document.scrollingElement ?? document.documentElement;
    const { scrollWidth: needs, clientWidth: has } = root;
    if (needs <= has) return { needs, has, beyond: [] };
    // For the failure message, find elements beyond the right edge that are not inside a scrolling container.
    const beyond = [...document.querySelectorAll("body *")].filter((one) => {
      if (one.getBoundingClientRect().right <= has + 1) return false;
      for (let at = one.parentElement; at; at = at.parentElement) {
        if (at !== document.body && getComputedStyle(at).overflowX !== "visible") return false;
      }
      return true;
    });
    return { needs, has, beyond: beyond.slice(0, 4).map((one) => one.outerHTML.slice(0, 160)) };
  });
  // A soft assertion: the test continues after a failure, so that later failures are reported too.
  expect.soft(widths.needs, `${page.url()} is wider than its window: ${widths.beyond.join("\n")}`).toBeLessThanOrEqual(widths.has);
}
