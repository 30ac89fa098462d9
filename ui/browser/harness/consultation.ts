// Locators for the page of a consultation, and functions that read values from the page.

import { expect, type Locator, type Page } from "@playwright/test";

import type { Run } from "./server.ts";

/** Header of a run page, with the status of the run and its buttons. */
export const runHeader = (page: Page): Locator => page.getByRole("main").locator("header");

/** Waits until the header of the run page shows a status, such as `done`. */
export async function expectStatus(page: Page, status: string): Promise<void> {
  await expect(runHeader(page).getByText(status, { exact: true })).toBeVisible({ timeout: 60_000 });
}

/** Tab of a view of a consultation, such as `Results`. */
export const view = (page: Page, name: string): Locator => page.getByRole("tablist", { name: "Views of this consultation" }).getByRole("tab", { name });

/** Returns the progress of all debates in percent, read from the progress list. */
export async function debateProgress(page: Page): Promise<number> {
  return Number(await page.getByRole("progressbar", { name: /^Debate/ }).getAttribute("aria-valuenow"));
}

/** Returns the number of completed rounds of each conversation of each debate, read from the progress list. */
export async function completedRounds(page: Page): Promise<number[]> {
  const strips = page.getByRole("tabpanel").getByRole("img", { name: /^Judge D\d: \d+ of \d+ rounds? completed/ });
  const labels = await strips.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? ""));
  return labels.map((label) => Number(/: (\d+) of/.exec(label)?.[1]));
}

/** Returns the total scores of all moves by title, read from the results tab of the page. */
export async function scores(page: Page): Promise<Record<string, number>> {
  const bars = page.getByRole("tabpanel").getByRole("img", { name: /, total \d+ of 120$/ });
  await expect(bars).toHaveCount(15);
  const labels = await bars.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? ""));
  return Object.fromEntries(labels.map((label) => [label.slice(0, label.indexOf(": ")), Number(/(\d+) of 120$/.exec(label)?.[1])]));
}

/** Returns the total scores of all moves by title, from the result of the run that the API returned. */
export function scoresOf({ result }: Run): Record<string, number> {
  const moves = [...result.recommended_moves, ...result.other_moves] as { title: string; total_score: number }[];
  return Object.fromEntries(moves.map(({ title, total_score }) => [title, total_score]));
}

/** Side panel with the transcript of the debate about a move. */
export const debateDialog = (page: Page, move: string): Locator => page.getByRole("dialog", { name: new RegExp(`^${move} `) });

/** Label above the critic's message in a round of a transcript. */
export const criticLabel = (within: Locator, round: number): Locator => within.getByText(new RegExp(`^critic · round ${round}$`, "i"));
