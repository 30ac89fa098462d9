// What all views of one consultation share.

import { createContext, useContext } from "react";

import { at, isUnderWay, type RunOf } from "../../model/api";
import { halted, type Consult, type Progress } from "../../model/consult";
import type { ConsultReport } from "../../model/schema";
import type { Tone } from "../../parts/ui";
import type { Source } from "../debate/Transcript";

export const TONES: Record<Progress, Tone> = { waiting: "plain", running: "accent", stopped: "doubt", done: "good" };

interface Consultation {
  run: RunOf<"consult">;
  state: Consult;
  rounds: number;
  came: ConsultReport | null;
  /** The names of the judges, once they are known. */
  agents: Record<string, string>;
  titleOf: (move: string) => string | undefined;
  sourceOf: (move: string) => Source;
}

export function consultation(run: RunOf<"consult">, told: Consult): Consultation {
  const state = isUnderWay(run.status) || run.status === "done" ? told : halted(told);
  const came = run.result;
  return {
    run,
    state,
    rounds: run.input.rounds,
    came,
    agents: came?.policy_scores[0]?.agents ?? {},
    titleOf: (move) => state.titles[move] ?? came?.move_suggestions.find((one) => one.move_id === move)?.title,
    sourceOf: (move) => ({
      words: at("/api/runs/{id}/transcripts", { id: run.id }, { move }),
      logs: (answer) => ("moves" in answer ? answer.moves[move] : undefined),
      move: at("/api/runs/{id}/documents/{document}", { id: run.id, document: `${move}.md` }),
    }),
  };
}

export const Shared = createContext<Consultation | null>(null);

export function useConsultation(): Consultation {
  const shared = useContext(Shared);
  if (!shared) throw new Error("shown outside of a consultation");
  return shared;
}
