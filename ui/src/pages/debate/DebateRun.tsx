// A debate: the strip as it fills, what is said, and what the judges made of it.

import { at, type RunOf } from "../../model/api";
import { empty, reduce, type Log } from "../../model/consult";
import { useFollowed, type Watched } from "../../model/hooks";
import type { DebateReport } from "../../model/schema";
import { Card, Heading, Notice } from "../../parts/ui";
import { go, useRoute, withQuery } from "../../route";
import { Head } from "../Head";
import { Bars, Words } from "./Scores";
import { Transcript, type Source } from "./Transcript";

/** What must be known of a verdict: conversations that ended early, and how it was isolated. */
export function ToKnow({ outcome }: { outcome: Pick<DebateReport, "partial" | "rounds" | "flags"> }) {
  const partial = Object.entries(outcome.partial ?? {}).map(
    ([log, { completed_rounds, error }]) => `PARTIAL: ${log} ended after ${completed_rounds} of ${outcome.rounds} rounds: ${error}`,
  );
  const words = [...partial, ...outcome.flags.map((flag) => flag.message)];
  if (words.length === 0) return null;
  return (
    <Notice tone="doubt" title={words.length === 1 ? "One thing to know" : `${words.length} things to know`}>
      <ul className="list-disc pl-5">
        {words.map((one) => (
          <li key={one} dir="auto">
            {one}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

export default function DebateRun(watched: Watched<RunOf<"debate">>) {
  const { run } = watched;
  const { state, line, lost } = useFollowed(watched, empty, reduce);
  const { query } = useRoute();
  const { rounds } = run.input;
  const scored = run.status === "done" ? run.result : null;
  const source: Source = {
    words: at("/api/runs/{id}/transcripts", { id: run.id }),
    logs: (answer) => ("conversation_logs" in answer ? answer.conversation_logs : undefined),
    move: at("/api/runs/{id}/artifacts/{artifact}", { id: run.id, artifact: "move.md" }),
  };
  const place = (to: Log, at: number | null) => go(withQuery({ log: to, round: at === null ? null : String(at) }), true);
  return (
    <>
      <Head {...watched} line={line} lost={lost} rounds={rounds} />
      {scored && <ToKnow outcome={scored} />}
      {scored && (
        <Card className="mb-4 grid animate-arrive gap-4 lg:grid-cols-3">
          <div>
            <p className="mb-2 tabular-nums">
              <span className="text-2xl font-semibold text-accent">{scored.total_score}</span>
              <span className="text-sm text-soft"> of {scored.out_of}</span>
            </p>
            <Bars scored={scored} />
          </div>
          <Words scored={scored} of="reasoning" title="Why" />
          <Words scored={scored} of="unanswered" title="Not answered" />
        </Card>
      )}
      <Heading className="mb-2">What is said</Heading>
      <Card className="flex h-[70dvh] flex-col p-0 print:block print:h-auto">
        <Transcript
          source={source}
          debate={Object.values(state.debates)[0] ?? null}
          rounds={rounds}
          agents={scored?.agents ?? {}}
          log={query.get("log")}
          round={Number(query.get("round")) || null}
          onPlace={place}
        />
      </Card>
    </>
  );
}
