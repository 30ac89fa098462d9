// Keyboard-only use, with a visible focus at every step.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Locator, Page } from "@playwright/test";

import { criticLabel, debateDialog, expectStatus } from "../harness/consultation.ts";
import { expect, signIn, test, visit, Worker } from "../harness/test.ts";

/** The focused element, and whether its focus is visible: by its outline or, if it is hidden, that of its label. */
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
    // An input that only screen readers see shows its focus on its label.
    const visible = small ? outlined(at.closest("label")) : outlined(at) && within;
    return { at: at.outerHTML.slice(0, 160), visible };
  });
}

/** Presses a key until the target has the focus; expects a visible focus at each step. */
async function tabTo(page: Page, target: Locator, key = "Tab"): Promise<void> {
  for (let turn = 0; turn < 80; turn += 1) {
    await page.keyboard.press(key);
    const { at, visible } = await focus(page);
    expect.soft(visible, `focus is not visible at ${at}`).toBe(true);
    if (await target.evaluateAll((all) => all.some((one) => one === document.activeElement))) return;
  }
  throw new Error(`${target} cannot be reached with ${key}`);
}

test("a consultation is started and read by keyboard", async ({ page, serve }) => {
  const server = await serve();
  await signIn(page, server);
  // The field has the focus when the page opens.
  await expect(page.getByRole("textbox", { name: "Ticker, task or move" })).toBeFocused();
  await page.keyboard.type("NVDA");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/runs\/consult-/);
  await expectStatus(page, "done");

  // The first Tab stop is the skip link.
  await page.reload();
  await expectStatus(page, "done");
  await page.keyboard.press("Tab");
  const skip = page.getByRole("link", { name: "Skip to content" });
  await expect(skip).toBeFocused();
  await expect(skip).toBeInViewport();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();

  const tab = (name: string) => page.getByRole("tab", { name });
  await tabTo(page, tab("Results"));
  await page.keyboard.press("ArrowLeft");
  await expect(tab("List")).toBeFocused();
  await expect(page.getByRole("tabpanel", { name: "List" })).toBeVisible();
  const second = page.getByRole("button", { name: /^m2 / });
  await tabTo(page, second);
  await page.keyboard.press("Enter");
  const opened = debateDialog(page, "m2");
  await expect(criticLabel(opened, 1)).toBeVisible();
  // Inside the panel, keys switch between conversations and rounds.
  await tabTo(page, opened.getByRole("tab", { name: "D1" }));
  await page.keyboard.press("ArrowRight");
  await expect(opened.getByRole("tab", { name: "D2" })).toHaveAttribute("aria-selected", "true");
  await tabTo(page, opened.getByRole("button", { name: "Round 9" }));
  await page.keyboard.press("Enter");
  await expect(criticLabel(opened, 9)).toBeInViewport();
  await page.keyboard.press("Escape");
  await expect(opened).toBeHidden();
  await expect(second).toBeFocused();
});

test("a debate in the drawing is opened and closed by keyboard", async ({ page, shared }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await visit(page, shared, `/runs/${shared.consult.id}?view=pipeline`);
  const drawing = page.getByRole("application");
  const third = drawing.getByLabel(/^m3: /);
  await expect(third).toBeVisible();
  await tabTo(page, third);
  await page.keyboard.press("Enter");
  await expect(criticLabel(drawing, 1)).toBeVisible();
  await expect(page).toHaveURL(/at=m3/);
  await tabTo(page, drawing.getByRole("tab", { name: "D1" }));
  await page.keyboard.press("ArrowRight");
  await expect(drawing.getByRole("tab", { name: "D2" })).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("Escape");
  await expect(criticLabel(drawing, 1)).toBeHidden();
  await expect(page).toHaveURL(/at=sandbox/);
  // The focus returns to the card of the debate.
  await expect(third).toBeFocused();
});

test("a draft is accepted by keyboard", async ({ page, serve }) => {
  const server = await serve({ roots: ["site"] });
  await writeFile(join(server.folder("site"), "watchdog.lock"), "1\n");
  const worker = await Worker.connect(server, "site");
  await worker.submit("pin", { "watchdog.lock": "2\n" }, "Pin the second one");
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

test("the fork dialog opens and closes by keyboard", async ({ page, shared }) => {
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
