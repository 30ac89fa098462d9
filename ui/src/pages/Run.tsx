// Page of one run: loads the run and shows the view for the kind of the run.

import { lazy, Suspense } from "react";

import { apiUrl } from "../model/api";
import { useFetch, type RunProps } from "../model/hooks";
import { ProblemNotice } from "../parts/notices";
import { EmptyState } from "../parts/ui";
import { Link } from "../route";

const ConsultRun = lazy(() => import("./consult/ConsultRun"));
const CodeRun = lazy(() => import("./code/CodeRun"));
const DebateRun = lazy(() => import("./debate/DebateRun"));
const WorkRun = lazy(() => import("./work/WorkRun"));
const EvalRun = lazy(() => import("./code/EvalRun"));

export function RunPage({ id }: { id: string }) {
  const { value: run, problem, refetch } = useFetch(apiUrl("/api/runs/{id}", { id }));
  if (problem?.status === 404) {
    return (
      <EmptyState page title="Run not found">
        The run may have been deleted.{" "}
        <Link href="/" className="text-accent underline">
          Go to the list of trials
        </Link>
      </EmptyState>
    );
  }
  if (problem && !run) return <ProblemNotice problem={problem} />;
  if (!run) return <p className="text-sm text-soft">Loading…</p>;
  return (
    <Suspense fallback={<p className="text-sm text-soft">Loading…</p>}>
      <View run={run} refetch={refetch} />
    </Suspense>
  );
}

function View({ run, refetch }: RunProps) {
  switch (run.kind) {
    case "consult":
      return <ConsultRun run={run} refetch={refetch} />;
    case "run":
      return <CodeRun run={run} refetch={refetch} />;
    case "debate":
      return <DebateRun run={run} refetch={refetch} />;
    case "work":
      return <WorkRun run={run} refetch={refetch} />;
    case "eval":
      return <EvalRun run={run} refetch={refetch} />;
  }
}
