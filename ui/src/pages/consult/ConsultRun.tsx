// A consultation: the pipeline as it happens, what it came to, and every document.

import { Tabs } from "radix-ui";
import { lazy, Suspense, useCallback, useMemo } from "react";

import type { RunOf } from "../../model/api";
import { empty, moves, reduce, type Log } from "../../model/consult";
import { useFollowed, type Watched } from "../../model/hooks";
import { cn, Notice, TAB } from "../../parts/ui";
import { go, useRoute, withQuery } from "../../route";
import { Head } from "../Head";
import { consultation, Shared } from "./consultation";
import { Documents } from "./Documents";
import { Outline } from "./Outline";
import { Reading } from "./Reading";
import { Results } from "./Results";

const Canvas = lazy(() => import("./Canvas"));

const VIEWS = [
  { id: "pipeline", name: "Pipeline" },
  { id: "list", name: "As a list" },
  { id: "results", name: "Results" },
  { id: "documents", name: "Documents" },
] as const;

export default function ConsultRun(watched: Watched<RunOf<"consult">>) {
  const { run } = watched;
  const { state, line, lost } = useFollowed(watched, empty, reduce);
  const shared = useMemo(() => consultation(run, state), [run, state]);
  const { query } = useRoute();
  const narrow = window.matchMedia("(width < 48rem)").matches;
  // Whoever looks at something in the drawing is not taken away from it by the end.
  const usual = shared.came && !query.has("at") ? "results" : narrow ? "list" : "pipeline";
  const asked = query.get("view");
  const view = VIEWS.some((one) => one.id === asked) ? (asked ?? usual) : usual;
  const open = query.get("move");
  const log = query.get("log");
  const round = Number(query.get("round")) || null;
  const read = useCallback((move: string | null) => go(withQuery({ move, log: null, round: null })), []);
  const place = useCallback((to: Log, at: number | null) => go(withQuery({ log: to, round: at === null ? null : String(at) }), true), []);
  const look = useCallback((at: string | null, step: boolean) => go(withQuery({ view: "pipeline", at, log: null, round: null }), !step), []);
  const show = useCallback((document: string) => go(withQuery({ view: "documents", document })), []);
  return (
    <Shared.Provider value={shared}>
      <div className="flex flex-1 flex-col">
        <Head {...watched} line={line} lost={lost} rounds={shared.rounds} moves={moves(state).map((id) => ({ id, title: shared.titleOf(id) ?? "" }))} />
        {state.warnings.map((warning) => (
          <div key={warning} className="mb-3">
            <Notice tone="doubt" title={warning} />
          </div>
        ))}
        <Tabs.Root value={view} onValueChange={(next) => go(withQuery({ view: next }))} className="flex flex-1 flex-col">
          <Tabs.List aria-label="Views of this consultation" className="mb-3 flex flex-wrap gap-1 border-b border-line print:hidden">
            {VIEWS.map(({ id, name }) => (
              <Tabs.Trigger key={id} value={id} className={cn(TAB)}>
                {name}
              </Tabs.Trigger>
            ))}
          </Tabs.List>
          <Tabs.Content value="pipeline" className="flex min-h-[32rem] flex-1">
            <Suspense fallback={<p className="text-sm text-soft">Drawing…</p>}>
              <Canvas at={query.get("at")} log={log} round={round} covered={open !== null} onAt={look} onPlace={place} onRead={read} onDocument={show} />
            </Suspense>
            {/* On paper the drawing is a list. */}
            <div className="hidden w-full print:block">
              <Outline onOpen={read} onDocument={show} />
            </div>
          </Tabs.Content>
          <Tabs.Content value="list" className="rounded-md">
            <Outline onOpen={read} onDocument={show} />
          </Tabs.Content>
          <Tabs.Content value="results" className="rounded-md">
            <Results onOpen={read} onDocument={show} />
          </Tabs.Content>
          <Tabs.Content value="documents" className="rounded-md">
            <Documents run={run} told={state.documents.length} name={query.get("document")} onOpen={show} />
          </Tabs.Content>
        </Tabs.Root>
        {open && <Reading key={open} move={open} log={log} round={round} onPlace={place} onClose={() => go(withQuery({ move: null, log: null, round: null }), true)} />}
      </div>
    </Shared.Provider>
  );
}
