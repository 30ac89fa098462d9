import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { initialState } from "../../model/consult";
import { consultRun, rankedMove, report, score, suggestion, verdict } from "../../model/fixtures";
import type { ConsultReport, JudgeScore, RankedMove } from "../../model/schema";
import { consultation, ConsultationContext } from "./consultation";
import { Results } from "./Results";

const HOSTILE = "<img src=x onerror=alert(1)>";

const card: JudgeScore = { ...score, reasoning: HOSTILE };
const ranked = (number: number): RankedMove => ({ ...rankedMove, rank: number, move_id: `m${number}`, title: `Title ${number} ${HOSTILE}`, total_score: 100 - number });
const result: ConsultReport = {
  ...report,
  recommended_moves: [1, 2, 3].map(ranked),
  other_moves: [4, 5].map(ranked),
  policy_scores: [1, 2, 3, 4, 5].map((number) => ({ ...verdict, move_id: `m${number}`, total_score: 100 - number, scores_by_agent: { D1: card, D2: card, D3: card } })),
  // The second suggestion has no `cited` field: the server omits the field if the move cites no finding.
  move_suggestions: [{ ...suggestion, persona: HOSTILE, thesis: HOSTILE, cited: [{ finding: "F1.1", title: HOSTILE }] }, { ...suggestion, move_id: "m2" }],
  flags: [
    { kind: "tie", message: "some moves have equal scores" },
    { kind: "tie", move_id: "m2", message: "same total score as m9" },
    { kind: "assumed", move_id: "m5", message: "a judge did not answer" },
  ],
};

it("results show hostile texts as plain text, and each flag (caveat) with the move that it is about", () => {
  const shown = renderToStaticMarkup(
    <ConsultationContext.Provider value={consultation({ ...consultRun, status: "done", result }, initialState())}>
      <Results onOpen={() => {}} onDocument={() => {}} />
    </ConsultationContext.Provider>,
  );
  expect(shown).not.toContain("<img");
  expect(shown).toContain("2 notes on these results");
  expect(shown).toMatch(/m5 <\/span>a judge did not answer/);
  // The flag of a recommended move is in the card of that move.
  const [, first, second] = shown.split("<h3");
  expect(first).not.toContain("same total score as m9");
  expect(second).toContain("same total score as m9");
  expect(shown.match(/who pays/g)).toHaveLength(9);
  expect(shown).toMatch(/Based on finding .*F1\.1<\/button>/);
  expect(shown).toContain("Other moves (2)");
});
