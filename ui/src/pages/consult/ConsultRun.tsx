// View of a consultation: tabs with the pipeline as a diagram, the pipeline as a list, the results and the documents.

import { Tabs } from "radix-ui";
import { lazy, Suspense, useCallback, useMemo } from "react";

import type { RunOf } from "../../model/api";
import { initialState, moveIds, reduce, type ConversationId } from "../../model/consult";
import { useRunEvents, type RunProps } from "../../model/hooks";
import { cn, Notice, TAB } from "../../parts/ui";
import { navigate, useRoute, withQuery } from "../../route";
import { RunHeader } from "../RunHeader";
import { consultation, ConsultationContext } from "./consultation";
import { DebateDialog } from "./DebateDialog";
import { Documents } from "./Documents";
import { ProgressList } from "./ProgressList";
import { Results } from "./Results";

const Canvas = lazy(() => import("./Canvas"));

const VIEWS = [
  { id: "pipeline", name: "Pipeline" },
  { id: "list", name: "Progress list" },
  { id: "results", name: "Results" },
  { id: "documents", name: "Documents" },
] as const;

export default function ConsultRun(props: RunProps<RunOf<"consult">>) {
  const { run } = props;
  const { state, connection, lost } = useRunEvents(props, initialState, reduce);
  const shared = useMemo(() => consultation(run, state), [run, state]);
  const { query } = useRoute();
  const narrow = window.matchMedia("(width < 48rem)").matches;
  // When the run ends, show the results, unless the URL names a layer or proposed move in the diagram.
  const defaultView = shared.report && !query.has("at") ? "results" : narrow ? "list" : "pipeline";
  const requested = query.get("view");
  const view = VIEWS.some((one) => one.id === requested) ? (requested ?? defaultView) : defaultView;
  const open = query.get("move");
  const log = query.get("log");
  const round = Number(query.get("round")) || null;
  const openDebate = useCallback((move: string | null) => navigate(withQuery({ move, log: null, round: null })), []);
  const openRound = useCallback((to: ConversationId, at: number | null) => navigate(withQuery({ log: to, round: at === null ? null : String(at) }), true), []);
  const focus = useCallback((at: string | null, step: boolean) => navigate(withQuery({ view: "pipeline", at, log: null, round: null }), !step), []);
  const openDocument = useCallback((document: string) => navigate(withQuery({ view: "documents", document })), []);
  return (
    <ConsultationContext.Provider value={shared}>
      <div className="flex flex-1 flex-col">
        <RunHeader {...props} connection={connection} lost={lost} rounds={shared.rounds} moves={moveIds(state).map((id) => ({ id, title: shared.titleOf(id) ?? "" }))} />
        {state.warnings.map((warning) => (
          <div key={warning} className="mb-3">
            <Notice tone="warning" title={warning} />
          </div>
        ))}
        <Tabs.Root value={view} onValueChange={(next) => navigate(withQuery({ view: next }))} className="flex flex-1 flex-col">
          <Tabs.List aria-label="Views of this consultation" className="mb-3 flex flex-wrap gap-1 border-b border-line print:hidden">
            {VIEWS.map(({ id, name }) => (
              <Tabs.Trigger key={id} value={id} className={cn(TAB)}>
                {name}
              </Tabs.Trigger>
            ))}
          </Tabs.List>
          <Tabs.Content value="pipeline" className="flex min-h-[32rem] flex-1">
            <Suspense fallback={<p className="text-sm text-soft">Loading…</p>}>
              <Canvas at={query.get("at")} log={log} round={round} covered={open !== null} onAt={focus} onOpenRound={openRound} onOpenDebate={openDebate} onDocument={openDocument} />
            </Suspense>
            {/* On paper, the list replaces the diagram. */}
            <div className="hidden w-full print:block">
              <ProgressList onOpen={openDebate} onDocument={openDocument} />
            </div>
          </Tabs.Content>
          <Tabs.Content value="list" className="rounded-md">
            <ProgressList onOpen={openDebate} onDocument={openDocument} />
          </Tabs.Content>
          <Tabs.Content value="results" className="rounded-md">
            <Results onOpen={openDebate} onDocument={openDocument} />
          </Tabs.Content>
          <Tabs.Content value="documents" className="rounded-md">
            <Documents run={run} written={state.documents.length} name={query.get("document")} onOpen={openDocument} />
          </Tabs.Content>
        </Tabs.Root>
        {open && <DebateDialog key={open} move={open} log={log} round={round} onOpenRound={openRound} onClose={() => navigate(withQuery({ move: null, log: null, round: null }), true)} />}
      </div>
    </ConsultationContext.Provider>
  );
}
