// View of a debate run: the scores and reasons of the judges, and the transcript.

import { apiUrl, type RunOf } from "../../model/api";
import { initialState, reduce, type ConversationId } from "../../model/consult";
import { useRunEvents, type RunProps } from "../../model/hooks";
import { formatCount } from "../../model/format";
import type { DebateReport } from "../../model/schema";
import { Card, Heading, Notice } from "../../parts/ui";
import { navigate, useRoute, withQuery } from "../../route";
import { RunHeader } from "../RunHeader";
import { JudgeTexts, ScoreTable } from "./Scores";
import { JUDGES } from "./RoundStrip";
import { Transcript, type Source } from "./Transcript";

/** Notice with the caveats of a verdict: conversations that ended early, and flags such as weaker isolation. */
export function Notes({ outcome }: { outcome: Pick<DebateReport, "partial" | "rounds" | "flags"> }) {
  const partial = Object.entries(outcome.partial ?? {}).map(
    ([log, { completed_rounds, error }]) => `PARTIAL: the conversation with judge ${JUDGES[log as ConversationId]} ended after ${completed_rounds} of ${formatCount(outcome.rounds, "round")}: ${error}`,
  );
  const notes = [...partial, ...outcome.flags.map((flag) => flag.message)];
  if (notes.length === 0) return null;
  return (
    <Notice tone="warning" title={`${formatCount(notes.length, "note")} on this verdict`}>
      <ul className="list-disc pl-5">
        {notes.map((one) => (
          <li key={one} dir="auto">
            {one}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

export default function DebateRun(props: RunProps<RunOf<"debate">>) {
  const { run } = props;
  const { state, connection, lost } = useRunEvents(props, initialState, reduce);
  const { query } = useRoute();
  const { rounds } = run.input;
  const scored = run.status === "done" ? run.result : null;
  const source: Source = {
    transcripts: apiUrl("/api/runs/{id}/transcripts", { id: run.id }),
    logs: (response) => ("conversation_logs" in response ? response.conversation_logs : undefined),
    move: apiUrl("/api/runs/{id}/artifacts/{artifact}", { id: run.id, artifact: "move.md" }),
  };
  const openRound = (to: ConversationId, at: number | null) => navigate(withQuery({ log: to, round: at === null ? null : String(at) }), true);
  return (
    <>
      <RunHeader {...props} connection={connection} lost={lost} rounds={rounds} />
      {scored && <Notes outcome={scored} />}
      {scored && (
        <Card className="mb-4 grid animate-arrive gap-4 lg:grid-cols-3">
          <div>
            <p className="mb-2 tabular-nums">
              <span className="text-2xl font-semibold text-accent">{scored.total_score}</span>
              <span className="text-sm text-soft"> of {scored.out_of} points</span>
            </p>
            <ScoreTable scored={scored} />
          </div>
          <JudgeTexts scored={scored} of="reasoning" title="Reasoning" />
          <JudgeTexts scored={scored} of="unanswered" title="Unanswered objections" />
        </Card>
      )}
      <Heading className="mb-2">Transcript</Heading>
      <Card className="flex h-[70dvh] flex-col p-0 print:block print:h-auto">
        <Transcript
          source={source}
          debate={Object.values(state.debates)[0] ?? null}
          rounds={rounds}
          agents={scored?.agents ?? {}}
          log={query.get("log")}
          round={Number(query.get("round")) || null}
          onOpenRound={openRound}
        />
      </Card>
    </>
  );
}
