// A consultation from the first letter that is typed to its last document.

import type { Page } from "@playwright/test";

import { conversations, critic, debated, reading, scores, scoresOf, stands, view } from "../harness/consultation.ts";
import { enter, expect, test, text, visit } from "../harness/test.ts";

/** Slow enough to be watched, also where the browser has to wait for the machine. */
const slow = (milliseconds: number) => ({ env: { ASSIZE_REHEARSAL_LATENCY_MS: String(milliseconds) } });

/** The figures of a column of the table, from the top. */
async function column(page: Page, name: string): Promise<number[]> {
  const table = page.getByRole("region", { name: "The other 12" }).getByRole("table");
  const names = await table.getByRole("columnheader").allInnerTexts();
  const at = names.findIndex((one) => one.startsWith(name));
  const rows = table.getByRole("row").filter({ has: page.getByRole("rowheader") });
  const cells = await rows.evaluateAll((all, nth) => all.map((row) => row.children[nth]?.textContent ?? ""), at);
  expect(cells).toHaveLength(12);
  return cells.map(Number);
}

test("a consultation is begun, watched and read", async ({ page, serve }) => {
  const serving = await serve(slow(350));
  await enter(page, serving);
  await expect(page.getByText("No trials yet")).toBeVisible();

  await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("nvda");
  await expect(page.getByRole("radio", { name: "Consult" })).toBeChecked();
  await expect(page.getByText(/^Rehearsal: [\d,]+ simulated calls, no model is asked/)).toBeVisible();
  await page.getByRole("button", { name: "Begin" }).click();
  await expect(page).toHaveURL(/\/runs\/consult-\w+/);
  const id = new URL(page.url()).pathname.split("/").at(-1)!;

  // The drawing shows how the debates go on.
  await expect(page.getByRole("heading", { level: 1, name: "NVDA" })).toBeVisible();
  await expect(page.getByText("rehearsal, no model was asked")).toBeVisible();
  await expect(page.getByRole("application").getByText(/^round \d+ of 10/).first()).toBeVisible();
  // So does the list, and there is more and more of it.
  await view(page, "As a list").click();
  await expect(page.getByRole("tabpanel").getByText("running", { exact: true })).toBeVisible();
  await expect.poll(() => debated(page)).toBeGreaterThan(0);
  const early = await debated(page);
  expect(early).toBeLessThan(100);
  expect((await serving.run(id)).status).toBe("running");
  await expect.poll(() => debated(page)).toBeGreaterThan(early);
  const stop = page.getByRole("button", { name: "Stop", exact: true });
  await expect(stop).toBeVisible();

  // The end comes by itself.
  await stands(page, "done");
  await expect(stop).toBeHidden();
  expect(await conversations(page)).toEqual(Array(45).fill(10));
  const run = await serving.run(id);
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
    const header = page.getByRole("columnheader", { name });
    await header.getByRole("button").click();
    await expect(header).toHaveAttribute("aria-sort", "descending");
    const down = await column(page, name);
    expect(down).toEqual([...down].sort((one, other) => other - one));
    await header.getByRole("button").click();
    await expect(header).toHaveAttribute("aria-sort", "ascending");
    expect(await column(page, name)).toEqual([...down].sort((one, other) => one - other));
  }

  for (const name of ["report.md", "report.html", "report.json"]) {
    const coming = page.waitForEvent("download");
    await page.getByRole("link", { name }).click();
    const download = await coming;
    expect(download.suggestedFilename()).toBe(name);
    const words = await text(download);
    if (name === "report.json") expect(JSON.parse(words).recommended_moves).toEqual(result.recommended_moves);
    else for (const { title } of result.recommended_moves) expect(words).toContain(title);
    if (name === "report.html") expect(words).toMatch(/^<!doctype html>/i);
    expect(words).toContain("rehearsal");
  }

  await view(page, "Documents").click();
  const panel = page.getByRole("tabpanel");
  await panel.getByRole("button", { name: "F1.md" }).click();
  await expect(panel.getByRole("heading", { name: /F1\.1 What carries the company/ })).toBeVisible();
  await panel.getByRole("button", { name: "moves/m1.md" }).click();
  await expect(panel.getByText("Open one neighbouring market properly").first()).toBeVisible();
  const coming = page.waitForEvent("download");
  await panel.getByRole("link", { name: "Download" }).click();
  expect(await text(await coming)).toContain("Open one neighbouring market properly");

  await view(page, "Results").click();
  await cards.first().getByRole("button", { name: "Read the debate" }).click();
  const best = result.recommended_moves[0].move_id as string;
  const opened = reading(page, best);
  await expect(critic(opened, 1)).toBeVisible();
  await opened.getByRole("tab", { name: "D2" }).click();
  const rounds = opened.getByRole("navigation", { name: "Rounds" }).getByRole("button");
  await expect(rounds).toHaveCount(10);
  await rounds.filter({ hasText: /^7$/ }).click();
  await expect(critic(opened, 7)).toBeInViewport();
  await expect(page).toHaveURL(new RegExp(`move=${best}.*log=i2.*round=7`));
  const said = await serving.get(`/api/runs/${id}/transcripts?move=${best}`);
  const seventh = said.moves[best].i2.find((entry: { round: number; role: string }) => entry.round === 7 && entry.role === "critic");
  await expect(opened).toContainText(seventh.content.slice(0, 60));

  // Its address leads there again.
  await page.goto(page.url());
  await expect(critic(opened, 7)).toBeInViewport();
  await opened.getByRole("button", { name: "Close" }).click();
  await expect(opened).toBeHidden();

  // It is kept.
  await page.getByRole("link", { name: "Trials" }).click();
  await expect(page.getByRole("region", { name: "Recent trials" }).getByRole("link", { name: /NVDA/ })).toContainText("done");
});

test("a page that is loaded anew in the middle shows all that was there, and goes on", async ({ page, serve }) => {
  const serving = await serve(slow(500));
  await enter(page, serving);
  const id = await serving.begun({ kind: "consult", ticker: "NVDA", rounds: 8 });
  await page.goto(`${serving.address}/runs/${id}?view=list`);
  await expect.poll(() => debated(page)).toBeGreaterThan(20);
  const before = await conversations(page);
  await page.reload();
  await expect.poll(async () => (await conversations(page)).length).toBe(before.length);
  const after = await conversations(page);
  expect(after.every((count, index) => count >= (before[index] ?? 0)), `${before} and then ${after}`).toBe(true);
  expect((await serving.run(id)).status).toBe("running");
  await stands(page, "done");
  expect(await conversations(page)).toEqual(Array(45).fill(8));
  // Whoever comes when all is over sees the same.
  const shown = await page.getByRole("tabpanel").innerText();
  await page.reload();
  await expect.poll(() => page.getByRole("tabpanel").innerText()).toBe(shown);
  await view(page, "Results").click();
  expect(await scores(page)).toEqual(scoresOf(await serving.run(id)));
});

test("the drawing is walked through, and its address says where one is", async ({ page, kept }) => {
  await visit(page, kept, `/runs/${kept.consult.id}?view=pipeline`);
  const drawing = page.getByRole("application");
  const where = page.getByRole("navigation", { name: "Where you are" }).getByRole("button");
  // From the whole to the layer to the debate, where its words stand in place.
  await drawing.getByLabel(/^Debate: /).click({ position: { x: 4, y: 4 } });
  await expect(page).toHaveURL(/at=sandbox/);
  await drawing.getByLabel(/^m3: /).click();
  await expect(page).toHaveURL(/at=m3/);
  await expect(where).toHaveText(["NVDA", "Debate", "m3"]);
  await expect(critic(drawing, 1)).toBeVisible();
  await drawing.getByRole("tab", { name: "D3" }).click();
  await expect(page).toHaveURL(/log=i3/);
  await drawing.getByRole("button", { name: "Round 2" }).click();
  await expect(critic(drawing, 2)).toBeInViewport();
  // Its address leads there again.
  await page.goto(page.url());
  await expect(critic(drawing, 2)).toBeInViewport();
  await expect(drawing.getByRole("tab", { name: "D3" })).toHaveAttribute("aria-selected", "true");
  await where.filter({ hasText: "Debate" }).click();
  await expect(page).toHaveURL(/at=sandbox/);
  await expect(critic(drawing, 2)).toBeHidden();
  await where.filter({ hasText: "NVDA" }).click();
  await expect(page).not.toHaveURL(/at=m3/);
});
