import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import { consultRun, debateRun } from "../model/fixtures";
import type { LostCalls } from "../model/hooks";
import type { RunView } from "../model/schema";
import { RunHeader } from "./RunHeader";

const shown = (lost: LostCalls | null, run: RunView = consultRun) => renderToStaticMarkup(<RunHeader run={run} refetch={() => {}} connection="open" lost={lost} />);

it("run header shows the number of lost model calls and their maximum cost", () => {
  expect(shown({ calls: 3, maxCostUsd: 0.5 })).toContain("3 model calls lost when a worker stopped");
  expect(shown({ calls: 3, maxCostUsd: 0.5 })).toContain("The calls are repeated. The provider may have charged up to $0.50 for lost calls; this amount counts against the budget.");
  expect(shown({ calls: 1, maxCostUsd: 0 })).toContain("The call is repeated.");
  expect(shown(null)).not.toContain("lost");
});

it("run header of a fork shows from which round on the model calls are repeated", () => {
  const parent = "debate-00000000";
  expect(shown(null, { ...debateRun, parent, input: { ...debateRun.input, at: 3 } })).toContain("</a>; model calls repeated from round 3 on");
  expect(shown(null, { ...debateRun, parent })).not.toContain("from round");
  const forked = (from: string) => ({ ...consultRun, parent, input: { ...consultRun.input, forks: [{ from, at: "m3/round-4" }] } });
  expect(shown(null, forked(parent))).toContain("</a>; model calls repeated from m3, round 4 on");
  expect(shown(null, forked("consult-00000000"))).not.toContain("from m3");
});
