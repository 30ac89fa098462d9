// Accessibility tests of every view, in both colour schemes and at desktop and phone width: WCAG rules, contrast and
// reduced motion.

import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { expect, expectFits, signIn, test, visit } from "../harness/test.ts";
import { PHONE, VIEWS } from "../harness/views.ts";

/** Tags of the axe rules that are checked. */
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Expects that axe finds no accessibility violation in the page. `only` and `without` limit the check to some rules. */
async function expectAccessible(page: Page, label: string, { only, without = [] }: { only?: string[]; without?: string[] } = {}): Promise<void> {
  // The page has no frames, so legacy mode is sufficient; without it axe opens an extra page for each check.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ["violations"] });
  // Small click targets in the pipeline diagram are allowed: users can zoom in, and the list has the same content.
  const disabled = page.url().includes("view=pipeline") ? [...without, "target-size"] : without;
  const { violations } = await (only ? axe.withRules(only) : axe.withTags(RULES).disableRules(disabled)).analyze();
  const messages = violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}\n  ${node.html.slice(0, 200)}\n  ${node.failureSummary?.replaceAll("\n", "\n  ")}`));
  expect.soft(messages.slice(0, 6), label).toEqual([]);
}

/** Returns the HTML of the elements with a running animation. */
async function animated(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const running = document.getAnimations().filter((one) => one.playState === "running");
    return running.map((one) => (one.effect as KeyframeEffect).target?.outerHTML.slice(0, 160) ?? "unknown element");
  });
}

for (const { name, path, ready } of VIEWS) {
  test(`accessibility of view: ${name}`, async ({ page, shared, browserErrors }) => {
    // For these views the server answers with status 404, which the browser logs as an error.
    if (["unknown page", "unknown run"].includes(name)) browserErrors.allow(/404/);
    // Disable transitions, so that axe measures the contrast of the final colours.
    await page.emulateMedia({ reducedMotion: "reduce" });
    await visit(page, shared, path(shared));
    await ready(page);
    await expectAccessible(page, `${name}, desktop, light`);
    await expectFits(page);
    expect.soft(await animated(page), "animated elements despite reduced motion").toEqual([]);
    // The dark scheme differs only in colours, so check only the contrast.
    await page.emulateMedia({ colorScheme: "dark" });
    await expectAccessible(page, `${name}, desktop, dark`, { only: ["color-contrast"] });
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize(PHONE);
    // The phone has the same colours, and the check of the contrast takes the longest.
    await expectAccessible(page, `${name}, phone, light`, { without: ["color-contrast"] });
    await expectFits(page);
  });
}

test("a page with an active run has no animations if the user prefers reduced motion", async ({ page, serve }) => {
  const server = await serve({ env: { ASSIZE_REHEARSAL_LATENCY_MS: "400" } });
  await signIn(page, server);
  const id = await server.startRun({ kind: "consult", ticker: "NVDA", rounds: 20 });
  await page.goto(`${server.address}/runs/${id}?view=pipeline&at=sandbox`);
  await expect(page.getByRole("application").getByText(/^round \d+ of 20/).first()).toBeVisible();
  // Control: without the preference for reduced motion, some elements are animated.
  await expect.poll(() => animated(page)).not.toEqual([]);
  await page.emulateMedia({ reducedMotion: "reduce" });
  for (const view of ["Pipeline", "Progress list"]) {
    await page.getByRole("tab", { name: view }).click();
    await expect(page.getByRole("tabpanel", { name: view })).toBeVisible();
    // Poll, because the browser's own animations, such as smooth scrolling, may still be ending.
    await expect.poll(() => animated(page)).toEqual([]);
  }
  expect((await server.run(id)).status).toBe("running");
});

test("the chosen colour scheme is kept after a reload", async ({ page, shared }) => {
  await visit(page, shared, "/");
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  const button = page.getByRole("button", { name: /^Colour scheme/ });
  await button.click();
  await button.click();
  await expect(button).toHaveAccessibleName(/^Colour scheme: dark/);
  const dark = await background();
  expect(dark).not.toBe(light);
  await page.reload();
  await expect(button).toHaveAccessibleName(/^Colour scheme: dark/);
  expect(await background()).toBe(dark);
});

test("the sign-in page, the page of a used sign-in link and the API documentation are accessible", async ({ page, shared, browserErrors }) => {
  browserErrors.allow(/status of (401|410)/);
  await page.goto(shared.server.address);
  await expect(page.getByRole("heading", { name: "Sign in required" })).toBeVisible();
  await expectAccessible(page, "sign-in page");
  const link = await shared.server.link();
  await signIn(page, shared.server);
  await page.goto(link);
  await expect(page.getByRole("navigation", { name: "Main" })).toBeVisible();
  // A sign-in link works only once: the second visit shows an error page.
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "This sign-in link is not valid" })).toBeVisible();
  await expectAccessible(page, "page of a used link");
  await page.goto(`${shared.server.address}/api/docs`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expectAccessible(page, "API documentation");
  await page.setViewportSize(PHONE);
  await expectFits(page);
});
