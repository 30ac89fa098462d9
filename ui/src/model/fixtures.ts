// Examples of server responses for tests. Their types come from the API, so a field that the API renames causes a
// compile error.

import type { RunOf } from "./api";
import type { CallTotals, ConsultReport, DebateVerdict, JudgeScore, RankedMove, RunSummary, UsageView, MoveSuggestion } from "./schema";

const summary: RunSummary = {
  id: "consult-abcdefgh",
  kind: "consult",
  title: "NVDA",
  status: "running",
  parent: null,
  created: 0,
  updated: 0,
  error: null,
  label: null,
};

const spent: UsageView = {
  calls: 2,
  input_tokens: 1000,
  cached_input_tokens: 500,
  output_tokens: 100,
  cost_usd: 0.25,
  lost_calls: 0,
  lost_usd: 0,
};

const totals: CallTotals = { calls: 2, extra: 0, usage: { input: 1000, cached_input: 500, cache_write: 0, output: 100 }, cost: "unknown", rehearsal: false };

const limits = { memory: 1, cpu_millis: 500, wall: { secs: 30, nanos: 0 }, processes: 128, output: 1, disk: 1 };

export const consultRun: RunOf<"consult"> = {
  ...summary,
  kind: "consult",
  input: {
    company: { ticker: "NVDA", name: null },
    synthetic: false,
    rounds: 2,
    moves: 1,
    blind_scores: false,
    limits,
    image: null,
    region: null,
    temperature: 0.5,
    max_output_tokens: 1000,
    context_window: null,
    provider: "openai",
    model: "gpt-5.4-mini",
  },
  result: null,
  executed_here: false,
  spent,
};

export const debateRun: RunOf<"debate"> = {
  ...summary,
  id: "debate-abcdefgh",
  kind: "debate",
  input: {
    move_id: "m1",
    ticker: null,
    rounds: 4,
    temperature: 0.5,
    max_output_tokens: 1000,
    context_window: null,
    limits,
    provider: "openai",
    model: "gpt-5.4-mini",
    at: null,
    reused_model: null,
  },
  result: null,
  executed_here: false,
  spent,
};

export const score: JudgeScore = {
  reasoning: "it is small",
  unanswered: "who pays",
  impact: 9,
  feasibility: 8,
  risk_adjusted_return: 7,
  strategic_alignment: 6,
  provenance: "native",
};

export const verdict: DebateVerdict = {
  move_id: "m1",
  ticker: null,
  total_score: 90,
  out_of: 120,
  scores_by_agent: { D1: score, D2: score, D3: score },
  agents: { D1: "Growth Strategist", D2: "Operational Pragmatist", D3: "Risk Officer" },
  rounds: 4,
  spent: totals,
};

export const rankedMove: RankedMove = { rank: 1, move_id: "m1", title: "Grow", total_score: 90, out_of: 120 };

export const suggestion: MoveSuggestion = {
  move_id: "m1",
  agent_id: "analyst_1",
  persona: "Market Builder",
  title: "Grow",
  thesis: "It grows.",
  actions: [],
  cost: "",
  timeline: "",
  risks: [],
  citations: [],
  content: "# Grow",
};

export const report: ConsultReport = {
  company_ticker: "NVDA",
  company: { ticker: "NVDA", name: null },
  financial_data_raw: "",
  news_data_raw: "",
  f1_financial_inference: "",
  f2_trend_inference: "",
  move_suggestions: [suggestion],
  policy_scores: [verdict],
  recommended_moves: [rankedMove],
  other_moves: [],
  tie_rule: "by number",
  flags: [],
  spent: totals,
};
