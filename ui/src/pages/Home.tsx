// Start page: the form that starts a trial, the provider and sandbox that the server uses, and the recent trials.

import * as m from "motion/react-m";
import { useState } from "react";

import { apiUrl } from "../model/api";
import { useFetch, useRuns } from "../model/hooks";
import type { ServerInfo, RunKind, RunSummary } from "../model/schema";
import { formatAgo } from "../model/format";
import { ConnectionNotice, ProblemNotice } from "../parts/notices";
import { Badge, Button, EmptyState, Heading, Notice, StatusBadge } from "../parts/ui";
import { Link, useTitle } from "../route";
import { StartForm } from "./home/StartForm";

export function Home() {
  useTitle(null);
  const about = useFetch(apiUrl("/api/about", {}));
  return (
    <div className="grid gap-6">
      <div className="mx-auto w-full max-w-3xl">
        <h1 className="mb-1 text-2xl font-semibold text-balance">Start a trial</h1>
        <p className="mb-4 text-sm text-balance text-soft">
          Models debate and score a company’s options, or write a program, run it in a sandbox and fix it until it works.
        </p>
        <StartForm tasks={about.value?.rehearsal_tasks ?? []} />
        <div className="mt-4">
          {about.value && <ServerNotes about={about.value} />}
          {about.problem && <ProblemNotice problem={about.problem} />}
        </div>
      </div>
      <Recent />
    </div>
  );
}

/** Notices and badges about the provider, the sandbox backend and the store that the server uses. */
function ServerNotes({ about }: { about: ServerInfo }) {
  const rehearsal = about.provider === "rehearsal";
  return (
    <div className="grid gap-3">
      {rehearsal && (
        <Notice tone="warning" title="Demo mode: texts and scores are placeholders">
          The built-in rehearsal model answers; no provider is called. To use a real model, set an API key in the
          server’s environment, such as <code className="font-mono">ANTHROPIC_API_KEY</code> or{" "}
          <code className="font-mono">OPENAI_API_KEY</code>, or run Ollama; then restart the server.
        </Notice>
      )}
      {about.cluster !== null && <NoWorkersNotice />}
      {about.cluster === null && about.isolation === null && (
        <Notice tone="bad" title="No sandbox backend is available: programs cannot run">
          {about.isolation_why}
        </Notice>
      )}
      <p className="flex flex-wrap items-center gap-2 text-xs text-soft">
        <Badge title={about.why}>{rehearsal ? "model: rehearsal" : `model: ${about.provider} · ${about.model ?? ""}`}</Badge>
        {about.cluster !== null ? (
          <Badge title={about.store}>cluster: {about.cluster}</Badge>
        ) : (
          <>
            <Badge title={about.isolation_why}>sandbox: {about.isolation ?? "none"}</Badge>
            <Badge title={about.store}>store: {about.store.split("/").at(-1)}</Badge>
          </>
        )}
        <Link href="/system" className="underline">
          Server details
        </Link>
      </p>
    </div>
  );
}

/** Warning that the cluster has no worker. Nothing is shown if the cluster has a worker. */
function NoWorkersNotice() {
  const { value, problem } = useFetch(apiUrl("/api/cluster", {}));
  if (problem) return <ProblemNotice problem={problem} />;
  if (!value || value.nodes.some((node) => node.role === "worker")) return null;
  return (
    <Notice tone="bad" title="The cluster has no workers: new runs wait until one starts">
      Start a worker on any machine that can reach the cluster’s NATS servers: <code className="font-mono">assize worker --cluster …</code>
    </Notice>
  );
}

/** Label of each kind of run in the list of recent trials. */
const NAMES: Record<RunKind, string> = { run: "Code", consult: "Consult", debate: "Debate", work: "Edit files", eval: "Evaluate" };

function Recent() {
  const [limit, setLimit] = useState(20);
  const { value, problem, connection } = useRuns(limit);
  return (
    <section aria-labelledby="recent" className="mx-auto w-full max-w-3xl">
      <Heading id="recent" className="mb-2">
        Recent trials
      </Heading>
      <ConnectionNotice connection={connection} />
      {problem && <ProblemNotice problem={problem} />}
      {value?.runs.length === 0 && <EmptyState title="No trials yet">Trials you start above appear here.</EmptyState>}
      <ul className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-raised empty:hidden">
        {value?.runs.map((run) => <RunRow key={run.id} run={run} />)}
      </ul>
      {value?.next != null && limit < 200 && (
        <Button variant="quiet" className="mt-2" onClick={() => setLimit((before) => Math.min(before + 40, 200))}>
          Show more trials
        </Button>
      )}
    </section>
  );
}

function RunRow({ run }: { run: RunSummary }) {
  return (
    <m.li layout="position" className="animate-arrive">
      <Link href={`/runs/${run.id}`} className="flex items-center gap-3 px-4 py-2.5 hover:bg-sunken">
        <span className="w-16 shrink-0 text-xs text-soft">{NAMES[run.kind]}</span>
        <span className="min-w-0 flex-1 truncate text-sm" dir="auto">
          {run.title}
        </span>
        {run.label && <Badge className="max-sm:hidden">rehearsal</Badge>}
        <StatusBadge status={run.status} />
        <span className="w-24 shrink-0 text-right text-xs text-soft max-sm:hidden">{formatAgo(run.created)}</span>
      </Link>
    </m.li>
  );
}
