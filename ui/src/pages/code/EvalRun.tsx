// View of an evaluation run: the share of problems solved at the first attempt, the share solved with retries, and the
// result of each problem.

import { isActive, type RunOf } from "../../model/api";
import { useRunEvents, type RunProps } from "../../model/hooks";
import { formatCount } from "../../model/format";
import { Badge, Card, EmptyState, Heading, ProgressBar } from "../../parts/ui";
import { RunHeader } from "../RunHeader";

const percent = (share: number) => `${(share * 100).toFixed(1)} %`;

export default function EvalRun(props: RunProps<RunOf<"eval">>) {
  const { connection, lost } = useRunEvents(props, () => null, (state) => state);
  const result = props.run.status === "done" ? props.run.result : null;
  return (
    <>
      <RunHeader {...props} connection={connection} lost={lost} />
      {!result &&
        (isActive(props.run.status) ? (
          <EmptyState title="No result yet">The result appears here when the model has tried all problems.</EmptyState>
        ) : (
          <EmptyState title="The evaluation did not finish">Resume the run to get its result.</EmptyState>
        ))}
      {result && (
        <div className="grid gap-4">
          <Card className="grid gap-4 sm:grid-cols-2">
            <Share name="Solved at the first attempt" share={result.pass_at_1.first_attempt} />
            <Share name={`Solved within ${formatCount(result.max_attempts, "attempt")}`} share={result.pass_at_1.with_retries} />
            {result.pass_at_k && <Share name={`Solved by at least one of ${formatCount(result.samples, "sample")}`} share={result.pass_at_k.with_retries} />}
          </Card>
          <section aria-labelledby="problems">
            <Heading id="problems" className="mb-2">
              {formatCount(result.problems, "problem")}
            </Heading>
            <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
              {result.results.map(({ task_id, samples }) => (
                <li key={task_id} className="flex flex-wrap items-center gap-2 px-4 py-2 text-sm">
                  <span className="flex-1 basis-40 truncate font-mono text-xs" dir="auto">
                    {task_id}
                  </span>
                  {samples.map(({ first_attempt_passed, success, attempts }, index) => (
                    <Badge key={index} tone={first_attempt_passed ? "good" : success ? "accent" : "bad"}>
                      {first_attempt_passed ? "solved at the first attempt" : success ? `solved after ${formatCount(attempts, "attempt")}` : "not solved"}
                    </Badge>
                  ))}
                </li>
              ))}
            </ul>
          </section>
        </div>
      )}
    </>
  );
}

function Share({ name, share }: { name: string; share: number }) {
  return (
    <div>
      <p className="mb-1 flex items-baseline gap-2 text-sm">
        <span className="flex-1">{name}</span>
        <span className="text-lg font-semibold tabular-nums">{percent(share)}</span>
      </p>
      <ProgressBar value={share} label={name} />
    </div>
  );
}
