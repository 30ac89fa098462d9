// What a consultation came to, as far as the page shows it.

export interface Placed {
  rank: number;
  move_id: string;
  title: string;
  total_score: number;
  out_of: number;
}

export interface Card {
  reasoning?: string;
  unanswered?: string;
  impact?: number;
  feasibility?: number;
  risk_adjusted_return?: number;
  strategic_alignment?: number;
  provenance?: string;
}

export interface Scored {
  move_id: string;
  total_score: number;
  out_of: number;
  agents: Record<string, string>;
  scores_by_agent: Record<string, Card>;
}

export interface Suggested {
  move_id: string;
  agent_id: string;
  persona: string;
  title: string;
  thesis: string;
  actions: string[];
  cost: string;
  timeline: string;
  risks: string[];
  cited: { finding: string; title: string }[];
}

export interface Report {
  recommended_moves: Placed[];
  other_moves: Placed[];
  policy_scores: Scored[];
  move_suggestions: Suggested[];
  flags: { kind: string; move?: string; message: string }[];
  tie_rule: string;
}

export const METRICS = [
  { key: "impact", name: "Impact" },
  { key: "feasibility", name: "Feasibility" },
  { key: "risk_adjusted_return", name: "Risk-adjusted return" },
  { key: "strategic_alignment", name: "Strategic alignment" },
] as const;

/** The result of a consultation that is done. */
export function report(result: unknown): Report | null {
  if (typeof result !== "object" || result === null || !("recommended_moves" in result)) return null;
  return result as Report;
}

/** What all judges gave for a metric. */
export function sum(scored: Scored, metric: (typeof METRICS)[number]["key"]): number {
  return Object.values(scored.scores_by_agent).reduce((total, card) => total + (card[metric] ?? 0), 0);
}
