// Takes screenshots of every view. The environment variable ASSIZE_SHOTS is the path of the output folder.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import type { Page } from "@playwright/test";

import { debateProgress } from "../harness/consultation.ts";
import { createConflict, expect, signIn, test, visit } from "../harness/test.ts";
import { DESKTOP, PHONE, VIEWS, waitUntilStill } from "../harness/views.ts";

const FOLDER = process.env.ASSIZE_SHOTS ?? "";

/** Takes a screenshot of the page in the light and in the dark colour scheme. */
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
    test(`screenshot of ${name}, ${viewport.width}px`, async ({ page, shared, browserErrors }) => {
      browserErrors.allow(/404/);
      await page.setViewportSize(viewport);
      await visit(page, shared, path(shared));
      await ready(page);
      await shots(page, name);
    });
  }

  test(`screenshots of a suggested kind of trial and of a submission with a conflict, ${viewport.width}px`, async ({ page, serve }) => {
    const server = await serve({ roots: ["site"] });
    await page.setViewportSize(viewport);
    await signIn(page, server);
    await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("Calculate fibonacci(10)");
    await expect(page.getByRole("button", { name: "Switch to Code" })).toBeVisible();
    await shots(page, "start-suggests-code");
    await createConflict(server);
    await page.goto(`${server.address}/drafts/site`);
    if (viewport === PHONE) await page.getByRole("main").getByRole("listitem").getByRole("link", { name: "Build everything" }).click();
    await expect(page.getByRole("region", { name: "Current file" })).toBeVisible();
    await shots(page, "conflict");
    await page.getByRole("region", { name: "Drafted file" }).scrollIntoViewIfNeeded();
    await shots(page, "conflict-sides");
  });

  test(`screenshots of empty pages and a running consultation, ${viewport.width}px`, async ({ page, serve }) => {
    const server = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "900" }, roots: ["site"] });
    await page.setViewportSize(viewport);
    await signIn(page, server);
    await expect(page.getByText("No trials yet")).toBeVisible();
    await shots(page, "first-time");
    await page.goto(`${server.address}/drafts`);
    await expect(page.getByText("No submissions yet")).toBeVisible();
    await shots(page, "no-drafts");
    const id = await server.startRun({ kind: "consult", ticker: "NVDA" });
    await page.goto(`${server.address}/runs/${id}?view=list`);
    await expect.poll(() => debateProgress(page)).toBeGreaterThan(10);
    await shots(page, "live-list");
    for (const at of ["&at=m5", "&at=sandbox", ""]) {
      await page.goto(`${server.address}/runs/${id}?view=pipeline${at}`);
      await expect(page.getByRole("application")).toContainText("Debate");
      await waitUntilStill(page);
      await shots(page, `live-pipeline${at.replace("&at=", "-")}`);
    }
    await page.goto(`${server.address}/runs/${id}?view=pipeline`);
    await expect(page.getByRole("application")).toContainText("Debate");
    await waitUntilStill(page);
    for (let turn = 0; turn < 5; turn += 1) await page.getByRole("button", { name: "Zoom out" }).click();
    await waitUntilStill(page);
    await shots(page, "live-pipeline-far");
  });
}
