// One run, by its kind.

import { lazy, Suspense } from "react";

import { at } from "../model/api";
import { useAsked, type Watched } from "../model/hooks";
import { Said } from "../parts/Said";
import { Empty } from "../parts/ui";
import { Link } from "../route";

const ConsultRun = lazy(() => import("./consult/ConsultRun"));
const CodeRun = lazy(() => import("./code/CodeRun"));
const DebateRun = lazy(() => import("./debate/DebateRun"));
const WorkRun = lazy(() => import("./work/WorkRun"));
const EvalRun = lazy(() => import("./code/EvalRun"));

export function RunPage({ id }: { id: string }) {
  const { value: run, problem, again } = useAsked(at("/api/runs/{id}", { id }));
  if (problem?.status === 404) {
    return (
      <Empty page title="There is no such run">
        It may have been removed.{" "}
        <Link href="/" className="text-accent underline">
          To the trials
        </Link>
      </Empty>
    );
  }
  if (problem && !run) return <Said problem={problem} />;
  if (!run) return <p className="text-sm text-soft">Looking…</p>;
  return (
    <Suspense fallback={<p className="text-sm text-soft">Looking…</p>}>
      <View run={run} again={again} />
    </Suspense>
  );
}

function View({ run, again }: Watched) {
  switch (run.kind) {
    case "consult":
      return <ConsultRun run={run} again={again} />;
    case "run":
      return <CodeRun run={run} again={again} />;
    case "debate":
      return <DebateRun run={run} again={again} />;
    case "work":
      return <WorkRun run={run} again={again} />;
    case "eval":
      return <EvalRun run={run} again={again} />;
  }
}
