// Every view, in both colours and at both widths: for those who see little, who use other tools, who want no motion.

import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { enter, expect, fits, test, visit } from "../harness/test.ts";
import { PHONE, VIEWS } from "../harness/views.ts";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Finds nothing to object to. */
async function sound(page: Page, what: string, only?: string[]): Promise<void> {
  // Without frames nothing has to be asked of them, which would take a page more each time.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
  // What is drawn small can be brought nearer, and the list has it, too.
  if (page.url().includes("view=pipeline")) axe.disableRules("target-size");
  const { violations } = await (only ? axe.withRules(only) : axe.withTags(RULES)).analyze();
  const said = violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}\n  ${node.html.slice(0, 200)}\n  ${node.failureSummary?.replaceAll("\n", "\n  ")}`));
  expect.soft(said.slice(0, 6), what).toEqual([]);
}

/** What is in motion. */
async function moving(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const running = document.getAnimations().filter((one) => one.playState === "running");
    return running.map((one) => (one.effect as KeyframeEffect).target?.outerHTML.slice(0, 160) ?? "something");
  });
}

for (const { name, path, ready } of VIEWS) {
  test(name, async ({ page, kept, faults }) => {
    // Whoever asks for what is not there is told so.
    if (["nowhere", "no such run"].includes(name)) faults.forgive(/404/);
    // Colours that change slowly are no colours yet.
    await page.emulateMedia({ reducedMotion: "reduce" });
    await visit(page, kept, path(kept));
    await ready(page);
    await sound(page, `${name}, desktop, light`);
    await fits(page);
    expect.soft(await moving(page), "what moves").toEqual([]);
    // Nothing but colours differs in the dark.
    await page.emulateMedia({ colorScheme: "dark" });
    await sound(page, `${name}, desktop, dark`, ["color-contrast"]);
    await page.setViewportSize(PHONE);
    await sound(page, `${name}, phone, dark`, ["color-contrast"]);
    await page.emulateMedia({ colorScheme: "light" });
    await sound(page, `${name}, phone, light`);
    await fits(page);
  });
}

test("nothing moves for those who want no motion, also while much happens", async ({ page, serve }) => {
  const serving = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "400" } });
  await enter(page, serving);
  const id = await serving.begun({ kind: "consult", ticker: "NVDA", rounds: 20 });
  await page.goto(`${serving.address}/runs/${id}?view=pipeline&at=sandbox`);
  await expect(page.getByRole("application").getByText(/^round \d+ of 20/).first()).toBeVisible();
  // For others something does.
  await expect.poll(() => moving(page)).not.toEqual([]);
  await page.emulateMedia({ reducedMotion: "reduce" });
  for (const view of ["Pipeline", "As a list"]) {
    await page.getByRole("tab", { name: view }).click();
    await expect(page.getByRole("tabpanel", { name: view })).toBeVisible();
    // What the browser itself begins, such as to scroll, is over at once.
    await expect.poll(() => moving(page)).toEqual([]);
  }
  expect((await serving.run(id)).status).toBe("running");
});

test("the colours are chosen, and kept", async ({ page, kept }) => {
  await visit(page, kept, "/");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  const button = page.getByRole("button", { name: /^Colours/ });
  await button.click();
  await button.click();
  await expect(button).toHaveAccessibleName(/^Colours: dark/);
  const dark = await ground();
  expect(dark).not.toBe(light);
  await page.reload();
  await expect(button).toHaveAccessibleName(/^Colours: dark/);
  expect(await ground()).toBe(dark);
});

test("those who are not let in are told how", async ({ page, kept, faults }) => {
  faults.forgive(/status of (401|410)/);
  await page.goto(kept.serving.address);
  await expect(page.getByRole("heading", { name: "Who is there?" })).toBeVisible();
  await sound(page, "at the door");
  const link = await kept.serving.link();
  await enter(page, kept.serving);
  await page.goto(link);
  await expect(page.getByRole("navigation", { name: "Main" })).toBeVisible();
  // It works once.
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "This link does not work" })).toBeVisible();
  await sound(page, "with an old link");
  await page.goto(`${kept.serving.address}/api/docs`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await sound(page, "the description");
  await page.setViewportSize(PHONE);
  await fits(page);
});
