import { expect, test } from "vitest";

import { aboutLogFile } from "../pages/Drafts";
import { EVENT } from "./events";
import { lostCalls } from "./hooks";
import type { Told } from "./stream";

const told = (name: string, data: Record<string, unknown>): Told => ({ id: 1, name, at: 0, data });

test("lost calls are the total of the latest event", () => {
  const events = [told(EVENT.callsLost, { calls: 2, at_most_usd: 0.5 }), told(EVENT.runEnded, {}), told(EVENT.callsLost, { calls: 3, at_most_usd: 0.75 })];
  const lost = lostCalls(null, events);
  expect(lost).toEqual({ calls: 3, dollars: 0.75 });
  expect(lostCalls(lost, [told(EVENT.runEnded, {})])).toBe(lost);
});

test("events about the log file say what happened to it", () => {
  const completed = told(EVENT.logCompleted, { detail: { lines_there: 4, lines_added: 1 } });
  expect(aboutLogFile(completed)).toContain("1 missing line added");
  expect(aboutLogFile(told(EVENT.logSetAside, { detail: { name: "transition-0a.ndjson" } }))).toContain("`transition-0a.ndjson`");
  expect(aboutLogFile(told(EVENT.swept, { detail: {} }))).toBeNull();
});
