// What stands over every run: how it stands, what it took, and what can be done with it.

import { Ban, Play } from "lucide-react";
import { useEffect } from "react";

import { isUnderWay, post } from "../model/api";
import { useDoing, type LostCalls, type Watched } from "../model/hooks";
import type { RunView, Spent } from "../model/schema";
import type { Line } from "../model/stream";
import { ago, count, dollars, tokens } from "../model/words";
import { Lost, Said } from "../parts/Said";
import { Badge, Button, Notice, StatusBadge } from "../parts/ui";
import { Link, useTitle } from "../route";
import { Fork } from "./Fork";

interface Props extends Watched {
  line: Line;
  lost: LostCalls | null;
  /** Of what can be forked: the rounds that there are, and the moves. */
  rounds?: number;
  moves?: { id: string; title: string }[];
}

export function Head({ run, again, line, lost, rounds = 0, moves = [] }: Props) {
  const { doing, problem, perform, forget } = useDoing();
  // Whoever could not be reached is there again.
  useEffect(() => {
    if (line === "open") forget();
  }, [line, forget]);
  useTitle(run.status === "done" ? run.title : `${run.title} (${run.status})`);
  const ended = run.status === "stopped" || run.status === "failed" || run.status === "cancelled";
  const ask = (route: "/api/runs/{id}/cancel" | "/api/runs/{id}/resume") =>
    void perform(async () => {
      await post(route, { id: run.id });
      again();
    });
  const forkedAt = forkPlace(run);
  return (
    <header className="mb-4 grid gap-3">
      <div className="flex flex-wrap items-start gap-x-3 gap-y-2">
        <div className="flex-1 basis-64">
          <h1 className="text-xl font-semibold" dir="auto">
            {run.title}
          </h1>
          <p className="mt-1 flex flex-wrap items-center gap-2 text-xs text-soft">
            <span aria-live="polite">
              <StatusBadge status={run.status} />
            </span>
            {run.label && <Badge tone="doubt">{run.label}</Badge>}
            <span className="font-mono">{run.id}</span>
            <span className="print:hidden">begun {ago(run.created)}</span>
            <span className="hidden print:inline">begun {new Date(run.created).toLocaleString()}</span>
            <Took spent={run.spent} />
            {run.parent && (
              <span>
                forked from{" "}
                <Link href={`/runs/${run.parent}`} className="text-accent underline">
                  {run.parent}
                </Link>
                {forkedAt !== null && `, from ${forkedAt.replaceAll("-", " ").replace("/", ", ")} on`}
              </span>
            )}
          </p>
        </div>
        <div className="flex flex-wrap gap-2 print:hidden">
          {isUnderWay(run.status) && (
            <Button look="danger" disabled={doing} onClick={() => ask("/api/runs/{id}/cancel")}>
              <Ban aria-hidden className="size-4" />
              Stop
            </Button>
          )}
          {ended && (
            <Button look="primary" disabled={doing} onClick={() => ask("/api/runs/{id}/resume")}>
              <Play aria-hidden className="size-4" />
              Go on
            </Button>
          )}
          {rounds > 0 && !isUnderWay(run.status) && (
            <Fork run={run.id} rounds={rounds} moves={moves} />
          )}
        </div>
      </div>
      <Lost line={line} />
      {run.error && (
        <Notice tone={run.status === "failed" ? "bad" : "doubt"} title={run.error}>
          What was answered is kept: it can go on.
        </Notice>
      )}
      {lost !== null && lost.calls > 0 && (
        <Notice tone="doubt" title={`${count(lost.calls, "model call")} lost when a worker stopped`}>
          {lost.calls === 1 ? "It is repeated" : "They are repeated"}
          {lost.dollars > 0 && `; lost calls count as spent, ${dollars(lost.dollars)} at most`}.
        </Notice>
      )}
      {problem && <Said problem={problem} />}
    </header>
  );
}

/** Where a fork asks anew, such as `m3/round-4`. */
function forkPlace(run: RunView): string | null {
  if (run.kind === "debate") return run.input.at === null ? null : `round-${run.input.at}`;
  const fork = run.kind === "consult" ? run.input.turnings?.at(-1) : undefined;
  return fork !== undefined && fork.from === run.parent ? fork.at : null;
}

function Took({ spent }: { spent: Spent }) {
  const { calls, input_tokens, cached_input_tokens, output_tokens, cost_usd, cost_note } = spent;
  const cached = input_tokens > 0 ? Math.round((cached_input_tokens / input_tokens) * 100) : 0;
  return (
    <span>
      {count(calls, "call")} · {tokens(input_tokens)} tokens in ({cached} % cached), {tokens(output_tokens)} out · {dollars(cost_usd)}
      {cost_note && <> ({cost_note})</>}
    </span>
  );
}
