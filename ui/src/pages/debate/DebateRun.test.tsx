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

it("partial conversations, weaker isolation and neutral judges are shown as text", () => {
  const page = renderToStaticMarkup(
    <>
      <Notes outcome={outcome} />
      <ScoreTable scored={outcome} />
    </>,
  );
  expect(page).toContain("PARTIAL: i2 ended after 2 of 4 rounds: &lt;b&gt;HTTP 429&lt;/b&gt;");
  expect(page).toContain("debates ran in a jail");
  expect(page).toContain("neutral</span>");
  expect(page.match(/neutral<\/span>/g)).toHaveLength(1);
});
