// Tests of interrupted runs: a server that is killed, a run that is stopped and resumed, and a fork.

import { completedRounds, debateProgress, expectStatus, runHeader, scores, scoresOf, view } from "../harness/consultation.ts";
import { expect, type Run, signIn, test } from "../harness/test.ts";

/** The debates take about ten seconds, so that a slow browser still interrupts them in time. */
const SLOW = { env: { ASSIZE_REHEARSAL_LATENCY_MS: "1000" } };
const ROUNDS = 5;
const CONSULT = { kind: "consult", ticker: "NVDA", rounds: ROUNDS };

test("a consultation continues without loss after its server is killed and restarted", async ({ page, serve, shared, browserErrors }) => {
  const uninterrupted: Run = await shared.server.completeRun(CONSULT);
  const server = await serve(SLOW);
  await signIn(page, server);
  const id = await server.startRun(CONSULT);
  await page.goto(`${server.address}/runs/${id}?view=list`);
  await expect.poll(() => debateProgress(page)).toBeGreaterThan(15);
  // The browser logs connection errors while the server is down.
  browserErrors.allow(/ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)/);
  await server.kill();
  const lost = runHeader(page).getByText("Connection to the server lost");
  await expect(lost).toBeVisible();
  const before = await completedRounds(page);
  expect(Math.max(...before)).toBeGreaterThan(0);
  await server.restart();
  await expect(lost).toBeHidden();
  await expectStatus(page, "done");
  expect(await completedRounds(page)).toEqual(Array(45).fill(ROUNDS));
  await view(page, "Results").click();
  expect(await scores(page)).toEqual(scoresOf(uninterrupted));
  // The browser stays signed in across the restart.
  await page.reload();
  await expectStatus(page, "done");
});

test("a user stops, resumes and forks a consultation", async ({ page, serve }) => {
  const server = await serve(SLOW);
  await signIn(page, server);
  const id = await server.startRun(CONSULT);
  await page.goto(`${server.address}/runs/${id}?view=list`);
  await expect.poll(() => debateProgress(page)).toBeGreaterThan(10);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await expectStatus(page, "cancelled");
  const before = await completedRounds(page);
  expect(Math.min(...before)).toBeLessThan(ROUNDS);
  await page.getByRole("button", { name: "Resume" }).click();
  await expectStatus(page, "running");
  await expectStatus(page, "done");
  expect(await completedRounds(page)).toEqual(Array(45).fill(ROUNDS));
  const first: Run = await server.run(id);

  await page.getByRole("button", { name: "Fork" }).click();
  const dialog = page.getByRole("dialog", { name: "Fork this run" });
  await dialog.getByRole("combobox", { name: "Repeat all model calls from" }).selectOption("round 3");
  await dialog.getByRole("combobox", { name: "Proposed move whose debate is repeated" }).selectOption("m2");
  await dialog.getByRole("textbox", { name: "New persona" }).fill("You doubt every figure that has no source.");
  await dialog.getByRole("button", { name: "Fork" }).click();
  await expect(page).not.toHaveURL(new RegExp(id));
  await expect(runHeader(page).getByRole("link", { name: id })).toBeVisible();
  await expectStatus(page, "done");
  await view(page, "Results").click();
  const forked = await server.run(new URL(page.url()).pathname.split("/").at(-1)!);
  expect(forked.parent).toBe(id);
  expect(await scores(page)).toEqual(scoresOf(forked));
  // The fork has the same scores for all moves except m2, whose debate was repeated.
  const scored = (run: Run) => (run.result.policy_scores as { move_id: string }[]).filter((one) => one.move_id !== "m2");
  expect(scored(forked)).toEqual(scored(first));
  const transcript = async (run: Run) => (await server.get(`/api/runs/${run.id}/transcripts?move=m2`)).moves.m2.i1 as { round: number; content: string }[];
  const [old, now] = [await transcript(first), await transcript(forked)];
  const upTo = (entries: typeof old, round: number) => entries.filter((one) => one.round <= round);
  expect(upTo(now, 2)).toEqual(upTo(old, 2));
  expect(now).not.toEqual(old);
});
