import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { score, verdict } from "../../model/fixtures";
import type { DebateReport } from "../../model/schema";
import { Notes } from "./DebateRun";
import { ScoreTable } from "./Scores";

const outcome: DebateReport = {
  ...verdict,
  scores_by_agent: { D1: score, D2: { ...score, failed: "HTTP 429" } },
  partial: { i2: { completed_rounds: 2, error: "<b>HTTP 429</b>" } },
  isolation: "jail",
  flags: [{ kind: "weaker_isolation", message: "debates ran in a jail" }],
};

it("a debate verdict shows conversations that ended early, weaker isolation and judges with neutral scores", () => {
  const page = renderToStaticMarkup(
    <>
      <Notes outcome={outcome} />
      <ScoreTable scored={outcome} />
    </>,
  );
  expect(page).toContain("PARTIAL: the conversation with judge D2 ended after 2 of 4 rounds: &lt;b&gt;HTTP 429&lt;/b&gt;");
  expect(page).toContain("debates ran in a jail");
  expect(page).toContain("failed: neutral scores</span>");
  expect(page.match(/neutral scores<\/span>/g)).toHaveLength(1);
});
