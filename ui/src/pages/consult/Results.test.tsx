import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { empty } from "../../model/consult";
import { consultRun, rankedMove, report, score, suggestion, verdict } from "../../model/fixtures";
import type { ConsultReport, JudgeScore, RankedMove } from "../../model/schema";
import { consultation, Shared } from "./consultation";
import { Results } from "./Results";

const HOSTILE = "<img src=x onerror=alert(1)>";

const card: JudgeScore = { ...score, reasoning: HOSTILE };
const placed = (number: number): RankedMove => ({ ...rankedMove, rank: number, move_id: `m${number}`, title: `Title ${number} ${HOSTILE}`, total_score: 100 - number });
const result: ConsultReport = {
  ...report,
  recommended_moves: [1, 2, 3].map(placed),
  other_moves: [4, 5].map(placed),
  policy_scores: [1, 2, 3, 4, 5].map((number) => ({ ...verdict, move_id: `m${number}`, total_score: 100 - number, scores_by_agent: { D1: card, D2: card, D3: card } })),
  // The second one cites nothing: the server leaves the field out.
  move_suggestions: [{ ...suggestion, persona: HOSTILE, thesis: HOSTILE, cited: [{ finding: "F1.1", title: HOSTILE }] }, { ...suggestion, move_id: "m2" }],
  flags: [
    { kind: "tie", message: "some are equal" },
    { kind: "tie", move_id: "m2", message: "m9 scored as much" },
    { kind: "assumed", move_id: "m5", message: "a judge did not answer" },
  ],
};

it("shows scores, reasons and flags where they belong, and runs nothing", () => {
  const shown = renderToStaticMarkup(
    <Shared.Provider value={consultation({ ...consultRun, status: "done", result }, empty())}>
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
