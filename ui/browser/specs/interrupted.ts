// What is broken off goes on: servers that are killed, people who stop, and runs that take over from others.

import { conversations, debated, head, scores, scoresOf, stands, view } from "../harness/consultation.ts";
import { enter, expect, type Run, test } from "../harness/test.ts";

const SLOW = { env: { ASSIZE_REHEARSAL_LATENCY_MS: "400" } };
const ROUNDS = 8;
const CONSULT = { kind: "consult", ticker: "NVDA", rounds: ROUNDS };

test("a server that is killed and started again loses nothing", async ({ page, serve, kept, faults }) => {
  const calm: Run = await kept.serving.through(CONSULT);
  const serving = await serve(SLOW);
  await enter(page, serving);
  const id = await serving.begun(CONSULT);
  await page.goto(`${serving.address}/runs/${id}?view=list`);
  await expect.poll(() => debated(page)).toBeGreaterThan(15);
  // Nobody answers meanwhile, and the browser says so.
  faults.forgive(/ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)/);
  await serving.kill();
  const lost = head(page).getByText("The line to the server is lost");
  await expect(lost).toBeVisible();
  const before = await conversations(page);
  expect(Math.max(...before)).toBeGreaterThan(0);
  await serving.again();
  await expect(lost).toBeHidden();
  await stands(page, "done");
  expect(await conversations(page)).toEqual(Array(45).fill(ROUNDS));
  await view(page, "Results").click();
  expect(await scores(page)).toEqual(scoresOf(calm));
  // Whoever was let in before still is.
  await page.reload();
  await stands(page, "done");
});

test("a consultation is stopped, goes on, and is forked", async ({ page, serve }) => {
  const serving = await serve(SLOW);
  await enter(page, serving);
  const id = await serving.begun(CONSULT);
  await page.goto(`${serving.address}/runs/${id}?view=list`);
  await expect.poll(() => debated(page)).toBeGreaterThan(10);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await stands(page, "cancelled");
  const before = await conversations(page);
  expect(Math.min(...before)).toBeLessThan(ROUNDS);
  await page.getByRole("button", { name: "Go on" }).click();
  await stands(page, "running");
  await stands(page, "done");
  expect(await conversations(page)).toEqual(Array(45).fill(ROUNDS));
  const first: Run = await serving.run(id);

  await page.getByRole("button", { name: "Fork" }).click();
  const dialog = page.getByRole("dialog", { name: "Fork this run" });
  await dialog.getByRole("combobox", { name: "From" }).selectOption("round 3");
  await dialog.getByRole("combobox", { name: "Of" }).selectOption("m2");
  await dialog.getByRole("textbox", { name: "What they are told to be" }).fill("You doubt every figure that has no source.");
  await dialog.getByRole("button", { name: "Fork" }).click();
  await expect(page).not.toHaveURL(new RegExp(id));
  await expect(head(page).getByRole("link", { name: id })).toBeVisible();
  await stands(page, "done");
  await view(page, "Results").click();
  const forked = await serving.run(new URL(page.url()).pathname.split("/").at(-1)!);
  expect(forked.parent).toBe(id);
  expect(await scores(page)).toEqual(scoresOf(forked));
  // Only what was asked again can have come to something else.
  const scored = (run: Run) => (run.result.policy_scores as { move_id: string }[]).filter((one) => one.move_id !== "m2");
  expect(scored(forked)).toEqual(scored(first));
  const said = async (run: Run) => (await serving.get(`/api/runs/${run.id}/transcripts?move=m2`)).moves.m2.i1 as { round: number; content: string }[];
  const [old, now] = [await said(first), await said(forked)];
  const upTo = (entries: typeof old, round: number) => entries.filter((one) => one.round <= round);
  expect(upTo(now, 2)).toEqual(upTo(old, 2));
  expect(now).not.toEqual(old);
});
