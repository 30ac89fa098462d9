// A code run: attempts as a time line, each with its program, what changed in it, what it printed, and the critique.

import { useEffect, useRef } from "react";

import type { Run } from "../../model/api";
import { useAsked, useRun } from "../../model/hooks";
import type { Told } from "../../model/stream";
import { lasting } from "../../model/words";
import { lines } from "../../model/diff";
import { Said } from "../../parts/Said";
import { Badge, Card, cn, Empty, Heading, Notice } from "../../parts/ui";
import { Head } from "../Run";

interface Execution {
  stdout?: string;
  stderr?: string;
  exit_code?: number | null;
  duration_ms?: number;
  timed_out?: boolean;
  error?: string | null;
}

interface Attempt {
  number: number;
  code?: string | null;
  reasoning?: string | null;
  confidence?: number | null;
  success?: boolean;
  execution?: Execution | null;
  critique?: { issues?: string[]; suggested_fixes?: string[] } | null;
}

interface Artifacts {
  left: { name: string; bytes: number }[];
}

const none = (): Told[] => [];
const add = (all: Told[], told: Told): Told[] => [...all, told];

export default function CodeRun({ id }: { id: string }) {
  const { run, problem, state, line } = useRun(id, none, add);
  const path = `/api/runs/${encodeURIComponent(id)}`;
  const said = useAsked<{ attempts: Attempt[] }>(`${path}/transcripts`);
  const left = useAsked<Artifacts>(`${path}/artifacts`);
  const again = useRef({ said: said.again, left: left.again });
  again.current = { said: said.again, left: left.again };
  useEffect(() => {
    again.current.said();
    again.current.left();
  }, [state.length]);
  if (problem && !run) return <Said problem={problem} />;
  if (!run) return null;
  const attempts = said.value?.attempts ?? [];
  const started = state.findLast((told) => told.name === "execution_started");
  const over = state.findLast((told) => told.name === "execution_complete");
  const running = run.status === "running" && started !== undefined && (over === undefined || over.id < started.id);
  return (
    <>
      <Head run={run} line={line} />
      <Verdict run={run} />
      {attempts.length === 0 && <Empty title="A program is being written">It is shown as soon as it is there.</Empty>}
      <ol className="grid gap-4">
        {attempts.map((attempt, index) => (
          <li key={index}>
            <One attempt={attempt} number={index + 1} before={attempts[index - 1] ?? null} />
          </li>
        ))}
      </ol>
      {running && <p className="mt-3 animate-pulse text-sm text-accent">It runs in a sandbox…</p>}
      <Files path={path} files={left.value?.left ?? []} />
    </>
  );
}

function Verdict({ run }: { run: Run }) {
  const came = run.result as { success?: boolean; output?: string; answer?: string } | null;
  if (!came || run.status !== "done") return null;
  return (
    <div className="mb-4">
      <Notice tone={came.success ? "good" : "bad"} title={came.success ? "It works" : "It was not solved"} />
    </div>
  );
}

function One({ attempt, number, before }: { attempt: Attempt; number: number; before: Attempt | null }) {
  const ran = attempt.execution;
  const good = ran?.exit_code === 0 && !ran.error;
  return (
    <Card className="grid gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="font-medium">Attempt {number}</h2>
        {ran && <Badge tone={good ? "good" : "bad"}>{good ? "succeeded" : (ran.error ?? `exit code ${ran.exit_code}`)}</Badge>}
        {ran?.duration_ms !== undefined && <span className="text-xs text-soft">{lasting(ran.duration_ms)}</span>}
      </div>
      {attempt.code != null && <Program code={attempt.code} before={before?.code ?? null} />}
      {ran?.stdout && <Output name="Output" text={ran.stdout} />}
      {ran?.stderr && <Output name="Errors" text={ran.stderr} />}
      {attempt.critique && (
        <div className="border-l-2 border-doubt pl-3 text-sm">
          <Heading>The critic</Heading>
          <ul className="list-disc pl-5">
            {[...(attempt.critique.issues ?? []), ...(attempt.critique.suggested_fixes ?? [])].map((words, index) => (
              <li key={index} dir="auto">
                {words}
              </li>
            ))}
          </ul>
        </div>
      )}
    </Card>
  );
}

/** A program; where there was one before it, what changed is marked. */
function Program({ code, before }: { code: string; before: string | null }) {
  return (
    <pre className="max-h-96 overflow-auto rounded-md bg-sunken p-3 text-xs leading-relaxed" tabIndex={0} aria-label="The program">
      {(before === null ? code.split("\n").map((text) => ({ kind: "same" as const, text })) : lines(before, code)).map(({ kind, text }, index) => (
        <span key={index} className={cn("block", kind === "added" && "bg-good/15", kind === "removed" && "bg-bad/15 line-through opacity-70")}>
          <span aria-hidden className="mr-2 inline-block w-3 text-soft select-none">
            {kind === "added" ? "+" : kind === "removed" ? "−" : ""}
          </span>
          {text || " "}
        </span>
      ))}
    </pre>
  );
}

function Output({ name, text }: { name: string; text: string }) {
  return (
    <div>
      <Heading className="mb-1">{name}</Heading>
      <pre className="max-h-72 overflow-auto rounded-md bg-sunken p-3 text-xs whitespace-pre-wrap" tabIndex={0} aria-label={name} dir="auto">
        {text}
      </pre>
    </div>
  );
}

const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

function Files({ path, files }: { path: string; files: { name: string; bytes: number }[] }) {
  if (files.length === 0) return null;
  const at = (name: string) => `${path}/artifacts/${name.split("/").map(encodeURIComponent).join("/")}`;
  return (
    <Card className="mt-4">
      <Heading className="mb-2">What it left</Heading>
      <ul className="grid gap-3">
        {files.map(({ name, bytes }) => (
          <li key={name} className="text-sm">
            <a href={at(name)} download className="text-accent underline">
              {name}
            </a>{" "}
            <span className="text-xs text-soft">{bytes.toLocaleString("en")} bytes</span>
            {PICTURE.test(name) && <img src={at(name)} alt={name} className="mt-2 max-h-96 max-w-full rounded-md border border-line bg-white" />}
          </li>
        ))}
      </ul>
    </Card>
  );
}
