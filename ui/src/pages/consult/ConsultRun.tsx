// A consultation: the pipeline as it happens, what it came to, and every document.

import { Tabs } from "radix-ui";
import { lazy, Suspense } from "react";

import { empty, reduce } from "../../model/consult";
import { useRun } from "../../model/hooks";
import { Said } from "../../parts/Said";
import { Notice } from "../../parts/ui";
import { go, useRoute } from "../../route";
import { Head } from "../Run";
import { Documents } from "./Documents";
import { Outline } from "./Outline";
import { Reading } from "./Reading";
import { Results } from "./Results";
import { report } from "./report";

const Canvas = lazy(() => import("./Canvas"));

const VIEWS = [
  { id: "pipeline", name: "Pipeline" },
  { id: "list", name: "As a list" },
  { id: "results", name: "Results" },
  { id: "documents", name: "Documents" },
] as const;

/** Another address of the same run. */
function address(id: string, change: Record<string, string | null>, query: URLSearchParams): string {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  return `/runs/${id}${text === "" ? "" : `?${text}`}`;
}

export default function ConsultRun({ id }: { id: string }) {
  const { run, problem, state, line } = useRun(id, empty, reduce);
  const { query } = useRoute();
  if (problem && !run) return <Said problem={problem} />;
  if (!run) return null;
  const rounds = Number(run.input.rounds) || 10;
  const came = report(run.result);
  const narrow = window.matchMedia("(width < 48rem)").matches;
  const usual = came ? "results" : narrow ? "list" : "pipeline";
  const asked = query.get("view");
  const view = VIEWS.some((one) => one.id === asked) ? (asked ?? usual) : usual;
  const open = query.get("move");
  const show = (change: Record<string, string | null>) => go(address(id, change, query));
  const read = (move: string | null) => show({ move, log: null, round: null });
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Head run={run} line={line} />
      {state.warnings.map((warning) => (
        <div key={warning} className="mb-3">
          <Notice tone="doubt" title={warning} />
        </div>
      ))}
      <Tabs.Root value={view} onValueChange={(next) => show({ view: next })} className="flex min-h-0 flex-1 flex-col">
        <Tabs.List aria-label="Views of this consultation" className="mb-3 flex flex-wrap gap-1 border-b border-line">
          {VIEWS.map(({ id: one, name }) => (
            <Tabs.Trigger
              key={one}
              value={one}
              className="-mb-px cursor-pointer border-b-2 border-transparent px-3 py-2 text-sm text-soft hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink"
            >
              {name}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="pipeline" className="flex min-h-[28rem] flex-1 outline-none">
          <Suspense fallback={<p className="text-sm text-soft">Drawing…</p>}>
            <Canvas run={run} state={state} rounds={rounds} open={open} onOpen={read} />
          </Suspense>
        </Tabs.Content>
        <Tabs.Content value="list" className="outline-none">
          <Outline run={run} state={state} rounds={rounds} onOpen={read} />
        </Tabs.Content>
        <Tabs.Content value="results" className="outline-none">
          <Results run={run} report={came} onOpen={read} />
        </Tabs.Content>
        <Tabs.Content value="documents" className="outline-none">
          <Documents run={run} told={state.documents.length} name={query.get("document")} onOpen={(document) => show({ document })} />
        </Tabs.Content>
      </Tabs.Root>
      {open && (
        <Reading
          key={open}
          run={run}
          move={open}
          debate={state.debates[open] ?? null}
          rounds={rounds}
          log={query.get("log")}
          round={Number(query.get("round")) || null}
          onPlace={(log, round) => go(address(id, { log, round: round === null ? null : String(round) }, query), true)}
          onClose={() => read(null)}
        />
      )}
    </div>
  );
}
