import { expect, test, vi } from "vitest";

import { logFileMessage } from "../pages/Drafts";
import { EVENT, SNAPSHOT } from "./events";
import { lostCalls } from "./hooks";
import { subscribe, type ServerEvent } from "./stream";

const event = (name: string, data: Record<string, unknown>): ServerEvent => ({ id: 1, name, at: 0, data });

test("lostCalls returns the totals of the latest calls_lost event", () => {
  const events = [event(EVENT.callsLost, { calls: 2, at_most_usd: 0.5 }), event(EVENT.runEnded, {}), event(EVENT.callsLost, { calls: 3, at_most_usd: 0.75 })];
  const lost = lostCalls(null, events);
  expect(lost).toEqual({ calls: 3, maxCostUsd: 0.75 });
  expect(lostCalls(lost, [event(EVENT.runEnded, {})])).toBe(lost);
});

test("logFileMessage returns a message for events about the log file and null for other events", () => {
  const completed = event(EVENT.logCompleted, { detail: { lines_present: 4, lines_added: 1 } });
  expect(logFileMessage(completed)).toContain("1 missing line added");
  expect(logFileMessage(event(EVENT.logSetAside, { detail: { name: "transition-0a.ndjson" } }))).toContain("`transition-0a.ndjson`");
  expect(logFileMessage(event(EVENT.contentsDeleted, { detail: {} }))).toBeNull();
});

test("events of a new store are delivered although their ids are smaller than before", () => {
  const source = new EventTarget() as EventTarget & { close(): void };
  source.close = () => {};
  vi.stubGlobal("EventSource", function () {
    return source;
  });
  vi.stubGlobal("requestAnimationFrame", (flush: () => void) => {
    flush();
    return 0;
  });
  vi.stubGlobal("cancelAnimationFrame", () => {});
  const received: number[] = [];
  const subscription = subscribe("/events", {
    snapshot: () => {},
    connection: () => {},
    events: (events) => received.push(...events.map(({ id }) => id)),
  });
  const send = (name: string, id: string, data: object) =>
    source.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data), lastEventId: id }));
  send(SNAPSHOT, "", { last_event_id: 7 });
  send(EVENT.runEnded, "8", {});
  // Sent again after a reconnection to the same store.
  send(SNAPSHOT, "", { last_event_id: 8 });
  send(EVENT.runEnded, "8", {});
  send(SNAPSHOT, "", { last_event_id: 2 });
  send(EVENT.runEnded, "3", {});
  expect(received).toEqual([8, 3]);
  subscription.stop();
  vi.unstubAllGlobals();
});
