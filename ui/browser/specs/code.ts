// Programs: one that fails at first, one that leaves a drawing, one that is watched as it writes.

import { stands } from "../harness/consultation.ts";
import { choose, enter, expect, test, text, visit } from "../harness/test.ts";

test("a program that fails at first is criticised, mended and run again", async ({ page, serve }) => {
  const serving = await serve();
  await enter(page, serving);
  await choose(page, "Code");
  await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("Read data from users.json and print usernames");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/runs\/run-\w+/);
  await stands(page, "done");
  await expect(page.getByText(/^It works/)).toBeVisible();

  const first = page.getByRole("region", { name: "Attempt 1" });
  await expect(first.getByText("exit code 1")).toBeVisible();
  await expect(first.getByLabel("Errors")).toContainText("FileNotFoundError");
  await expect(first.getByText("no such file is in the sandbox")).toBeVisible();
  await expect(first.getByText("work on sample data and say so")).toBeVisible();
  const second = page.getByRole("region", { name: "Attempt 2" });
  await expect(second.getByText("succeeded")).toBeVisible();
  // What is new in it is marked, and what stayed is not.
  const changed = await second.getByLabel("The program, and what changed in it").innerText();
  expect(changed).toMatch(/^\d+\+\s*import os$/m);
  expect(changed).toMatch(/^\d*\s*−\s*with open\("users\.json"\) as file:$/m);
  expect(changed).toMatch(/^\d+\s*import json$/m);
  await expect(second.getByLabel("Output")).toHaveText(/these are sample data:\s*ada\s*grace\s*linus/);
});

test("a drawing that a program left is shown and downloaded", async ({ page, kept }) => {
  await visit(page, kept, `/runs/${kept.drawn.id}`);
  const picture = page.getByRole("img", { name: "sine.svg" });
  await expect.poll(() => picture.evaluate((one: HTMLImageElement) => one.complete && one.naturalWidth)).toBeGreaterThan(0);
  const coming = page.waitForEvent("download");
  await page.getByRole("link", { name: "sine.svg" }).click();
  expect(await text(await coming)).toMatch(/^<svg .*<polyline/);
});

test("what a program writes is shown while it runs", async ({ page, serve }) => {
  const serving = await serve();
  await enter(page, serving);
  await choose(page, "Code");
  await page.getByRole("textbox", { name: "A ticker, a task or a move" }).fill("Count down from ten");
  await page.keyboard.press("Enter");
  const writes = page.getByLabel("What it writes");
  await expect(writes).toContainText(/\d/);
  await stands(page, "done");
  await expect(writes).toBeHidden();
  await expect(page.getByLabel("Output")).toContainText(/3\s+2\s+1/);
});
