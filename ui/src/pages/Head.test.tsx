import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";

import type { Run } from "../model/api";
import type { LostCalls } from "../model/hooks";
import { Head } from "./Head";

const run: Run = {
  id: "consult-abcdefgh",
  kind: "consult",
  title: "NVDA",
  status: "running",
  parent: null,
  created: 0,
  updated: 0,
  error: null,
  label: null,
  input: {},
  result: null,
  held_here: false,
};

const shown = (lost: LostCalls | null) => renderToStaticMarkup(<Head run={run} again={() => {}} line="open" lost={lost} />);

it("says how many model calls were lost, and what they cost at most", () => {
  expect(shown({ calls: 3, dollars: 0.5 })).toContain("3 model calls lost when a worker stopped");
  expect(shown({ calls: 3, dollars: 0.5 })).toContain("They are repeated; lost calls count as spent, $0.50 at most.");
  expect(shown({ calls: 1, dollars: 0 })).toContain("It is repeated.");
  expect(shown(null)).not.toContain("lost");
});
