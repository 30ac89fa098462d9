import { describe, expect, it } from "vitest";

import { initialState, layerProgress, moveIds, ranking, reduce, type ConsultState } from "./consult";
import { EVENT } from "./events";
import type { ServerEvent } from "./stream";

let last = 0;
const event = (name: string, data: Record<string, unknown>): ServerEvent => ({ id: (last += 1), name, at: 0, data });
const after = (...all: [string, Record<string, unknown>][]): ConsultState =>
  all.map(([name, data]) => event(name, data)).reduce(reduce, initialState());

describe("reduce of consultation events", () => {
  it("updates the layers, agents and documents of the state", () => {
    const state = after(
      [EVENT.layerStart, { layer: 2 }],
      [EVENT.agentStart, { layer: 2, agent_id: "analyst_1", persona: "Market Builder" }],
      [EVENT.agentStart, { layer: 2, agent_id: "analyst_2", persona: "Contrarian" }],
      [EVENT.agentComplete, { layer: 2, agent_id: "analyst_1", output: ["m1.md", "m10.md", "m2.md"] }],
    );
    expect(state.layers["2"]).toBe("running");
    expect(layerProgress(state, "2", 10)).toBe(0.5);
    expect(moveIds(state)).toEqual(["m1", "m2", "m10"]);
    expect(reduce(state, event(EVENT.layerComplete, { layer: 2, artifacts: ["m1.md"] })).layers["2"]).toBe("done");
  });

  it("updates the round and the failure of each conversation of a debate", () => {
    const state = after(
      [EVENT.layerStart, { layer: "sandbox" }],
      [EVENT.sandboxRound, { move: "m1", round: 1, status: "critic_responded", next: "dm_responding" }],
      [EVENT.sandboxRound, { move: "m1", round: 1, status: "dm_responded", next: "critic_responding", log: "i2" }],
      [EVENT.sandboxRound, { move: "m1", round: 2, status: "failed", error: "too long", log: "i3" }],
    );
    const { conversations } = state.debates.m1!;
    expect(conversations.i1).toMatchObject({ critic: 1, judge: 0, next: "judge" });
    expect(conversations.i2).toMatchObject({ critic: 1, judge: 1, next: "critic" });
    expect(conversations.i3.failed).toBe("too long");
    expect(layerProgress(state, "sandbox", 2)).toBeGreaterThan(0);
    const resumed = reduce(state, event(EVENT.sandboxRound, { move: "m1", round: 2, status: "critic_responded", log: "i3" }));
    expect(resumed.debates.m1!.conversations.i3.failed).toBeNull();
    const scored = reduce(state, event(EVENT.sandboxScored, { move: "m1", score: 77, breakdown: {} }));
    expect(layerProgress(scored, "sandbox", 2)).toBe(1);
  });

  it("ignores unknown layers, incomplete events and unknown events", () => {
    const state = after([EVENT.layerStart, { layer: "attic" }], [EVENT.sandboxRound, {}], [EVENT.warning, { message: "low memory" }], ["new", {}]);
    expect(state).toEqual({ ...initialState(), warnings: ["low memory"] });
  });
});

it("ranking returns the proposed moves by score, and the final ranking once the ranking event has arrived", () => {
  const state = after(
    [EVENT.layerStart, { layer: 0 }],
    [EVENT.agentStart, { layer: 0, agent_id: "gather_news", persona: "News and sentiment" }],
    [EVENT.agentComplete, { layer: 0, agent_id: "gather_news", output: ["news_data_raw.md"], titles: [""] }],
    [EVENT.layerComplete, { layer: 0, artifacts: ["news_data_raw.md"] }],
    [EVENT.agentStart, { layer: 2, agent_id: "analyst_1", persona: "Market Builder" }],
    [EVENT.agentComplete, { layer: 2, agent_id: "analyst_1", output: ["m1.md", "m2.md"], titles: ["Grow", "Wait"] }],
    [EVENT.sandboxScored, { move: "m1", score: 40, breakdown: {} }],
    [EVENT.sandboxScored, { move: "m2", score: 70, breakdown: {} }],
  );
  expect(state.titles).toEqual({ m1: "Grow", m2: "Wait" });
  expect(state.agents.map(({ id, progress }) => `${id} ${progress}`)).toEqual(["gather_news done", "analyst_1 done"]);
  expect(ranking(state)).toEqual(["m2", "m1"]);
  expect(ranking(reduce(state, event(EVENT.pipelineComplete, { recommended: ["m1"], other: ["m2"] })))).toEqual(["m1", "m2"]);
});
