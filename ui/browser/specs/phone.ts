// The same on a phone, by touch: nothing is pushed aside, and what matters is within reach.

import type { Locator, Page } from "@playwright/test";

import { critic, debated, reading, stands, view } from "../harness/consultation.ts";
import { enter, expect, fits, test, visit, Worker } from "../harness/test.ts";
import { PHONE } from "../harness/views.ts";

test.use({ viewport: PHONE, isMobile: true, hasTouch: true });

/** Can be touched where it is, and is large enough for a finger. */
async function reach(page: Page, target: Locator): Promise<void> {
  await target.scrollIntoViewIfNeeded();
  await expect(target).toBeInViewport({ ratio: 1 });
  const box = (await target.boundingBox())!;
  expect.soft(Math.min(box.width, box.height), `${target} is small`).toBeGreaterThanOrEqual(24);
  await fits(page);
}

test("a consultation, from its beginning to a debate that is read", async ({ page, serve }) => {
  const serving = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "400" } });
  await enter(page, serving);
  await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("NVDA");
  await expect(page.getByText(/simulated calls/)).toBeVisible();
  const begin = page.getByRole("button", { name: "Begin" });
  await reach(page, begin);
  await begin.tap();
  // The list comes first here: there is no room for a drawing.
  await expect.poll(() => debated(page)).toBeGreaterThan(0);
  await reach(page, page.getByRole("button", { name: "Stop", exact: true }));
  await view(page, "Pipeline").tap();
  await expect(page.getByRole("application")).toContainText("Debate");
  await fits(page);
  await stands(page, "done");
  await view(page, "Results").tap();
  for (const name of ["report.md", "report.html", "report.json"]) await reach(page, page.getByRole("link", { name }));
  const read = page.getByRole("button", { name: "Read the debate" }).first();
  await reach(page, read);
  await read.tap();
  const opened = page.getByRole("dialog", { name: /^m\d+ / });
  await expect(critic(opened, 1)).toBeVisible();
  expect((await opened.boundingBox())!.width).toBe(PHONE.width);
  await reach(page, opened.getByRole("button", { name: "Round 10" }));
  await opened.getByRole("button", { name: "Round 10" }).tap();
  await expect(critic(opened, 10)).toBeInViewport();
  await reach(page, opened.getByRole("button", { name: "Close" }));
  await opened.getByRole("button", { name: "Close" }).tap();
  await expect(opened).toBeHidden();
  await view(page, "As a list").tap();
  await page.getByRole("button", { name: /^m15 / }).tap();
  await expect(reading(page, "m15")).toBeVisible();
});

test("programs, drafts and the machine", async ({ page, kept }) => {
  await visit(page, kept, `/runs/${kept.code.id}`);
  await expect(page.getByRole("heading", { name: "Attempt 2" })).toBeVisible();
  await fits(page);
  await visit(page, kept, `/runs/${kept.drawn.id}`);
  await reach(page, page.getByRole("img", { name: "sine.svg" }));
  await page.getByRole("link", { name: "System" }).tap();
  await expect(page.getByText("Who answers")).toBeVisible();
  await reach(page, page.getByRole("button", { name: "Look again" }));

  const worker = await Worker.hired(kept.serving, "site");
  await worker.proposes("touch", { "touched.lock": "1\n" }, "Pin it by a finger");
  await page.getByRole("link", { name: "Drafts" }).tap();
  await page.getByRole("link", { name: /Pin it by a finger/ }).tap();
  const reject = page.getByRole("button", { name: "Reject" });
  await reach(page, page.getByRole("button", { name: "Accept" }));
  await reach(page, page.getByRole("textbox", { name: "What the worker is told" }));
  await reach(page, reject);
  await reject.tap();
  await expect(reject).toBeHidden();
  // And back to the others.
  await page.getByRole("button", { name: "All drafts" }).tap();
  await expect(page.getByRole("link", { name: /Pin it by a finger/ })).toContainText("rejected");
});
