// The form that starts a run: it keeps the kind that was chosen, and sends files and options.

import { stands } from "../harness/consultation.ts";
import { choose, enter, expect, fits, test } from "../harness/test.ts";
import { PHONE } from "../harness/views.ts";

const field = { name: "A ticker, a task or a move" };

test("the form keeps its kind and suggests another", async ({ page, serve }) => {
  const serving = await serve();
  await enter(page, serving);
  await page.getByRole("textbox", field).fill("Calculate fibonacci(10)");
  await expect(page.getByRole("radio", { name: "Consult" })).toBeChecked();
  await expect(page.getByText("This looks like a task for a program.")).toBeVisible();
  await page.getByRole("button", { name: "Switch to Code" }).click();
  await expect(page.getByRole("radio", { name: "Code" })).toBeChecked();
  await expect(page.getByText("This looks like")).toBeHidden();
  // Nor does it switch back: NVDA could be a task.
  await page.getByRole("textbox", field).fill("NVDA");
  await expect(page.getByRole("radio", { name: "Code" })).toBeChecked();
});

test("a consultation of a private company takes the user's own data and blind scores", async ({ page, serve }) => {
  const serving = await serve();
  await page.setViewportSize(PHONE);
  await enter(page, serving);
  await page.getByRole("textbox", field).fill("Larkspur Kettles");
  await page.getByLabel("Private company").check();
  await expect(page.getByText("This looks like")).toBeHidden();
  const add = page.getByLabel("Add your own data");
  const file = (name: string, text: string) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await add.setInputFiles([file("figures.csv", "year,revenue\n2025,1234567\n"), file("wrong.md", "# Wrong\n")]);
  await add.setInputFiles([file("figures.csv", "again")]);
  await expect(page.getByRole("alert")).toHaveText("A file named figures.csv is there already.");
  await page.getByRole("button", { name: "Remove wrong.md" }).click();
  await expect(page.getByRole("list", { name: "Files to send" }).getByRole("listitem")).toHaveText([/^figures\.csv/]);
  await page.getByLabel("Blind scores").check();
  await page.getByRole("spinbutton", { name: "Rounds" }).fill("1");
  await fits(page);
  await page.getByRole("button", { name: "Begin" }).click();
  await expect(page).toHaveURL(/\/runs\/consult-\w+/);
  await stands(page, "done");
  const run = await serving.run(page.url().split("/").at(-1)!);
  expect(JSON.stringify(run.result)).toMatch(/"blind_score":\d/);
  expect(JSON.stringify(run.result)).toContain("Larkspur Kettles");
  await page.goto(`${serving.address}/runs/${run.id}?view=documents&document=financial_data_raw.md`);
  await expect(page.getByRole("main")).toContainText("1234567");
  await expect(page.getByRole("main")).not.toContainText("# Wrong");
});

test("a program finds the files that were sent", async ({ page, serve }) => {
  const serving = await serve();
  await enter(page, serving);
  await choose(page, "Code");
  await page.getByRole("textbox", field).fill("Read data from users.json and print usernames");
  const users = JSON.stringify([{ username: "margaret" }, { username: "katherine" }]);
  await page.getByLabel("Add files").setInputFiles({ name: "users.json", mimeType: "application/json", buffer: Buffer.from(users) });
  await page.getByRole("button", { name: "Begin" }).click();
  await expect(page).toHaveURL(/\/runs\/run-\w+/);
  await stands(page, "done");
  await expect(page.getByLabel("Output").last()).toHaveText(/margaret\s*katherine/);
});
