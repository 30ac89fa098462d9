import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import type { Run } from "../../model/api";
import { empty } from "../../model/consult";
import { consultation, Shared } from "./consultation";
import { Results } from "./Results";

const HOSTILE = "<img src=x onerror=alert(1)>";

const card = { reasoning: HOSTILE, unanswered: "who pays", impact: 9, feasibility: 8, risk_adjusted_return: 7, strategic_alignment: 6 };
const placed = (number: number) => ({ rank: number, move_id: `m${number}`, title: `Title ${number} ${HOSTILE}`, total_score: 100 - number, out_of: 120 });
const result = {
  recommended_moves: [1, 2, 3].map(placed),
  other_moves: [4, 5].map(placed),
  policy_scores: [1, 2, 3, 4, 5].map((number) => ({
    move_id: `m${number}`,
    total_score: 100 - number,
    out_of: 120,
    agents: { D1: "One", D2: "Two", D3: "Three" },
    scores_by_agent: { D1: card, D2: card, D3: card },
  })),
  move_suggestions: [{ move_id: "m1", agent_id: "a", persona: HOSTILE, title: "", thesis: HOSTILE, actions: [], cost: "", timeline: "", risks: [], cited: [{ finding: "F1.1", title: HOSTILE }] }],
  flags: [
    { kind: "tie", message: "some are equal" },
    { kind: "tie", move_id: "m2", message: "m9 scored as much" },
    { kind: "fallback", move_id: "m5", message: "a judge did not answer" },
  ],
  tie_rule: "by number",
};

it("shows scores, reasons and flags where they belong, and runs nothing", () => {
  const run = { id: "consult-1", title: "X", status: "done", input: { rounds: 2 }, result } as unknown as Run;
  const shown = renderToStaticMarkup(
    <Shared.Provider value={consultation(run, empty())}>
      <Results onOpen={() => {}} onDocument={() => {}} />
    </Shared.Provider>,
  );
  expect(shown).not.toContain("<img");
  expect(shown).toContain("2 things to know");
  expect(shown).toMatch(/m5 <\/span>a judge did not answer/);
  // What is about a move that is recommended stands in its card.
  const [, first, second] = shown.split("<h3");
  expect(first).not.toContain("m9 scored as much");
  expect(second).toContain("m9 scored as much");
  expect(shown.match(/who pays/g)).toHaveLength(9);
  expect(shown).toMatch(/Rests on.*F1\.1<\/button>/);
  expect(shown).toContain("The other 2");
});
