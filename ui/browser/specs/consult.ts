// Tests of a consultation, from the start form to the results, documents and debates.

import type { Page } from "@playwright/test";

import { completedRounds, criticLabel, debateDialog, debateProgress, expectStatus, scores, scoresOf, view } from "../harness/consultation.ts";
import { expect, signIn, test, textOf, visit } from "../harness/test.ts";

/** Returns server options that delay each answer of the rehearsal model, so that a test can observe the progress. */
const slow = (milliseconds: number) => ({ env: { ASSIZE_REHEARSAL_LATENCY_MS: String(milliseconds) } });

/** Returns the values of one column of the table `Other moves`, from top to bottom. */
async function column(page: Page, name: string): Promise<number[]> {
  const table = page.getByRole("region", { name: "Other moves (12)" }).getByRole("table");
  const names = await table.getByRole("columnheader").allInnerTexts();
  const at = names.findIndex((one) => one.startsWith(name));
  const rows = table.getByRole("row").filter({ has: page.getByRole("rowheader") });
  const cells = await rows.evaluateAll((all, nth) => all.map((row) => row.children[nth]?.textContent ?? ""), at);
  expect(cells).toHaveLength(12);
  return cells.map(Number);
}

/** Starts a consultation of NVDA with the start form. Returns the id of its run. */
async function startOnPage(page: Page): Promise<string> {
  await expect(page.getByText("No trials yet")).toBeVisible();
  await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("nvda");
  await expect(page.getByRole("radio", { name: "Consult" })).toBeChecked();
  await expect(page.getByText(/^Rehearsal: [\d,]+ simulated calls, no model is called/)).toBeVisible();
  await page.getByRole("button", { name: "Start" }).click();
  await expect(page).toHaveURL(/\/runs\/consult-\w+/);
  await expect(page.getByRole("heading", { level: 1, name: "NVDA" })).toBeVisible();
  return new URL(page.url()).pathname.split("/").at(-1)!;
}

test("a running consultation shows the progress of its debates", async ({ page, serve }) => {
  // The debates take most of a minute, so that the test does not need to be fast.
  const server = await serve(slow(2000));
  await signIn(page, server);
  const id = await startOnPage(page);
  await expect(page.getByText("rehearsal, no model was called")).toBeVisible();
  await expect(page.getByRole("application").getByText(/^round \d+ of 10/).first()).toBeVisible();
  await view(page, "Progress list").click();
  await expect(page.getByRole("tabpanel").getByText("running", { exact: true })).toBeVisible();
  await expect.poll(() => debateProgress(page)).toBeGreaterThan(0);
  const early = await debateProgress(page);
  await expect.poll(() => debateProgress(page)).toBeGreaterThan(early);
  await expect(page.getByRole("button", { name: "Stop", exact: true })).toBeVisible();
  expect(await debateProgress(page)).toBeLessThan(100);
  // A reload shows at least the same rounds again.
  const before = await completedRounds(page);
  await page.reload();
  await expect.poll(async () => (await completedRounds(page)).length).toBe(before.length);
  const after = await completedRounds(page);
  expect(after.every((count, index) => count >= (before[index] ?? 0)), `rounds before the reload: ${before}, after: ${after}`).toBe(true);
  expect((await server.run(id)).status).toBe("running");
});

test("a consultation that is started on the page ends with results, documents and debates", async ({ page, serve }) => {
  const server = await serve(slow(50));
  await signIn(page, server);
  const id = await startOnPage(page);
  await view(page, "Progress list").click();
  // The page shows the end of the run without a reload.
  await expectStatus(page, "done");
  await expect(page.getByRole("button", { name: "Stop", exact: true })).toBeHidden();
  expect(await completedRounds(page)).toEqual(Array(45).fill(10));
  // A reload after the end of the run shows the same list.
  const shown = await page.getByRole("tabpanel").innerText();
  await page.reload();
  await expect.poll(() => page.getByRole("tabpanel").innerText()).toBe(shown);
  const run = await server.run(id);
  const { result } = run;

  await view(page, "Results").click();
  const cards = page.getByRole("listitem").filter({ has: page.getByRole("button", { name: "Read the debate" }) });
  await expect(cards).toHaveCount(3);
  for (const [index, { title, total_score }] of (result.recommended_moves as { title: string; total_score: number }[]).entries()) {
    await expect(cards.nth(index)).toContainText(title);
    await expect(cards.nth(index)).toContainText(`${total_score} of 120`);
  }
  expect(await scores(page)).toEqual(scoresOf(run));
  expect(await column(page, "Rank")).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
  for (const name of ["Score", "Strategic alignment"]) {
    // The table of a move has a column "Scores out of 10".
    const header = page.getByRole("columnheader", { name: new RegExp(`^${name}\\b`) });
    await header.getByRole("button").click();
    await expect(header).toHaveAttribute("aria-sort", "descending");
    const down = await column(page, name);
    expect(down).toEqual([...down].sort((one, other) => other - one));
    await header.getByRole("button").click();
    await expect(header).toHaveAttribute("aria-sort", "ascending");
    expect(await column(page, name)).toEqual([...down].sort((one, other) => one - other));
  }

  for (const name of ["report.md", "report.html", "report.json"]) {
    const downloading = page.waitForEvent("download");
    await page.getByRole("link", { name }).click();
    const download = await downloading;
    expect(download.suggestedFilename()).toBe(name);
    const content = await textOf(download);
    if (name === "report.json") expect(JSON.parse(content).recommended_moves).toEqual(result.recommended_moves);
    else for (const { title } of result.recommended_moves) expect(content).toContain(title);
    if (name === "report.html") expect(content).toMatch(/^<!doctype html>/i);
    expect(content).toContain("rehearsal");
  }

  await view(page, "Documents").click();
  const panel = page.getByRole("tabpanel");
  await panel.getByRole("button", { name: "F1.md" }).click();
  await expect(panel.getByRole("heading", { name: /F1\.1 Main source of income/ })).toBeVisible();
  await panel.getByRole("button", { name: "moves/m1.md" }).click();
  await expect(panel.getByText("Enter one neighbouring market").first()).toBeVisible();
  const downloading = page.waitForEvent("download");
  await panel.getByRole("link", { name: "Download" }).click();
  expect(await textOf(await downloading)).toContain("Enter one neighbouring market");

  await view(page, "Results").click();
  await cards.first().getByRole("button", { name: "Read the debate" }).click();
  const best = result.recommended_moves[0].move_id as string;
  const opened = debateDialog(page, best);
  await expect(criticLabel(opened, 1)).toBeVisible();
  await opened.getByRole("tab", { name: "D2" }).click();
  const rounds = opened.getByRole("navigation", { name: "Rounds" }).getByRole("button");
  await expect(rounds).toHaveCount(10);
  await rounds.filter({ hasText: /^7$/ }).click();
  await expect(criticLabel(opened, 7)).toBeInViewport();
  await expect(page).toHaveURL(new RegExp(`move=${best}.*log=i2.*round=7`));
  const transcripts = await server.get(`/api/runs/${id}/transcripts?move=${best}`);
  const seventh = transcripts.moves[best].i2.find((entry: { round: number; role: string }) => entry.round === 7 && entry.role === "critic");
  await expect(opened).toContainText(seventh.content.slice(0, 60));

  // Opening the URL shows the same round again.
  await page.goto(page.url());
  await expect(criticLabel(opened, 7)).toBeInViewport();
  await opened.getByRole("button", { name: "Close" }).click();
  await expect(opened).toBeHidden();

  // The start page lists the run.
  await page.getByRole("link", { name: "Trials" }).click();
  await expect(page.getByRole("region", { name: "Recent trials" }).getByRole("link", { name: /NVDA/ })).toContainText("done");
});

test("navigation in the pipeline diagram changes the URL, and the URL opens the same view again", async ({ page, shared }) => {
  await visit(page, shared, `/runs/${shared.consult.id}?view=pipeline`);
  const diagram = page.getByRole("application");
  const breadcrumbs = page.getByRole("navigation", { name: "Breadcrumbs" }).getByRole("button");
  // Zoom from the whole diagram to the layer of the debates, then to one debate, which shows its transcript.
  await diagram.getByLabel(/^Debate: /).click({ position: { x: 4, y: 4 } });
  await expect(page).toHaveURL(/at=sandbox/);
  await diagram.getByLabel(/^m3: /).click();
  await expect(page).toHaveURL(/at=m3/);
  await expect(breadcrumbs).toHaveText(["NVDA", "Debate", "m3"]);
  await expect(criticLabel(diagram, 1)).toBeVisible();
  await diagram.getByRole("tab", { name: "D3" }).click();
  await expect(page).toHaveURL(/log=i3/);
  await diagram.getByRole("button", { name: "Round 2" }).click();
  await expect(criticLabel(diagram, 2)).toBeInViewport();
  // Opening the URL shows the same round again.
  await page.goto(page.url());
  await expect(criticLabel(diagram, 2)).toBeInViewport();
  await expect(diagram.getByRole("tab", { name: "D3" })).toHaveAttribute("aria-selected", "true");
  await breadcrumbs.filter({ hasText: "Debate" }).click();
  await expect(page).toHaveURL(/at=sandbox/);
  await expect(criticLabel(diagram, 2)).toBeHidden();
  await breadcrumbs.filter({ hasText: "NVDA" }).click();
  await expect(page).not.toHaveURL(/at=m3/);
});
