import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { ToKnow } from "./DebateRun";
import { Bars } from "./Scores";

const verdict = {
  move_id: "m1",
  total_score: 80,
  out_of: 120,
  rounds: 4,
  agents: { D1: "Growth Strategist", D2: "Operational Pragmatist" },
  scores_by_agent: { D1: { impact: 8 }, D2: { impact: 5, failed: "HTTP 429" } },
  partial: { i2: { completed_rounds: 2, error: "<b>HTTP 429</b>" } },
  flags: [{ kind: "weaker_isolation", message: "debates ran in a jail" }],
};

it("shows partial conversations, weaker isolation and neutral judges as text", () => {
  const page = renderToStaticMarkup(
    <>
      <ToKnow outcome={verdict} />
      <Bars scored={verdict} />
    </>,
  );
  expect(page).toContain("PARTIAL: i2 ended after 2 of 4 rounds: &lt;b&gt;HTTP 429&lt;/b&gt;");
  expect(page).toContain("debates ran in a jail");
  expect(page).toContain("neutral</span>");
  expect(page.match(/neutral<\/span>/g)).toHaveLength(1);
});
