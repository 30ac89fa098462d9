// A run of another kind: what is told of it, line by line.

import { useRun } from "../model/hooks";
import type { Told } from "../model/stream";
import { Said } from "../parts/Said";
import { Card, Heading } from "../parts/ui";
import { Head } from "./Run";

const MOST = 500;
const none = (): Told[] => [];
const add = (all: Told[], told: Told): Told[] => [...all, told].slice(-MOST);

export default function OtherRun({ id }: { id: string }) {
  const { run, problem, state, line } = useRun(id, none, add);
  if (problem && !run) return <Said problem={problem} />;
  if (!run) return null;
  return (
    <>
      <Head run={run} line={line} />
      <Card>
        <Heading className="mb-2">What was told</Heading>
        <ol className="grid gap-1 font-mono text-xs">
          {state.map((told) => (
            <li key={told.id} className="flex gap-3">
              <time className="shrink-0 text-soft">{new Date(told.at).toLocaleTimeString()}</time>
              <span className="shrink-0">{told.name}</span>
              <span className="truncate text-soft" dir="auto">
                {JSON.stringify(told.data)}
              </span>
            </li>
          ))}
        </ol>
      </Card>
      {run.result !== null && (
        <Card className="mt-4">
          <Heading className="mb-2">What it came to</Heading>
          <pre className="overflow-x-auto text-xs" dir="auto">
            {JSON.stringify(run.result, null, 2)}
          </pre>
        </Card>
      )}
    </>
  );
}
