// Tests of code runs: a first program that fails, a program that writes a file, and live output.

import { expectStatus } from "../harness/consultation.ts";
import { chooseKind, expect, signIn, test, textOf, visit } from "../harness/test.ts";

test("a code run shows the failed program, its critique, and the changes in the fixed program", async ({ page, serve }) => {
  const server = await serve();
  await signIn(page, server);
  await chooseKind(page, "Code");
  await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("Read data from users.json and print usernames");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/runs\/run-\w+/);
  await expectStatus(page, "done");
  await expect(page.getByText(/^Solved/)).toBeVisible();

  const first = page.getByRole("region", { name: "Attempt 1" });
  await expect(first.getByText("exit code 1")).toBeVisible();
  await expect(first.getByLabel("Errors (stderr)")).toContainText("FileNotFoundError");
  await expect(first.getByText("no such file is in the sandbox")).toBeVisible();
  await expect(first.getByText("use sample data and say so")).toBeVisible();
  const second = page.getByRole("region", { name: "Attempt 2" });
  await expect(second.getByText("succeeded")).toBeVisible();
  // Added lines are marked with +, removed lines with −, and unchanged lines have no mark.
  const changed = await second.getByLabel("Program with changes since the previous attempt").innerText();
  expect(changed).toMatch(/^\d+\+\s*import os$/m);
  expect(changed).toMatch(/^\d*\s*−\s*with open\("users\.json"\) as file:$/m);
  expect(changed).toMatch(/^\d+\s*import json$/m);
  await expect(second.getByLabel("Output (stdout)")).toHaveText(/using sample data:\s*ada\s*grace\s*linus/);
});

test("an SVG file that a program wrote is shown as an image and can be downloaded", async ({ page, shared }) => {
  await visit(page, shared, `/runs/${shared.svgRun.id}`);
  const picture = page.getByRole("img", { name: "sine.svg" });
  await expect.poll(() => picture.evaluate((one: HTMLImageElement) => one.complete && one.naturalWidth)).toBeGreaterThan(0);
  const downloading = page.waitForEvent("download");
  await page.getByRole("link", { name: "sine.svg" }).click();
  expect(await textOf(await downloading)).toMatch(/^<svg .*<polyline/);
});

test("a code run shows the output of its program while the program runs", async ({ page, serve }) => {
  const server = await serve();
  await signIn(page, server);
  await chooseKind(page, "Code");
  await page.getByRole("textbox", { name: "Company ticker, programming task or proposed move" }).fill("Count down from ten");
  await page.keyboard.press("Enter");
  const live = page.getByLabel("Live output");
  await expect(live).toContainText(/\d/);
  await expectStatus(page, "done");
  await expect(live).toBeHidden();
  await expect(page.getByLabel("Output (stdout)")).toContainText(/3\s+2\s+1/);
});
