// Pictures of every view, for people: ASSIZE_SHOTS names the folder that they are put in.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { debated } from "../harness/consultation.ts";
import { conflict, enter, expect, test, visit } from "../harness/test.ts";
import { DESKTOP, PHONE, rests, VIEWS } from "../harness/views.ts";

const FOLDER = process.env.ASSIZE_SHOTS ?? "";

async function shots(page: Page, name: string): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  const size = page.viewportSize()!.width === PHONE.width ? "phone" : "desktop";
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(FOLDER, `${name.replaceAll(/,? /g, "-")}-${size}-${colorScheme}.png`), animations: "disabled" });
  }
}

for (const viewport of [DESKTOP, PHONE]) {
  for (const { name, path, ready } of VIEWS) {
    test(`${name}, ${viewport.width}`, async ({ page, kept, faults }) => {
      faults.forgive(/404/);
      await page.setViewportSize(viewport);
      await visit(page, kept, path(kept));
      await ready(page);
      await shots(page, name);
    });
  }

  test(`a suggested kind, and a conflict, ${viewport.width}`, async ({ page, serve }) => {
    const serving = await serve({ roots: ["site"] });
    await page.setViewportSize(viewport);
    await enter(page, serving);
    await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("Calculate fibonacci(10)");
    await expect(page.getByRole("button", { name: "Switch to Code" })).toBeVisible();
    await shots(page, "start-suggests-code");
    await conflict(serving);
    await page.goto(`${serving.address}/drafts/site`);
    if (viewport === PHONE) await page.getByRole("main").getByRole("listitem").getByRole("link", { name: "Build everything" }).click();
    await expect(page.getByRole("region", { name: "The file now" })).toBeVisible();
    await shots(page, "conflict");
    await page.getByRole("region", { name: "The draft" }).scrollIntoViewIfNeeded();
    await shots(page, "conflict-sides");
  });

  test(`the first time, and live, ${viewport.width}`, async ({ page, serve }) => {
    const serving = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "900" }, roots: ["site"] });
    await page.setViewportSize(viewport);
    await enter(page, serving);
    await expect(page.getByText("No trials yet")).toBeVisible();
    await shots(page, "first-time");
    await page.goto(`${serving.address}/drafts`);
    await expect(page.getByText("No submissions yet")).toBeVisible();
    await shots(page, "no-drafts");
    const id = await serving.begun({ kind: "consult", ticker: "NVDA" });
    await page.goto(`${serving.address}/runs/${id}?view=list`);
    await expect.poll(() => debated(page)).toBeGreaterThan(10);
    await shots(page, "live-list");
    for (const at of ["&at=m5", "&at=sandbox", ""]) {
      await page.goto(`${serving.address}/runs/${id}?view=pipeline${at}`);
      await expect(page.getByRole("application")).toContainText("Debate");
      await rests(page);
      await shots(page, `live-pipeline${at.replace("&at=", "-")}`);
    }
    await page.goto(`${serving.address}/runs/${id}?view=pipeline`);
    await expect(page.getByRole("application")).toContainText("Debate");
    await rests(page);
    for (let turn = 0; turn < 5; turn += 1) await page.getByRole("button", { name: "Farther" }).click();
    await rests(page);
    await shots(page, "live-pipeline-far");
  });
}
