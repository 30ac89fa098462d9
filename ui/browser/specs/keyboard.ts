// Everything by keys alone; whoever presses them sees at each stop where they are.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Locator, Page } from "@playwright/test";

import { critic, reading, stands } from "../harness/consultation.ts";
import { enter, expect, test, visit, Worker } from "../harness/test.ts";

/** Where the focus is, and whether that can be seen: by an outline, of its own or of what it stands in. */
async function stop(page: Page): Promise<{ at: string; seen: boolean }> {
  return page.evaluate(() => {
    const at = document.activeElement;
    if (!at || at === document.body) return { at: "nothing", seen: true };
    const outlined = (one: Element | null): boolean => {
      if (!one) return false;
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(one);
      return outlineStyle !== "none" && parseFloat(outlineWidth) >= 1 && !/, 0\)$|transparent/.test(outlineColor);
    };
    const box = at.getBoundingClientRect();
    const small = box.width <= 1 || box.height <= 1;
    const within = box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
    // What is there for readers of the screen alone is shown by its label.
    const seen = small ? outlined(at.closest("label")) : outlined(at) && within;
    return { at: at.outerHTML.slice(0, 160), seen };
  });
}

/** Goes from stop to stop until it is there. */
async function tabTo(page: Page, target: Locator, key = "Tab"): Promise<void> {
  for (let turn = 0; turn < 80; turn += 1) {
    await page.keyboard.press(key);
    const { at, seen } = await stop(page);
    expect.soft(seen, `the focus cannot be seen at ${at}`).toBe(true);
    if (await target.evaluateAll((all) => all.some((one) => one === document.activeElement))) return;
  }
  throw new Error(`it cannot be reached by ${key}: ${target}`);
}

test("a consultation is begun and read", async ({ page, serve }) => {
  const serving = await serve();
  await enter(page, serving);
  // The field waits for words.
  await expect(page.getByRole("textbox", { name: "A ticker, a task or a move" })).toBeFocused();
  await page.keyboard.type("NVDA");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/runs\/consult-/);
  await stands(page, "done");

  // From the first stop past the menu to the content.
  await page.reload();
  await stands(page, "done");
  await page.keyboard.press("Tab");
  const skip = page.getByRole("link", { name: "To the content" });
  await expect(skip).toBeFocused();
  await expect(skip).toBeInViewport();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();

  const tab = (name: string) => page.getByRole("tab", { name });
  await tabTo(page, tab("Results"));
  await page.keyboard.press("ArrowLeft");
  await expect(tab("As a list")).toBeFocused();
  await expect(page.getByRole("tabpanel", { name: "As a list" })).toBeVisible();
  const second = page.getByRole("button", { name: /^m2 / });
  await tabTo(page, second);
  await page.keyboard.press("Enter");
  const opened = reading(page, "m2");
  await expect(critic(opened, 1)).toBeVisible();
  // Within it the conversations can be changed, and the words scrolled.
  await tabTo(page, opened.getByRole("tab", { name: "D1" }));
  await page.keyboard.press("ArrowRight");
  await expect(opened.getByRole("tab", { name: "D2" })).toHaveAttribute("aria-selected", "true");
  await tabTo(page, opened.getByRole("button", { name: "Round 9" }));
  await page.keyboard.press("Enter");
  await expect(critic(opened, 9)).toBeInViewport();
  await page.keyboard.press("Escape");
  await expect(opened).toBeHidden();
  await expect(second).toBeFocused();
});

test("a debate is found and read in the drawing", async ({ page, kept }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await visit(page, kept, `/runs/${kept.consult.id}?view=pipeline`);
  const drawing = page.getByRole("application");
  const third = drawing.getByLabel(/^m3: /);
  await expect(third).toBeVisible();
  await tabTo(page, third);
  await page.keyboard.press("Enter");
  await expect(critic(drawing, 1)).toBeVisible();
  await expect(page).toHaveURL(/at=m3/);
  await tabTo(page, drawing.getByRole("tab", { name: "D1" }));
  await page.keyboard.press("ArrowRight");
  await expect(drawing.getByRole("tab", { name: "D2" })).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("Escape");
  await expect(critic(drawing, 1)).toBeHidden();
  await expect(page).toHaveURL(/at=sandbox/);
  // Whoever came out stands where they went in.
  await expect(third).toBeFocused();
});

test("a draft is accepted", async ({ page, serve }) => {
  const serving = await serve({ roots: ["site"] });
  await writeFile(join(serving.folder("site"), "watchdog.lock"), "1\n");
  const worker = await Worker.hired(serving, "site");
  await worker.proposes("pin", { "watchdog.lock": "2\n" }, "Pin the second one");
  await enter(page, serving);
  await page.keyboard.press("Shift+Tab");
  await tabTo(page, page.getByRole("link", { name: "Drafts" }), "Shift+Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Waiting for you")).toBeVisible();
  await tabTo(page, page.getByRole("link", { name: /Pin the second one/ }));
  await page.keyboard.press("Enter");
  await tabTo(page, page.getByRole("button", { name: "Accept" }));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: "Undo" })).toBeVisible();
  await tabTo(page, page.getByRole("button", { name: "Undo" }));
});

test("whether to fork is asked and left", async ({ page, kept }) => {
  await visit(page, kept, `/runs/${kept.consult.id}`);
  const button = page.getByRole("button", { name: "Fork" });
  await tabTo(page, button);
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Fork this run" });
  await expect(dialog).toBeVisible();
  await tabTo(page, dialog.getByRole("button", { name: "Leave it" }));
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(button).toBeFocused();
});
