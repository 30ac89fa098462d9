// Tests of the start form: it keeps the chosen kind of trial, and sends files and options.

import { expectStatus } from "../harness/consultation.ts";
import { chooseKind, expect, expectFits, signIn, test } from "../harness/test.ts";
import { PHONE } from "../harness/views.ts";

const field = { name: "Company ticker, programming task or proposed move" };

test("the start form suggests another kind of trial but does not switch by itself", async ({ page, serve }) => {
  const server = await serve();
  await signIn(page, server);
  await page.getByRole("textbox", field).fill("Calculate fibonacci(10)");
  await expect(page.getByRole("radio", { name: "Consult" })).toBeChecked();
  await expect(page.getByText("This looks like a programming task.")).toBeVisible();
  await page.getByRole("button", { name: "Switch to Code" }).click();
  await expect(page.getByRole("radio", { name: "Code" })).toBeChecked();
  await expect(page.getByText("This looks like")).toBeHidden();
  // The form does not switch back for a ticker either, because NVDA could be a programming task.
  await page.getByRole("textbox", field).fill("NVDA");
  await expect(page.getByRole("radio", { name: "Code" })).toBeChecked();
});

test("a consultation of a private company uses the files and the option for blind scores from the start form", async ({ page, serve }) => {
  const server = await serve();
  await page.setViewportSize(PHONE);
  await signIn(page, server);
  await page.getByRole("textbox", field).fill("Larkspur Kettles");
  await page.getByLabel("Private company").check();
  await expect(page.getByText("This looks like")).toBeHidden();
  const add = page.getByLabel("Add your own data");
  const file = (name: string, text: string) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await add.setInputFiles([file("figures.csv", "year,revenue\n2025,1234567\n"), file("wrong.md", "# Wrong\n")]);
  await add.setInputFiles([file("figures.csv", "again")]);
  await expect(page.getByRole("alert")).toHaveText("A file named figures.csv was already added.");
  await page.getByRole("button", { name: "Remove wrong.md" }).click();
  await expect(page.getByRole("list", { name: "Files to send" }).getByRole("listitem")).toHaveText([/^figures\.csv/]);
  await page.getByLabel("Blind scores").check();
  await page.getByRole("spinbutton", { name: "Debate rounds" }).fill("1");
  await expectFits(page);
  await page.getByRole("button", { name: "Start" }).click();
  await expect(page).toHaveURL(/\/runs\/consult-\w+/);
  await expectStatus(page, "done");
  const run = await server.run(page.url().split("/").at(-1)!);
  expect(JSON.stringify(run.result)).toMatch(/"blind_score":\d/);
  expect(JSON.stringify(run.result)).toContain("Larkspur Kettles");
  await page.goto(`${server.address}/runs/${run.id}?view=documents&document=financial_data_raw.md`);
  await expect(page.getByRole("main")).toContainText("1234567");
  await expect(page.getByRole("main")).not.toContainText("# Wrong");
});

test("the program of a code run can read files that are sent with the start form", async ({ page, serve }) => {
  const server = await serve();
  await signIn(page, server);
  await chooseKind(page, "Code");
  await page.getByRole("textbox", field).fill("Read data from users.json and print usernames");
  const users = JSON.stringify([{ username: "margaret" }, { username: "katherine" }]);
  await page.getByLabel("Add files").setInputFiles({ name: "users.json", mimeType: "application/json", buffer: Buffer.from(users) });
  await page.getByRole("button", { name: "Start" }).click();
  await expect(page).toHaveURL(/\/runs\/run-\w+/);
  await expectStatus(page, "done");
  await expect(page.getByLabel("Output (stdout)").last()).toHaveText(/margaret\s*katherine/);
});
