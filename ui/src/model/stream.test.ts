import { expect, test } from "vitest";

import { logFileMessage } from "../pages/Drafts";
import { EVENT } from "./events";
import { lostCalls } from "./hooks";
import type { ServerEvent } from "./stream";

const event = (name: string, data: Record<string, unknown>): ServerEvent => ({ id: 1, name, at: 0, data });

test("lostCalls returns the totals of the latest calls_lost event", () => {
  const events = [event(EVENT.callsLost, { calls: 2, at_most_usd: 0.5 }), event(EVENT.runEnded, {}), event(EVENT.callsLost, { calls: 3, at_most_usd: 0.75 })];
  const lost = lostCalls(null, events);
  expect(lost).toEqual({ calls: 3, maxCostUsd: 0.75 });
  expect(lostCalls(lost, [event(EVENT.runEnded, {})])).toBe(lost);
});

test("aboutLogFile returns a message for events about the log file and null for other events", () => {
  const completed = event(EVENT.logCompleted, { detail: { lines_present: 4, lines_added: 1 } });
  expect(logFileMessage(completed)).toContain("1 missing line added");
  expect(logFileMessage(event(EVENT.logSetAside, { detail: { name: "transition-0a.ndjson" } }))).toContain("`transition-0a.ndjson`");
  expect(logFileMessage(event(EVENT.contentsDeleted, { detail: {} }))).toBeNull();
});
