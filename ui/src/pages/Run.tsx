// One run, by its kind.

import { lazy, Suspense, type ComponentType } from "react";

import type { Kind, Run } from "../model/api";
import { useAsked, type Watched } from "../model/hooks";
import { Said } from "../parts/Said";
import { Empty } from "../parts/ui";
import { Link } from "../route";

const VIEWS: Record<Kind, ComponentType<Watched>> = {
  consult: lazy(() => import("./consult/ConsultRun")),
  run: lazy(() => import("./code/CodeRun")),
  debate: lazy(() => import("./debate/DebateRun")),
  work: lazy(() => import("./work/WorkRun")),
  eval: lazy(() => import("./code/EvalRun")),
};

export function RunPage({ id }: { id: string }) {
  const { value: run, problem, again } = useAsked<Run>(`/api/runs/${encodeURIComponent(id)}`);
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
  const View = VIEWS[run.kind];
  return (
    <Suspense fallback={<p className="text-sm text-soft">Looking…</p>}>
      <View run={run} again={again} />
    </Suspense>
  );
}
