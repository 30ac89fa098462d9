// Tests that the page can be used with the keyboard alone, and that the focus is visible at every step.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Locator, Page } from "@playwright/test";

import { criticLabel, debateDialog, expectStatus } from "../harness/consultation.ts";
import { DraftClient, expect, signIn, test, visit } from "../harness/test.ts";

/** Returns the focused element, and whether the element (or the label of a hidden element) has a visible outline. */
async function focus(page: Page): Promise<{ at: string; visible: boolean }> {
  return page.evaluate(() => {
    const at = document.activeElement;
    if (!at || at === document.body) return { at: "nothing", visible: true };
    const outlined = (one: Element | null): boolean => {
      if (!one) return false;
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(one);
      return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1 && !/, 0\)$|transparent/.test(outlineColor);
    };
    const box = at.getBoundingClientRect();
    const small = box.width <= 1 || box.height <= 1;
    const within = box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
    // An input that is visually hidden shows its focus on its label.
    const visible = small ? outlined(at.closest("label")) : outlined(at) && within;
    return { at: at.outerHTML.slice(0, 160), visible };
  });
}

/** Presses a key until the target has the focus. Expects after each key press that the focus is visible. */
async function tabTo(page: Page, target: Locator, key = "Tab"): Promise<void> {
  for (let turn = 0; turn < 80; turn += 1) {
    await page.keyboard.press(key);
    const { at, visible } = await focus(page);
    expect.soft(visible, `the focus is not visible on ${at}`).toBe(true);
    if (await target.evaluateAll((all) => all.some((one) => one === document.activeElement))) return;
  }
  throw new Error(`${target} does not get the focus within 80 presses of ${key}`);
}

test("a consultation can be started with the keyboard alone", async ({ page, serve }) => {
  const server = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "2000" } });
  await signIn(page, server);
  // The text field has the focus when the page opens.
  await expect(page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" })).toBeFocused();
  await page.keyboard.type("NVDA");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/runs\/consult-/);
  await expectStatus(page, "running");
});

test("the debates of a consultation can be read with the keyboard alone", async ({ page, shared }) => {
  await visit(page, shared, `/runs/${shared.consult.id}`);
  await expectStatus(page, "done");
  // The first Tab stop is the skip link.
  await page.keyboard.press("Tab");
  const skip = page.getByRole("link", { name: "Skip to content" });
  await expect(skip).toBeFocused();
  await expect(skip).toBeInViewport();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();

  const tab = (name: string) => page.getByRole("tab", { name });
  await tabTo(page, tab("Results"));
  await page.keyboard.press("ArrowLeft");
  await expect(tab("Progress list")).toBeFocused();
  await expect(page.getByRole("tabpanel", { name: "Progress list" })).toBeVisible();
  const second = page.getByRole("button", { name: /^m2 / });
  await tabTo(page, second);
  await page.keyboard.press("Enter");
  const opened = debateDialog(page, "m2");
  await expect(criticLabel(opened, 1)).toBeVisible();
  // Inside the side panel, arrow keys switch between conversations, and Enter opens a round.
  await tabTo(page, opened.getByRole("tab", { name: "D1" }));
  await page.keyboard.press("ArrowRight");
  await expect(opened.getByRole("tab", { name: "D2" })).toHaveAttribute("aria-selected", "true");
  await tabTo(page, opened.getByRole("button", { name: "Round 2" }));
  await page.keyboard.press("Enter");
  await expect(criticLabel(opened, 2)).toBeInViewport();
  await page.keyboard.press("Escape");
  await expect(opened).toBeHidden();
  await expect(second).toBeFocused();
});

test("a debate in the pipeline diagram can be opened and closed with the keyboard alone", async ({ page, shared }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await visit(page, shared, `/runs/${shared.consult.id}?view=pipeline`);
  const diagram = page.getByRole("application");
  const third = diagram.getByLabel(/^m3: /);
  await expect(third).toBeVisible();
  await tabTo(page, third);
  await page.keyboard.press("Enter");
  await expect(criticLabel(diagram, 1)).toBeVisible();
  await expect(page).toHaveURL(/at=m3/);
  await tabTo(page, diagram.getByRole("tab", { name: "D1" }));
  await page.keyboard.press("ArrowRight");
  await expect(diagram.getByRole("tab", { name: "D2" })).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("Escape");
  await expect(criticLabel(diagram, 1)).toBeHidden();
  await expect(page).toHaveURL(/at=sandbox/);
  // The focus returns to the card of the debate.
  await expect(third).toBeFocused();
});

test("a submission can be accepted with the keyboard alone", async ({ page, serve }) => {
  const server = await serve({ roots: ["site"] });
  await writeFile(join(server.folder("site"), "watchdog.lock"), "1\n");
  const agent = await DraftClient.connect(server, "site");
  await agent.submit("pin", { "watchdog.lock": "2\n" }, "Pin the second one");
  await signIn(page, server);
  await page.keyboard.press("Shift+Tab");
  await tabTo(page, page.getByRole("link", { name: "Drafts" }), "Shift+Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Needs your review")).toBeVisible();
  await tabTo(page, page.getByRole("link", { name: /Pin the second one/ }));
  await page.keyboard.press("Enter");
  await tabTo(page, page.getByRole("button", { name: "Accept" }));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: "Undo" })).toBeVisible();
  await tabTo(page, page.getByRole("button", { name: "Undo" }));
});

test("the fork dialog can be opened and closed with the keyboard alone", async ({ page, shared }) => {
  await visit(page, shared, `/runs/${shared.consult.id}`);
  const button = page.getByRole("button", { name: "Fork" });
  await tabTo(page, button);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Fork this run" });
  await expect(dialog).toBeVisible();
  await tabTo(page, dialog.getByRole("button", { name: "Cancel" }));
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(button).toBeFocused();
});
