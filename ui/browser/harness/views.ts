// List of all pages and views, for tests that check every view: accessibility tests and screenshots.

import type { Page } from "@playwright/test";

import { criticLabel, debateDialog } from "./consultation.ts";
import { expect, type Shared } from "./test.ts";

interface View {
  name: string;
  /** Path and query of the URL of the view. */
  path: (shared: Shared) => string;
  /** Waits until the view is complete, and opens its dialogs and collapsed parts. */
  ready: (page: Page) => Promise<void>;
}

/** Returns a function that waits until the page shows a text. */
const shows = (text: string | RegExp) => async (page: Page) => {
  await expect(page.getByRole("main").getByText(text).first()).toBeVisible();
};

/** Waits until the pipeline diagram stops moving. After it is opened, the diagram pans and zooms by itself. */
export async function waitUntilStill(page: Page): Promise<void> {
  const transform = () => page.locator(".react-flow__viewport").getAttribute("style");
  let before: string | null = null;
  await expect
    .poll(async () => {
      const now = await transform();
      const same = now === before;
      before = now;
      return same;
    }, { intervals: [100] })
    .toBe(true);
}

export const VIEWS: View[] = [
  {
    name: "home",
    path: () => "/",
    ready: async (page) => {
      await shows("Demo mode: texts and scores are placeholders")(page);
      await expect(page.getByRole("region", { name: "Recent trials" }).getByRole("link")).toHaveCount(5);
    },
  },
  {
    name: "home, with a ticker",
    path: () => "/",
    ready: async (page) => {
      await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("NVDA");
      await shows(/simulated calls/)(page);
    },
  },
  {
    name: "home, with files",
    path: () => "/",
    ready: async (page) => {
      await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("NVDA");
      await page.getByLabel("Add your own data").setInputFiles([
        { name: "figures.csv", mimeType: "text/csv", buffer: Buffer.from("year,revenue\n2025,12\n") },
        { name: "a-very-long-name-of-a-note-about-the-company-and-its-markets.md", mimeType: "text/markdown", buffer: Buffer.from("# Note\n") },
      ]);
      await page.getByLabel("Blind scores").check();
      await shows(/simulated calls/)(page);
    },
  },
  {
    name: "pipeline, far",
    path: ({ consult }) => `/runs/${consult.id}?view=pipeline`,
    ready: async (page) => {
      await expect(page.getByRole("application")).toContainText("Debate");
      for (let turn = 0; turn < 4; turn += 1) {
        await waitUntilStill(page);
        await page.getByRole("button", { name: "Zoom out" }).click();
      }
      await waitUntilStill(page);
    },
  },
  {
    name: "pipeline, middle",
    path: ({ consult }) => `/runs/${consult.id}?view=pipeline&at=sandbox`,
    ready: async (page) => {
      await expect(page.getByRole("application").getByText("m15", { exact: true })).toBeVisible();
      await waitUntilStill(page);
    },
  },
  {
    name: "pipeline, near",
    path: ({ consult }) => `/runs/${consult.id}?view=pipeline&at=m3`,
    ready: async (page) => {
      const diagram = page.getByRole("application");
      // A narrow diagram shows no transcript: the transcript opens in the side panel instead.
      if ((page.viewportSize()?.width ?? 0) > 640) await expect(criticLabel(diagram, 2)).toBeAttached();
      else await expect(diagram.getByText("m3", { exact: true })).toBeVisible();
      await waitUntilStill(page);
    },
  },
  {
    name: "list",
    path: ({ consult }) => `/runs/${consult.id}?view=list`,
    ready: async (page) => expect(page.getByRole("button", { name: /^m15 / })).toBeVisible(),
  },
  { name: "results", path: ({ consult }) => `/runs/${consult.id}?view=results`, ready: shows("Other moves (12)") },
  { name: "documents", path: ({ consult }) => `/runs/${consult.id}?view=documents&document=F1.md`, ready: shows("F1.1 Main source of income") },
  {
    name: "debate panel",
    path: ({ consult }) => `/runs/${consult.id}?move=m1&log=i2&round=2`,
    ready: async (page) => {
      await expect(criticLabel(debateDialog(page, "m1"), 2)).toBeVisible();
      await expect(page.getByRole("complementary", { name: "Text of the move" })).toContainText("Enter one neighbouring market");
    },
  },
  { name: "code", path: ({ code }) => `/runs/${code.id}`, ready: shows("Attempt 2") },
  { name: "code with an output file", path: ({ svgRun }) => `/runs/${svgRun.id}`, ready: shows("sine.svg") },
  { name: "debate", path: ({ debate }) => `/runs/${debate.id}`, ready: shows("Transcript") },
  { name: "work", path: ({ work }) => `/runs/${work.id}`, ready: shows("Result: accepted") },
  { name: "drafts", path: () => "/drafts/site", ready: shows("Needs your review") },
  {
    name: "escalated draft",
    path: () => "/drafts/site",
    ready: async (page) => {
      await page.getByRole("main").getByRole("link", { name: /Say how it is built/ }).click();
      await expect(page.getByRole("button", { name: "Accept" })).toBeVisible();
      await page.getByText("Audit log of this task").click();
      await expect(page.getByText("submitted", { exact: true }).first()).toBeVisible();
      const sideBySide = page.getByRole("button", { name: "Side by side" }).first();
      if (await sideBySide.isVisible()) await sideBySide.click();
    },
  },
  {
    name: "rejected draft",
    path: () => "/drafts/site",
    ready: async (page) => {
      await page.getByRole("main").getByRole("link", { name: /Write a log/ }).click();
      await shows(/\[path\//)(page);
    },
  },
  { name: "system", path: () => "/system", ready: shows("Provider in use") },
  {
    name: "fork",
    path: ({ consult }) => `/runs/${consult.id}?view=results`,
    ready: async (page) => {
      await page.getByRole("button", { name: "Fork" }).click();
      await expect(page.getByRole("dialog", { name: "Fork this run" })).toBeVisible();
    },
  },
  { name: "unknown page", path: () => "/nowhere", ready: shows("Page not found") },
  { name: "unknown run", path: () => "/runs/consult-00000000", ready: shows("Run not found") },
];

export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };
