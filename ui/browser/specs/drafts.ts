// Drafts: what a worker proposes waits for a person, who accepts, undoes and rejects it.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { conflict, enter, expect, fits, test, Worker } from "../harness/test.ts";
import { DESKTOP, PHONE } from "../harness/views.ts";

// What builds is looked after by a person.
const FILE = ".gitlab-ci.yml";
const OLD = "build:\n  script: make\n";
const NEW = "build:\n  script: make all\n";

/** Chooses a draft in the list. */
async function open(page: Page, summary: string): Promise<void> {
  await page.getByRole("main").getByRole("listitem").getByRole("link", { name: summary }).click();
  await expect(page.getByRole("heading", { level: 2, name: summary })).toBeVisible();
}

test("a draft is looked at, accepted and undone; another is rejected", async ({ page, serve }) => {
  const serving = await serve({ roots: ["site"] });
  await serving.command("drafts", "init", "--workspace", serving.folder("site"), "--yes");
  const path = join(serving.folder("site"), FILE);
  const onDisk = () => readFile(path, "utf8");
  await writeFile(path, OLD);
  await enter(page, serving);
  await page.getByRole("link", { name: "Drafts" }).click();
  await expect(page.getByText("No submissions yet")).toBeVisible();

  // It comes while somebody looks.
  const worker = await Worker.hired(serving, "site");
  expect((await worker.proposes("build", { [FILE]: NEW }, "Build everything")).verdict).toBe("escalated");
  await expect(page.getByText("Waiting for you")).toBeVisible();
  await open(page, "Build everything");
  const main = page.getByRole("main");
  // The log has it once more, further down.
  await expect(main.getByText(`${FILE} [protected]`).first()).toBeVisible();
  await expect(main.getByText("this file is protected").first()).toBeVisible();
  await page.getByRole("button", { name: "Side by side" }).click();
  const beside = main.getByRole("row").filter({ hasText: "make all" });
  await expect(beside.getByRole("cell").filter({ hasText: "script" })).toHaveText([/script: make$/, /script: make all$/]);
  expect(await onDisk()).toBe(OLD);

  await page.getByRole("button", { name: "Accept" }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
  expect(await onDisk()).toBe(NEW);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(main.getByText("undone", { exact: true }).first()).toBeVisible();
  expect(await onDisk()).toBe(OLD);
  await page.getByText("What happened in this task, from the log").click();
  await expect(main.getByRole("group")).toContainText(/requested.*submitted.*decided.*applied.*undone/s);

  await worker.proposes("build", { [FILE]: `${NEW}# and more\n` }, "Build more");
  await page.goto(`${serving.address}/drafts/site`);
  await open(page, "Build more");
  await page.getByRole("textbox", { name: "What the worker is told" }).fill("Not before Friday");
  await page.getByRole("button", { name: "Reject" }).click();
  await expect(page.getByRole("button", { name: "Reject" })).toBeHidden();
  await expect(main.getByText("Not before Friday").first()).toBeVisible();
  expect(await onDisk()).toBe(OLD);

});

test("a conflicting draft shows both sides before it overwrites the newer file", async ({ page, serve }) => {
  const serving = await serve({ roots: ["site"] });
  await serving.command("drafts", "init", "--workspace", serving.folder("site"), "--yes");
  const { path, draft, now } = await conflict(serving);
  await enter(page, serving, "/drafts/site");
  await open(page, "Build everything");
  const main = page.getByRole("main");
  await expect(main.getByText("Conflict: a file has changed since the draft was created")).toBeVisible();
  const side = (name: string) => main.getByRole("region", { name }).getByRole("row");
  await expect(side("The file now").filter({ hasText: "reviewed" })).toHaveText([/\+ # reviewed by the platform team$/]);
  await expect(side("The draft").filter({ hasText: "script" })).toHaveText([/− +script: make$/, /\+ +script: make all$/]);
  await page.setViewportSize(PHONE);
  await fits(page);
  await page.setViewportSize(DESKTOP);
  await expect(page.getByRole("button", { name: "Accept", exact: true })).toHaveCount(0);
  await page.getByRole("button", { name: "Accept and overwrite" }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
  expect(await readFile(path, "utf8")).toBe(draft);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(main.getByText("undone", { exact: true }).first()).toBeVisible();
  expect(await readFile(path, "utf8")).toBe(now);
});

test("a log file that lost lines is completed, and the page says so", async ({ page, serve }) => {
  const serving = await serve({ roots: ["site"] });
  await serving.command("drafts", "init", "--workspace", serving.folder("site"), "--yes");
  const worker = await Worker.hired(serving, "site");
  await worker.proposes("note", { "NOTES.md": "# Notes\n" }, "Write notes");
  await enter(page, serving, "/drafts/site");
  await expect(page.getByText("Write notes").first()).toBeVisible();
  const log = join(serving.folder("site"), "_handoff", "transition.ndjson");
  const lines = (await readFile(log, "utf8")).trimEnd().split("\n");
  await writeFile(log, `${lines.slice(0, -1).join("\n")}\n`);
  await worker.proposes("more", { "MORE.md": "# More\n" }, "Write more");
  await expect(page.getByText("The log file of this workspace ended early: 1 missing line added from the store")).toBeVisible();
});

test("a worker is sent from the page, and what it did is shown", async ({ page, serve }) => {
  const serving = await serve({ roots: ["site"] });
  await writeFile(join(serving.folder("site"), "watchdog.py"), "import sys\n\n\ndef main():\n    return 0\n\n\nif __name__ == \"__main__\":\n    sys.exit(main())\n");
  await enter(page, serving, "/drafts/site");
  await page.getByRole("textbox", { name: "What is to be changed" }).fill("Add --version flag to watchdog.py");
  await page.getByRole("button", { name: "Have it drafted" }).click();
  await expect(page).toHaveURL(/\/runs\/work-\w+/);
  const main = page.getByRole("main");
  await expect(main.getByText("It came to: accepted")).toBeVisible();
  await expect(main.getByText("sent back").first()).toBeVisible();
  expect(await readFile(join(serving.folder("site"), "watchdog.py"), "utf8")).toContain("--version");
  await main.getByRole("listitem").filter({ hasText: "accepted" }).getByRole("link", { name: /draft/ }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
});
