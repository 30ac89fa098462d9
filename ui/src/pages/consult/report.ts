// What a consultation came to, as far as the page shows it.

import type { Scored } from "../debate/Scores";

export interface Placed {
  rank: number;
  move_id: string;
  title: string;
  total_score: number;
  out_of: number;
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
  flags: { kind: string; move_id?: string; message: string }[];
  tie_rule: string;
}

/** The result of a consultation that is done. */
export function report(result: unknown): Report | null {
  if (typeof result !== "object" || result === null || !("recommended_moves" in result)) return null;
  return result as Report;
}
