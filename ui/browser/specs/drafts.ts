// Tests of the Drafts page: a reviewer accepts, undoes and rejects submissions.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { createConflict, DraftClient, expect, expectFits, signIn, test } from "../harness/test.ts";
import { DESKTOP, PHONE } from "../harness/views.ts";

// Build file for drafts: the gate escalates changes to build files, so that a reviewer must decide.
const FILE = ".gitlab-ci.yml";
const OLD = "build:\n  script: make\n";
const NEW = "build:\n  script: make all\n";

/** Opens the submission with this summary from the list. */
async function open(page: Page, summary: string): Promise<void> {
  await page.getByRole("main").getByRole("listitem").getByRole("link", { name: summary }).click();
  await expect(page.getByRole("heading", { level: 2, name: summary })).toBeVisible();
}

test("a reviewer accepts and undoes a submission, and rejects another submission", async ({ page, serve }) => {
  const server = await serve({ roots: ["site"] });
  await server.command("drafts", "init", "--workspace", server.folder("site"), "--yes");
  const path = join(server.folder("site"), FILE);
  const onDisk = () => readFile(path, "utf8");
  await writeFile(path, OLD);
  await signIn(page, server);
  await page.getByRole("link", { name: "Drafts" }).click();
  await expect(page.getByText("No submissions yet")).toBeVisible();

  // A new submission appears on the open page without a reload.
  const agent = await DraftClient.connect(server, "site");
  expect((await agent.submit("build", { [FILE]: NEW }, "Build everything")).verdict).toBe("escalated");
  await expect(page.getByText("Needs your review")).toBeVisible();
  await open(page, "Build everything");
  const main = page.getByRole("main");
  // The audit log below repeats the reason, so use the first match.
  await expect(main.getByText(`${FILE} [protected]`).first()).toBeVisible();
  await expect(main.getByText("this file is protected").first()).toBeVisible();
  await page.getByRole("button", { name: "Side by side" }).click();
  const changedRow = main.getByRole("row").filter({ hasText: "make all" });
  await expect(changedRow.getByRole("cell").filter({ hasText: "script" })).toHaveText([/script: make$/, /script: make all$/]);
  expect(await onDisk()).toBe(OLD);

  await page.getByRole("button", { name: "Accept" }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
  expect(await onDisk()).toBe(NEW);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(main.getByText("undone", { exact: true }).first()).toBeVisible();
  expect(await onDisk()).toBe(OLD);
  await page.getByText("Audit log of this task").click();
  await expect(main.getByRole("group")).toContainText(/requested.*submitted.*decided.*applied.*undone/s);

  await agent.submit("build", { [FILE]: `${NEW}# and more\n` }, "Build more");
  await page.goto(`${server.address}/drafts/site`);
  await open(page, "Build more");
  await page.getByRole("textbox", { name: "Reason for the rejection" }).fill("Not before Friday");
  await page.getByRole("button", { name: "Reject" }).click();
  await expect(page.getByRole("button", { name: "Reject" })).toBeHidden();
  await expect(main.getByText("Not before Friday").first()).toBeVisible();
  expect(await onDisk()).toBe(OLD);
});

test("a submission with a conflict shows both versions of the file before a reviewer overwrites the newer file", async ({ page, serve }) => {
  const server = await serve({ roots: ["site"] });
  await server.command("drafts", "init", "--workspace", server.folder("site"), "--yes");
  const { path, draft, now } = await createConflict(server);
  await signIn(page, server, "/drafts/site");
  await open(page, "Build everything");
  const main = page.getByRole("main");
  await expect(main.getByText("Conflict: a file has changed since the draft was created")).toBeVisible();
  const side = (name: string) => main.getByRole("region", { name }).getByRole("row");
  await expect(side("Current file").filter({ hasText: "reviewed" })).toHaveText([/\+ # reviewed by the platform team$/]);
  await expect(side("Drafted file").filter({ hasText: "script" })).toHaveText([/− +script: make$/, /\+ +script: make all$/]);
  await page.setViewportSize(PHONE);
  await expectFits(page);
  await page.setViewportSize(DESKTOP);
  await expect(page.getByRole("button", { name: "Accept", exact: true })).toHaveCount(0);
  await page.getByRole("button", { name: "Accept and overwrite" }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
  expect(await readFile(path, "utf8")).toBe(draft);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect(main.getByText("undone", { exact: true }).first()).toBeVisible();
  expect(await readFile(path, "utf8")).toBe(now);
});

test("the Drafts page reports that missing lines were added to a truncated log file", async ({ page, serve }) => {
  const server = await serve({ roots: ["site"] });
  await server.command("drafts", "init", "--workspace", server.folder("site"), "--yes");
  const agent = await DraftClient.connect(server, "site");
  await agent.submit("note", { "NOTES.md": "# Notes\n" }, "Write notes");
  const connected = page.waitForResponse((response) => response.url().endsWith("/site/events"));
  await signIn(page, server, "/drafts/site");
  await expect(page.getByText("Write notes").first()).toBeVisible();
  await connected;
  const log = join(server.folder("site"), "_handoff", "transition.ndjson");
  const lines = (await readFile(log, "utf8")).trimEnd().split("\n");
  await writeFile(log, `${lines.slice(0, -1).join("\n")}\n`);
  await agent.submit("more", { "MORE.md": "# More\n" }, "Write more");
  await expect(page.getByText("The log file of this workspace was truncated: 1 missing line added from the store")).toBeVisible();
});

test("a file-editing run that is started on the Drafts page shows its verdicts and links to the accepted draft", async ({ page, serve }) => {
  const server = await serve({ roots: ["site"] });
  await writeFile(join(server.folder("site"), "watchdog.py"), "import sys\n\n\ndef main():\n    return 0\n\n\nif __name__ == \"__main__\":\n    sys.exit(main())\n");
  await signIn(page, server, "/drafts/site");
  await page.getByRole("textbox", { name: "Change to draft" }).fill("Add --version flag to watchdog.py");
  await page.getByRole("button", { name: "Draft change" }).click();
  await expect(page).toHaveURL(/\/runs\/work-\w+/);
  const main = page.getByRole("main");
  await expect(main.getByText("Result: accepted")).toBeVisible();
  await expect(main.getByText("rejected", { exact: true }).first()).toBeVisible();
  expect(await readFile(join(server.folder("site"), "watchdog.py"), "utf8")).toContain("--version");
  await main.getByRole("listitem").filter({ hasText: "accepted" }).getByRole("link", { name: /draft/ }).click();
  await expect(main.getByRole("button", { name: "Undo" })).toBeVisible();
});
