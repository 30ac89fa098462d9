// React context with the data that all views of one consultation share.

import { createContext, useContext } from "react";

import { apiUrl, isActive, type RunOf } from "../../model/api";
import { stoppedState, type ConsultState, type Progress } from "../../model/consult";
import type { ConsultReport } from "../../model/schema";
import type { Tone } from "../../parts/ui";
import type { Source } from "../debate/Transcript";

/** Colour of the badge for each progress value. */
export const TONES: Record<Progress, Tone> = { waiting: "plain", running: "accent", stopped: "warning", done: "good" };

interface Consultation {
  run: RunOf<"consult">;
  state: ConsultState;
  /** Number of rounds of each debate. */
  rounds: number;
  /** Report of the consultation; `null` until the run has a result. */
  report: ConsultReport | null;
  /** Names of the judges, by judge id such as `D1`; empty until the run has a result. */
  agents: Record<string, string>;
  titleOf: (move: string) => string | undefined;
  sourceOf: (move: string) => Source;
}

export function consultation(run: RunOf<"consult">, current: ConsultState): Consultation {
  const state = isActive(run.status) || run.status === "done" ? current : stoppedState(current);
  const report = run.result;
  return {
    run,
    state,
    rounds: run.input.rounds,
    report,
    agents: report?.policy_scores[0]?.agents ?? {},
    titleOf: (move) => state.titles[move] ?? report?.move_suggestions.find((one) => one.move_id === move)?.title,
    sourceOf: (move) => ({
      transcripts: apiUrl("/api/runs/{id}/transcripts", { id: run.id }, { move }),
      logs: (response) => ("moves" in response ? response.moves[move] : undefined),
      move: apiUrl("/api/runs/{id}/documents/{document}", { id: run.id, document: `${move}.md` }),
    }),
  };
}

export const ConsultationContext = createContext<Consultation | null>(null);

export function useConsultation(): Consultation {
  const shared = useContext(ConsultationContext);
  if (!shared) throw new Error("useConsultation was called outside of a ConsultationContext provider");
  return shared;
}
