// Tests that the page can be used on a phone by touch: no horizontal scrolling, and buttons large enough for a finger.

import type { Locator, Page } from "@playwright/test";

import { criticLabel, debateDialog, debateProgress, expectStatus, view } from "../harness/consultation.ts";
import { DraftClient, expect, expectFits, signIn, test, visit } from "../harness/test.ts";
import { PHONE } from "../harness/views.ts";

test.use({ viewport: PHONE, isMobile: true, hasTouch: true });

/** Expects that an element can be scrolled fully into view, and that it is at least 24 px wide and 24 px high. */
async function expectTouchable(page: Page, target: Locator): Promise<void> {
  await target.scrollIntoViewIfNeeded();
  await expect(target).toBeInViewport({ ratio: 1 });
  const box = (await target.boundingBox())!;
  expect.soft(Math.min(box.width, box.height), `${target} is too small to touch`).toBeGreaterThanOrEqual(24);
  await expectFits(page);
}

test("a consultation can be started on a phone", async ({ page, serve }) => {
  const server = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "2000" } });
  await signIn(page, server);
  await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("NVDA");
  await expect(page.getByText(/simulated calls/)).toBeVisible();
  const start = page.getByRole("button", { name: "Start" });
  await expectTouchable(page, start);
  await start.tap();
  // In a narrow window, the progress list is shown first instead of the pipeline diagram.
  await expect.poll(() => debateProgress(page)).toBeGreaterThan(0);
  await expectTouchable(page, page.getByRole("button", { name: "Stop", exact: true }));
  await view(page, "Pipeline").tap();
  await expect(page.getByRole("application")).toContainText("Debate");
  await expectFits(page);
});

test("the results and debates of a consultation can be read on a phone", async ({ page, shared }) => {
  await visit(page, shared, `/runs/${shared.consult.id}`);
  await expectStatus(page, "done");
  await view(page, "Results").tap();
  for (const name of ["report.md", "report.html", "report.json"]) await expectTouchable(page, page.getByRole("link", { name }));
  const read = page.getByRole("button", { name: "Read the debate" }).first();
  await expectTouchable(page, read);
  await read.tap();
  const opened = page.getByRole("dialog", { name: /^m\d+ / });
  await expect(criticLabel(opened, 1)).toBeVisible();
  expect((await opened.boundingBox())!.width).toBe(PHONE.width);
  await expectTouchable(page, opened.getByRole("button", { name: "Round 2" }));
  await opened.getByRole("button", { name: "Round 2" }).tap();
  await expect(criticLabel(opened, 2)).toBeInViewport();
  await expectTouchable(page, opened.getByRole("button", { name: "Close" }));
  await opened.getByRole("button", { name: "Close" }).tap();
  await expect(opened).toBeHidden();
  await view(page, "Progress list").tap();
  await page.getByRole("button", { name: /^m15 / }).tap();
  await expect(debateDialog(page, "m15")).toBeVisible();
});

test("code runs, the System page and the Drafts page can be used on a phone", async ({ page, shared }) => {
  await visit(page, shared, `/runs/${shared.code.id}`);
  await expect(page.getByRole("heading", { name: "Attempt 2" })).toBeVisible();
  await expectFits(page);
  await visit(page, shared, `/runs/${shared.svgRun.id}`);
  await expectTouchable(page, page.getByRole("img", { name: "sine.svg" }));
  await page.getByRole("link", { name: "System" }).tap();
  await expect(page.getByText("Provider in use")).toBeVisible();
  await expectTouchable(page, page.getByRole("button", { name: "Run checks again" }));

  const agent = await DraftClient.connect(shared.server, "site");
  await agent.submit("touch", { "touched.lock": "1\n" }, "Pin it by a finger");
  await page.getByRole("link", { name: "Drafts" }).tap();
  await page.getByRole("link", { name: /Pin it by a finger/ }).tap();
  const reject = page.getByRole("button", { name: "Reject" });
  await expectTouchable(page, page.getByRole("button", { name: "Accept" }));
  await expectTouchable(page, page.getByRole("textbox", { name: "Reason for the rejection" }));
  await expectTouchable(page, reject);
  await reject.tap();
  await expect(reject).toBeHidden();
  // A button leads back to the list.
  await page.getByRole("button", { name: "All submissions" }).tap();
  await expect(page.getByRole("link", { name: /Pin it by a finger/ })).toContainText("rejected");
});
