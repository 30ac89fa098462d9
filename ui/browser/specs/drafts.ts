// Drafts: what a worker proposes waits for a person, who accepts, undoes and rejects it.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { enter, expect, test, Worker } from "../harness/test.ts";

// What builds is looked after by a person.
const FILE = ".gitlab-ci.yml";
const OLD = "build:\n  script: make\n";
const NEW = "build:\n  script: make all\n";

/** Chooses a draft in the list. */
async function open(page: Page, summary: string): Promise<void> {
  await page.getByRole("main").getByRole("listitem").getByRole("link", { name: summary }).click();
  await expect(page.getByRole("heading", { level: 2, name: summary })).toBeVisible();
}

test("a draft is looked at, accepted and undone; others are rejected, or come too late", async ({ page, serve }) => {
  const serving = await serve({ roots: ["site"] });
  await serving.command("drafts", "init", "--workspace", serving.folder("site"), "--yes");
  const path = join(serving.folder("site"), FILE);
  const onDisk = () => readFile(path, "utf8");
  await writeFile(path, OLD);
  await enter(page, serving);
  await page.getByRole("link", { name: "Drafts" }).click();
  await expect(page.getByText("Nothing was handed in yet")).toBeVisible();

  // It comes while somebody looks.
  const worker = await Worker.hired(serving, "site");
  expect((await worker.proposes("build", { [FILE]: NEW }, "Build everything")).verdict).toBe("escalated");
  await expect(page.getByText("Waiting for you")).toBeVisible();
  await open(page, "Build everything");
  const main = page.getByRole("main");
  // The log has it once more, further down.
  await expect(main.getByText(`${FILE} [protected]`).first()).toBeVisible();
  await expect(main.getByText("a person looks after this file").first()).toBeVisible();
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

  // What has changed meanwhile is not overwritten unawares.
  await worker.proposes("late", { [FILE]: NEW }, "Build everything, later");
  await writeFile(path, `# mine\n${OLD}`);
  await page.goto(`${serving.address}/drafts/site`);
  await open(page, "Build everything, later");
  await expect(main.getByText("A file has changed since its draft was asked for")).toBeVisible();
  await page.getByRole("button", { name: "Accept all the same" }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
  expect(await onDisk()).toBe(NEW);
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
