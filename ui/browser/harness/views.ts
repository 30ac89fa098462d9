// Every page and view there is, for what must hold on all of them.

import type { Page } from "@playwright/test";

import { critic, reading } from "./consultation.ts";
import { expect, type Kept } from "./test.ts";

interface View {
  name: string;
  path: (kept: Kept) => string;
  /** Waits until all is there, and opens what is closed at first. */
  ready: (page: Page) => Promise<void>;
}

const shows = (words: string | RegExp) => async (page: Page) => {
  await expect(page.getByRole("main").getByText(words).first()).toBeVisible();
};

/** The drawing has come to rest: its camera moves by itself at first. */
export async function rests(page: Page): Promise<void> {
  const where = () => page.locator(".react-flow__viewport").getAttribute("style");
  let before: string | null = null;
  await expect
    .poll(async () => {
      const now = await where();
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
      await shows("This is a rehearsal: no model is asked")(page);
      await expect(page.getByRole("region", { name: "Recent trials" }).getByRole("link")).toHaveCount(5);
    },
  },
  {
    name: "home, with a word in it",
    path: () => "/",
    ready: async (page) => {
      await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("NVDA");
      await shows(/simulated calls/)(page);
    },
  },
  {
    name: "home, with files",
    path: () => "/",
    ready: async (page) => {
      await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("NVDA");
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
        await rests(page);
        await page.getByRole("button", { name: "Farther" }).click();
      }
      await rests(page);
    },
  },
  {
    name: "pipeline, middle",
    path: ({ consult }) => `/runs/${consult.id}?view=pipeline&at=sandbox`,
    ready: async (page) => {
      await expect(page.getByRole("application").getByText("m15", { exact: true })).toBeVisible();
      await rests(page);
    },
  },
  {
    name: "pipeline, near",
    path: ({ consult }) => `/runs/${consult.id}?view=pipeline&at=m3`,
    ready: async (page) => {
      const drawing = page.getByRole("application");
      // Where there is no room for words in the drawing, they are read beside it.
      if ((page.viewportSize()?.width ?? 0) > 640) await expect(critic(drawing, 2)).toBeAttached();
      else await expect(drawing.getByText("m3", { exact: true })).toBeVisible();
      await rests(page);
    },
  },
  {
    name: "list",
    path: ({ consult }) => `/runs/${consult.id}?view=list`,
    ready: async (page) => expect(page.getByRole("button", { name: /^m15 / })).toBeVisible(),
  },
  { name: "results", path: ({ consult }) => `/runs/${consult.id}?view=results`, ready: shows("The other 12") },
  { name: "documents", path: ({ consult }) => `/runs/${consult.id}?view=documents&document=F1.md`, ready: shows("F1.1 What carries the company") },
  {
    name: "reading",
    path: ({ consult }) => `/runs/${consult.id}?move=m1&log=i2&round=2`,
    ready: async (page) => {
      await expect(critic(reading(page, "m1"), 2)).toBeVisible();
      await expect(page.getByRole("complementary", { name: "The move" })).toContainText("Open one neighbouring market");
    },
  },
  { name: "code", path: ({ code }) => `/runs/${code.id}`, ready: shows("Attempt 2") },
  { name: "code that left a file", path: ({ drawn }) => `/runs/${drawn.id}`, ready: shows("sine.svg") },
  { name: "debate", path: ({ debate }) => `/runs/${debate.id}`, ready: shows("What is said") },
  { name: "work", path: ({ work }) => `/runs/${work.id}`, ready: shows("It came to: accepted") },
  { name: "drafts", path: () => "/drafts/site", ready: shows("Waiting for you") },
  {
    name: "draft that waits",
    path: () => "/drafts/site",
    ready: async (page) => {
      await page.getByRole("main").getByRole("link", { name: /Say how it is built/ }).click();
      await expect(page.getByRole("button", { name: "Accept" })).toBeVisible();
      await page.getByText("What happened in this task").click();
      await expect(page.getByText("submitted", { exact: true }).first()).toBeVisible();
      const beside = page.getByRole("button", { name: "Side by side" }).first();
      if (await beside.isVisible()) await beside.click();
    },
  },
  {
    name: "draft that was rejected",
    path: () => "/drafts/site",
    ready: async (page) => {
      await page.getByRole("main").getByRole("link", { name: /Write a log/ }).click();
      await shows(/\[path\//)(page);
    },
  },
  { name: "system", path: () => "/system", ready: shows("Who answers") },
  {
    name: "fork",
    path: ({ consult }) => `/runs/${consult.id}?view=results`,
    ready: async (page) => {
      await page.getByRole("button", { name: "Fork" }).click();
      await expect(page.getByRole("dialog", { name: "Fork this run" })).toBeVisible();
    },
  },
  { name: "nowhere", path: () => "/nowhere", ready: shows("There is nothing at this address") },
  { name: "no such run", path: () => "/runs/consult-00000000", ready: shows("There is no such run") },
];

export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };
