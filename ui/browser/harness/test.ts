// What every test has: servers that are stopped behind it, and a browser in which nothing may go wrong unseen.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, test as base, type Cookie, type Download, type Page } from "@playwright/test";

import { FakeProvider, type Answer, type Question } from "./provider.ts";
import { Serving, type Run, type Wishes } from "./serving.ts";
import { Worker } from "./worker.ts";

export { expect, type Run, Serving, Worker };

/** What went wrong in the browser, apart from what a test expects. */
interface Faults {
  /** Lets go by what is wrong on purpose. */
  forgive(pattern: RegExp): void;
  /** What went wrong so far. */
  seen(): string[];
}

/** A server in which much has happened. It is shared: whoever changes something in it leaves the rest as it was. */
export interface Kept {
  serving: Serving;
  /** A consultation of two rounds, and programs, one of which failed at first and one of which left a file. */
  consult: Run;
  code: Run;
  drawn: Run;
  debate: Run;
  /** A worker whose draft was accepted in the workspace `site`, where another one waits and a third was rejected. */
  work: Run;
  /** Of somebody who came in by the link. */
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

interface Own {
  serve: (wishes?: Wishes) => Promise<Serving>;
  provider: (say: (question: Question) => Answer) => Promise<FakeProvider>;
  faults: Faults;
}

/** All servers there are: pages may be of these and of no others. */
const servers = new Set<Serving>();

async function started(wishes: Wishes): Promise<Serving> {
  const serving = await Serving.start(wishes);
  servers.add(serving);
  return serving;
}

async function ended(serving: Serving): Promise<void> {
  servers.delete(serving);
  await serving.close();
}

export const test = base.extend<Own, { kept: Kept }>({
  serve: async ({}, use) => {
    const all: Serving[] = [];
    await use(async (wishes = {}) => {
      const serving = await started(wishes);
      all.push(serving);
      return serving;
    });
    for (const serving of all) await ended(serving);
  },

  provider: async ({}, use) => {
    const all: FakeProvider[] = [];
    await use(async (say) => {
      const provider = await FakeProvider.start(say);
      all.push(provider);
      return provider;
    });
    for (const provider of all) await provider.close();
    expect(all.flatMap((provider) => provider.wrong), "what the provider was asked and should not have been").toEqual([]);
  },

  faults: [
    // After `serve`, so that it looks before the servers are stopped.
    async ({ context, serve: _ }, use, info) => {
      const wrong: string[] = [];
      const forgiven: RegExp[] = [];
      context.on("console", (message) => {
        if (message.type() === "error") wrong.push(`console: ${message.text()} (${message.location().url})`);
      });
      // Whatever the content security policy had to stop is wrong, too: nothing should have tried it.
      await context.exposeBinding("__violation", (_, what: string) => wrong.push(`content security policy: ${what}`));
      await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
          const { __violation } = window as unknown as { __violation: (what: string) => void };
          __violation(`${event.effectiveDirective} stopped ${event.blockedURI} ${event.sample}`);
        });
      });
      context.on("weberror", (error) => wrong.push(`page: ${error.error().stack ?? error.error().message}`));
      context.on("dialog", (dialog) => {
        wrong.push(`a dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      context.on("request", (request) => {
        const { protocol, origin } = new URL(request.url());
        const known = [...servers].some((serving) => serving.address === origin);
        if (/^(http|ws)s?:$/.test(protocol) && !known) wrong.push(`a request elsewhere: ${request.url()}`);
      });
      await use({ forgive: (pattern) => forgiven.push(pattern), seen: () => [...wrong] });
      const left = wrong.filter((one) => !forgiven.some((pattern) => pattern.test(one)));
      if (left.length > 0 || info.errors.length > 0) {
        for (const { address, log } of servers) await info.attach(`the log of ${address}`, { body: log || "(it said nothing)", contentType: "text/plain" });
      }
      expect(left, "what went wrong in the browser").toEqual([]);
    },
    { auto: true },
  ],

  kept: [
    async ({}, use) => {
      const serving = await started({ roots: ["site"] });
      await writeFile(join(serving.folder("site"), "watchdog.py"), WATCHDOG);
      const [consult, code, drawn, debate, work] = await Promise.all([
        serving.through({ kind: "consult", ticker: "NVDA", rounds: 2 }),
        serving.through({ kind: "run", task: "Read data from users.json and print usernames" }),
        serving.through({ kind: "run", task: "Draw a sine wave as an SVG file" }),
        serving.through({ kind: "debate", document: "# Open a second bakery\n\nThe first one sells out by ten.", rounds: 2 }),
        serving.through({ kind: "work", workspace: "site", task: "Add --version flag to watchdog.py" }),
      ]);
      const worker = await Worker.hired(serving, "site");
      // What builds is looked after by a person; a path of somebody's own machine is sent back.
      const waits = await worker.proposes("build", { ".gitlab-ci.yml": "build:\n  script: make\n", "NOTES.md": "# Notes\n\nIt watches.\n" }, "Say how it is built, and what it is");
      const goesBack = await worker.proposes("log", { "log.py": 'LOG = "/home/ada/watch.log"\n' }, "Write a log");
      expect([waits.verdict, goesBack.verdict]).toEqual(["escalated", "rejected"]);
      await use({ serving, consult, code, drawn, debate, work, cookies: [] });
      await ended(serving);
    },
    { scope: "worker", timeout: 180_000 },
  ],
});

/** A draft in the workspace `site` that waits for a reviewer, and whose file has changed since. */
export async function conflict(serving: Serving): Promise<{ path: string; base: string; draft: string; now: string }> {
  const name = ".gitlab-ci.yml";
  const path = join(serving.folder("site"), name);
  const base = "build:\n  script: make\n";
  const draft = "build:\n  script: make all\n";
  const now = "# reviewed by the platform team\nbuild:\n  script: make\n";
  await writeFile(path, base);
  const worker = await Worker.hired(serving, "site");
  expect((await worker.proposes("build", { [name]: draft }, "Build everything")).verdict).toBe("escalated");
  await writeFile(path, now);
  return { path, base, draft, now };
}

/** Chooses the kind of trial in the start form. */
export async function choose(page: Page, kind: "Consult" | "Code" | "Debate"): Promise<void> {
  await page.getByRole("radiogroup", { name: "What kind of trial" }).getByText(kind, { exact: true }).click();
  await expect(page.getByRole("radio", { name: kind })).toBeChecked();
}

/** Follows the link, as somebody does who has started the server, and goes on to an address of the page. */
export async function enter(page: Page, serving: Serving, path = "/"): Promise<void> {
  await page.goto(await serving.link());
  await expect(page.getByRole("navigation", { name: "Main" })).toBeVisible();
  // The ticket stays in no history.
  expect(new URL(page.url()).search).toBe("");
  if (path !== "/") await page.goto(serving.address + path);
}

/** Goes to an address of the shared server; whoever came in once need not follow a link again. */
export async function visit(page: Page, kept: Kept, path: string): Promise<void> {
  if (kept.cookies.length === 0) {
    await enter(page, kept.serving);
    kept.cookies = await page.context().cookies();
  }
  await page.context().addCookies(kept.cookies);
  await page.goto(kept.serving.address + path);
}

/** What was downloaded. */
export async function text(download: Download): Promise<string> {
  return readFile(await download.path(), "utf8");
}

/** Nothing lies beyond the right edge of the window, so that nobody has to push the page aside. */
export async function fits(page: Page): Promise<void> {
  const widths = await page.evaluate(() => {
    const root = document.scrollingElement ?? document.documentElement;
    const { scrollWidth: needs, clientWidth: has } = root;
    if (needs <= has) return { needs, has, beyond: [] };
    // Who it is, for whoever has to mend it: what reaches beyond, and is not scrolled within something else.
    const beyond = [...document.querySelectorAll("body *")].filter((one) => {
      if (one.getBoundingClientRect().right <= has + 1) return false;
      for (let at = one.parentElement; at; at = at.parentElement) {
        if (at !== document.body && getComputedStyle(at).overflowX !== "visible") return false;
      }
      return true;
    });
    return { needs, has, beyond: beyond.slice(0, 4).map((one) => one.outerHTML.slice(0, 160)) };
  });
  // One finding does not hide the next.
  expect.soft(widths.needs, `${page.url()} is wider than its window: ${widths.beyond.join("\n")}`).toBeLessThanOrEqual(widths.has);
}
