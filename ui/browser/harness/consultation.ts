// A consultation as somebody sees it who reads the page.

import { expect, type Locator, type Page } from "@playwright/test";

import type { Run } from "./serving.ts";

/** What stands over a run: how it stands, and what can be done. */
export const head = (page: Page): Locator => page.getByRole("main").locator("header");

export async function stands(page: Page, status: string): Promise<void> {
  await expect(head(page).getByText(status, { exact: true })).toBeVisible({ timeout: 60_000 });
}

export const view = (page: Page, name: string): Locator => page.getByRole("tablist", { name: "Views of this consultation" }).getByRole("tab", { name });

/** How far the debates are, in percent, by the list. */
export async function debated(page: Page): Promise<number> {
  return Number(await page.getByRole("progressbar", { name: /^Debate/ }).getAttribute("aria-valuenow"));
}

/** How many rounds of each conversation of each debate are over, by the list. */
export async function conversations(page: Page): Promise<number[]> {
  const strips = page.getByRole("tabpanel").getByRole("img", { name: /^D\d: \d+ of \d+ rounds/ });
  const labels = await strips.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? ""));
  return labels.map((label) => Number(/: (\d+) of/.exec(label)?.[1]));
}

/** All moves with their scores, by the results. */
export async function scores(page: Page): Promise<Record<string, number>> {
  const bars = page.getByRole("tabpanel").getByRole("img", { name: /, \d+ of 120$/ });
  await expect(bars).toHaveCount(15);
  const labels = await bars.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? ""));
  return Object.fromEntries(labels.map((label) => [label.slice(0, label.indexOf(": ")), Number(/(\d+) of 120$/.exec(label)?.[1])]));
}

/** The same, by the server. */
export function scoresOf({ result }: Run): Record<string, number> {
  const placed = [...result.recommended_moves, ...result.other_moves] as { title: string; total_score: number }[];
  return Object.fromEntries(placed.map(({ title, total_score }) => [title, total_score]));
}

/** Opened to be read: what was said in a debate. */
export const reading = (page: Page, move: string): Locator => page.getByRole("dialog", { name: new RegExp(`^${move} `) });

/** Where the critic speaks in a round. */
export const critic = (within: Locator, round: number): Locator => within.getByText(new RegExp(`^critic · round ${round}$`, "i"));
