// Header of every run page: title, status and cost of the run, and buttons to stop, resume or fork the run.

import { Ban, Play } from "lucide-react";
import { useEffect } from "react";

import { isActive, post } from "../model/api";
import { useAction, type LostCalls, type RunProps } from "../model/hooks";
import type { RunView, UsageView } from "../model/schema";
import type { Connection } from "../model/stream";
import { formatAgo, formatCount, formatDollars, formatTokens } from "../model/format";
import { ConnectionNotice, ProblemNotice } from "../parts/notices";
import { Badge, Button, Notice, StatusBadge } from "../parts/ui";
import { Link, useTitle } from "../route";
import { Fork } from "./Fork";

interface Props extends RunProps {
  connection: Connection;
  lost: LostCalls | null;
  /** Number of debate rounds; 0 if the run cannot be forked. */
  rounds?: number;
  /** Proposed business moves of a consultation, for the fork dialog; empty for other kinds of runs. */
  moves?: { id: string; title: string }[];
}

export function RunHeader({ run, refetch, connection, lost, rounds = 0, moves = [] }: Props) {
  const { pending, problem, perform, clear } = useAction();
  // The server is reachable again: remove the message about an earlier failed request.
  useEffect(() => {
    if (connection === "open") clear();
  }, [connection, clear]);
  useTitle(run.status === "done" ? run.title : `${run.title} (${run.status})`);
  const ended = run.status === "stopped" || run.status === "failed" || run.status === "cancelled";
  const send = (route: "/api/runs/{id}/cancel" | "/api/runs/{id}/resume") =>
    void perform(async () => {
      await post(route, { id: run.id });
      refetch();
    });
  const forkedAt = forkPoint(run);
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
            {run.label && <Badge tone="warning">{run.label}</Badge>}
            <span className="font-mono">{run.id}</span>
            <span className="print:hidden">started {formatAgo(run.created)}</span>
            <span className="hidden print:inline">started {new Date(run.created).toLocaleString()}</span>
            <Cost spent={run.spent} />
            {run.parent && (
              <span>
                forked from{" "}
                <Link href={`/runs/${run.parent}`} className="text-accent underline">
                  {run.parent}
                </Link>
                {forkedAt !== null && `; model calls repeated from ${forkedAt.replaceAll("-", " ").replace("/", ", ")} on`}
              </span>
            )}
          </p>
        </div>
        <div className="flex flex-wrap gap-2 print:hidden">
          {isActive(run.status) && (
            <Button variant="danger" disabled={pending} onClick={() => send("/api/runs/{id}/cancel")}>
              <Ban aria-hidden className="size-4" />
              Stop
            </Button>
          )}
          {ended && (
            <Button variant="primary" disabled={pending} onClick={() => send("/api/runs/{id}/resume")}>
              <Play aria-hidden className="size-4" />
              Resume
            </Button>
          )}
          {rounds > 0 && !isActive(run.status) && (
            <Fork run={run.id} rounds={rounds} moves={moves} />
          )}
        </div>
      </div>
      <ConnectionNotice connection={connection} />
      {run.error && (
        <Notice tone={run.status === "failed" ? "bad" : "warning"} title={run.error}>
          The answers of finished model calls are stored: resuming the run does not repeat these calls.
        </Notice>
      )}
      {lost !== null && lost.calls > 0 && (
        <Notice tone="warning" title={`${formatCount(lost.calls, "model call")} lost when a worker stopped`}>
          {lost.calls === 1 ? "The call is repeated." : "The calls are repeated."}
          {lost.maxCostUsd > 0 && ` The provider may have charged up to ${formatDollars(lost.maxCostUsd)} for lost calls; this amount counts against the budget.`}
        </Notice>
      )}
      {problem && <ProblemNotice problem={problem} />}
    </header>
  );
}

/** Returns the point from which a fork repeats the model calls of its parent run, such as `m3/round-4`. */
function forkPoint(run: RunView): string | null {
  if (run.kind === "debate") return run.input.at === null ? null : `round-${run.input.at}`;
  const fork = run.kind === "consult" ? run.input.forks?.at(-1) : undefined;
  return fork !== undefined && fork.from === run.parent ? fork.at : null;
}

function Cost({ spent }: { spent: UsageView }) {
  const { calls, input_tokens, cached_input_tokens, output_tokens, cost_usd, cost_note } = spent;
  const cached = input_tokens > 0 ? Math.round((cached_input_tokens / input_tokens) * 100) : 0;
  return (
    <span>
      {formatCount(calls, "model call")} · tokens: {formatTokens(input_tokens)} input ({cached} % cached), {formatTokens(output_tokens)} output · {formatDollars(cost_usd)}
      {cost_note && <> ({cost_note})</>}
    </span>
  );
}
