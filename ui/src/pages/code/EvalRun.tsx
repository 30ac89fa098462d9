// Many problems: how many are solved at once, and how many with the loop.

import type { RunOf } from "../../model/api";
import { useFollowed, type Watched } from "../../model/hooks";
import { count } from "../../model/words";
import { Badge, Card, Empty, Heading, Meter } from "../../parts/ui";
import { Head } from "../Head";

const percent = (share: number) => `${(share * 100).toFixed(1)} %`;

export default function EvalRun(watched: Watched<RunOf<"eval">>) {
  const { line, lost } = useFollowed(watched, () => null, (state) => state);
  const came = watched.run.status === "done" ? watched.run.result : null;
  return (
    <>
      <Head {...watched} line={line} lost={lost} />
      {!came && <Empty title="No result yet">What it came to is here once every problem was tried.</Empty>}
      {came && (
        <div className="grid gap-4">
          <Card className="grid gap-4 sm:grid-cols-2">
            <Share name="Solved at the first attempt" share={came.pass_at_1.first_attempt} />
            <Share name={`Solved within ${count(came.max_attempts, "attempt")}`} share={came.pass_at_1.with_retries} />
            {came.pass_at_k && <Share name={`One of ${came.samples} samples solves it`} share={came.pass_at_k.with_retries} />}
          </Card>
          <section aria-labelledby="problems">
            <Heading id="problems" className="mb-2">
              {count(came.problems, "problem")}
            </Heading>
            <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
              {came.results.map(({ task_id, samples }) => (
                <li key={task_id} className="flex flex-wrap items-center gap-2 px-4 py-2 text-sm">
                  <span className="flex-1 truncate font-mono text-xs" dir="auto">
                    {task_id}
                  </span>
                  {samples.map(({ first, success, attempts }, index) => (
                    <Badge key={index} tone={first ? "good" : success ? "accent" : "bad"}>
                      {first ? "at once" : success ? `after ${count(attempts, "attempt")}` : "not solved"}
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
      <Meter value={share} label={name} />
    </div>
  );
}
