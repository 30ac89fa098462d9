// One field to begin a trial with, and the trials there were.

import * as m from "motion/react-m";
import { useState } from "react";

import { at } from "../model/api";
import { useAsked, useRuns } from "../model/hooks";
import type { About, RunKind, RunSummary } from "../model/schema";
import { ago } from "../model/words";
import { Lost, Said } from "../parts/Said";
import { Badge, Button, Empty, Heading, Notice, StatusBadge } from "../parts/ui";
import { Link, useTitle } from "../route";
import { StartForm } from "./home/StartForm";

export function Home() {
  useTitle(null);
  const about = useAsked(at("/api/about", {}));
  return (
    <div className="grid gap-6">
      <div className="mx-auto w-full max-w-3xl">
        <h1 className="mb-1 text-2xl font-semibold text-balance">Put it on trial</h1>
        <p className="mb-4 text-sm text-balance text-soft">
          A company’s options are debated and scored; a program is written, run in a sandbox and mended until it works.
        </p>
        <StartForm rehearsed={about.value?.rehearsed ?? []} />
        <div className="mt-4">
          {about.value && <InUse about={about.value} />}
          {about.problem && <Said problem={about.problem} />}
        </div>
      </div>
      <Recent />
    </div>
  );
}

/** Who answers, behind which walls code runs, and where runs are kept. */
function InUse({ about }: { about: About }) {
  const rehearsal = about.provider === "rehearsal";
  return (
    <div className="grid gap-3">
      {rehearsal && (
        <Notice tone="doubt" title="This is a rehearsal: no model is asked">
          Everything works, and what is said means nothing. To ask a real model, set a key where the server is started,
          such as <code className="font-mono">ANTHROPIC_API_KEY</code> or{" "}
          <code className="font-mono">OPENAI_API_KEY</code>, or run Ollama; then start the server again.
        </Notice>
      )}
      {about.cluster !== null && <Workers />}
      {about.cluster === null && about.isolation === null && (
        <Notice tone="bad" title="There is no sandbox here, so no program can be run">
          {about.isolation_why}
        </Notice>
      )}
      <p className="flex flex-wrap items-center gap-2 text-xs text-soft">
        <Badge title={about.why}>{rehearsal ? "rehearsal" : `${about.provider} · ${about.model ?? ""}`}</Badge>
        {about.cluster !== null ? (
          <Badge title={about.store}>cluster: {about.cluster}</Badge>
        ) : (
          <>
            <Badge title={about.isolation_why}>code in: {about.isolation ?? "no sandbox"}</Badge>
            <Badge title={about.store}>kept in: {about.store.split("/").at(-1)}</Badge>
          </>
        )}
        <Link href="/system" className="underline">
          why these
        </Link>
      </p>
    </div>
  );
}

/** Says so, if there is nobody who would do what is asked for. */
function Workers() {
  const { value, problem } = useAsked(at("/api/cluster", {}));
  if (problem) return <Said problem={problem} />;
  if (!value || value.nodes.some((node) => node.role === "worker")) return null;
  return (
    <Notice tone="bad" title="Nobody works for the cluster, so what is asked for waits">
      Start a worker on any machine that reaches its servers: <code className="font-mono">assize worker --cluster …</code>
    </Notice>
  );
}

const NAMES: Record<RunKind, string> = { run: "Code", consult: "Consult", debate: "Debate", work: "Work", eval: "Eval" };

function Recent() {
  const [limit, setLimit] = useState(20);
  const { value, problem, line } = useRuns(limit);
  return (
    <section aria-labelledby="recent" className="mx-auto w-full max-w-3xl">
      <Heading id="recent" className="mb-2">
        Recent trials
      </Heading>
      <Lost line={line} />
      {problem && <Said problem={problem} />}
      {value?.runs.length === 0 && <Empty title="No trials yet">What you begin above is kept, and shown here.</Empty>}
      <ul className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-raised empty:hidden">
        {value?.runs.map((run) => <RunRow key={run.id} run={run} />)}
      </ul>
      {value?.next != null && limit < 200 && (
        <Button look="quiet" className="mt-2" onClick={() => setLimit((before) => Math.min(before + 40, 200))}>
          Show more
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
        <span className="w-24 shrink-0 text-right text-xs text-soft max-sm:hidden">{ago(run.created)}</span>
      </Link>
    </m.li>
  );
}
