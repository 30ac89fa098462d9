// What all views of one consultation share.

import { createContext, useContext } from "react";

import { isUnderWay, type Run } from "../../model/api";
import { halted, type Consult, type Progress } from "../../model/consult";
import type { Tone } from "../../parts/ui";
import type { Logs, Source } from "../debate/Transcript";
import { report, type Report } from "./report";

export const TONES: Record<Progress, Tone> = { waiting: "plain", running: "accent", stopped: "doubt", done: "good" };

export interface Consultation {
  run: Run;
  state: Consult;
  rounds: number;
  came: Report | null;
  /** The names of the judges, once they are known. */
  agents: Record<string, string>;
  titleOf: (move: string) => string | undefined;
  sourceOf: (move: string) => Source;
}

export function consultation(run: Run, told: Consult): Consultation {
  const state = isUnderWay(run.status) || run.status === "done" ? told : halted(told);
  const came = report(run.result);
  const path = `/api/runs/${encodeURIComponent(run.id)}`;
  return {
    run,
    state,
    rounds: Number(run.input.rounds) || 10,
    came,
    agents: came?.policy_scores[0]?.agents ?? {},
    titleOf: (move) => state.titles[move] ?? came?.move_suggestions.find((one) => one.move_id === move)?.title,
    sourceOf: (move) => ({
      words: `${path}/transcripts?move=${encodeURIComponent(move)}`,
      logs: (answer) => (answer as { moves: Record<string, Logs> }).moves[move],
      move: `${path}/documents/${encodeURIComponent(move)}.md`,
    }),
  };
}

export const Shared = createContext<Consultation | null>(null);

export function useConsultation(): Consultation {
  const shared = useContext(Shared);
  if (!shared) throw new Error("shown outside of a consultation");
  return shared;
}
