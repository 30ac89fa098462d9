// One run: how it stands, what it took, and what happens in it.

import { Ban, GitFork, Play } from "lucide-react";
import { lazy, Suspense, type ReactNode } from "react";

import { post, type Run } from "../model/api";
import { useAsked, useDoing } from "../model/hooks";
import type { Line } from "../model/stream";
import { ago, count, dollars, tokens } from "../model/words";
import { Said } from "../parts/Said";
import { Badge, Button, Empty, Notice, StatusBadge } from "../parts/ui";
import { go } from "../route";

const ConsultRun = lazy(() => import("./consult/ConsultRun"));
const CodeRun = lazy(() => import("./code/CodeRun"));
const OtherRun = lazy(() => import("./OtherRun"));

export function RunPage({ id }: { id: string }) {
  const { value: run, problem } = useAsked<Run>(`/api/runs/${encodeURIComponent(id)}`);
  if (problem?.status === 404) return <Empty title="There is no such run">It may have been removed.</Empty>;
  if (problem && !run) return <Said problem={problem} />;
  if (!run) return <p className="text-sm text-soft">Looking…</p>;
  const View = run.kind === "consult" ? ConsultRun : run.kind === "run" ? CodeRun : OtherRun;
  return (
    <Suspense fallback={<p className="text-sm text-soft">Looking…</p>}>
      <View id={id} />
    </Suspense>
  );
}

/** What stands over every run. */
export function Head({ run, line, children }: { run: Run; line: Line; children?: ReactNode }) {
  const { doing, problem, perform } = useDoing();
  const path = `/api/runs/${encodeURIComponent(run.id)}`;
  const again = run.status === "stopped" || run.status === "failed" || run.status === "cancelled";
  const forks = run.kind === "consult" || run.kind === "debate";
  return (
    <header className="mb-4 grid gap-3">
      <div className="flex flex-wrap items-start gap-x-3 gap-y-2">
        <div className="min-w-0 flex-1">
          <h1 className="text-xl font-semibold break-words" dir="auto">
            {run.title}
          </h1>
          <p className="mt-1 flex flex-wrap items-center gap-2 text-xs text-soft">
            <StatusBadge status={run.status} />
            {run.label && <Badge tone="doubt">{run.label}</Badge>}
            <span>{run.id}</span>
            <span>begun {ago(run.created)}</span>
            {run.spent && <Took run={run} />}
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          {run.status === "running" && (
            <Button look="danger" disabled={doing} onClick={() => void perform(() => post(`${path}/cancel`))}>
              <Ban aria-hidden className="size-4" />
              Stop
            </Button>
          )}
          {again && (
            <Button look="primary" disabled={doing} onClick={() => void perform(async () => void (await post(`${path}/resume`)))}>
              <Play aria-hidden className="size-4" />
              Go on
            </Button>
          )}
          {forks && run.status === "done" && (
            <Button
              disabled={doing}
              onClick={() => void perform(async () => go(`/runs/${(await post<Run>(`${path}/fork`)).id}`))}
              title="A new run that takes over what was answered here"
            >
              <GitFork aria-hidden className="size-4" />
              Fork
            </Button>
          )}
          {children}
        </div>
      </div>
      {line === "lost" && (
        <Notice tone="doubt" title="The line to the server is lost">
          It is being called again. Nothing is missed: what happens meanwhile is told then.
        </Notice>
      )}
      {run.error && (
        <Notice tone={run.status === "failed" ? "bad" : "doubt"} title={run.error}>
          What was answered is kept: it can go on.
        </Notice>
      )}
      {problem && <Said problem={problem} />}
    </header>
  );
}

function Took({ run: { spent } }: { run: Run }) {
  if (!spent) return null;
  const { calls, input_tokens, cached_input_tokens, output_tokens, cost_usd } = spent;
  const cached = input_tokens > 0 ? Math.round((cached_input_tokens / input_tokens) * 100) : 0;
  return (
    <span>
      {count(calls, "call")} · {tokens(input_tokens)} in{cached > 0 && ` (${cached} % cached)`}, {tokens(output_tokens)} out ·{" "}
      {dollars(cost_usd)}
    </span>
  );
}
