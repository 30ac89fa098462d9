// A code run: attempts as a time line, each with its program, what changed in it, what it prints, and the critique.

import { Check, LoaderCircle, X } from "lucide-react";
import { useEffect, useRef, type ReactNode } from "react";

import { at, isUnderWay, type RunOf } from "../../model/api";
import { EVENT } from "../../model/events";
import { liveKey, useAsked, useFollowed, useText, type Watched } from "../../model/hooks";
import type { Attempt, Execution, FileInfo } from "../../model/schema";
import type { Told, Wrote } from "../../model/stream";
import { count, lasting } from "../../model/words";
import { Badge, Card, cn, Coded, Empty, Heading, Notice } from "../../parts/ui";
import { Head } from "../Head";
import { Program } from "./Program";

const none = (): Told[] => [];
const add = (all: Told[], told: Told): Told[] => [...all, told];

export default function CodeRun(watched: Watched<RunOf<"run">>) {
  const { run } = watched;
  const { state, line, lost, live } = useFollowed(watched, none, add);
  const { value: said, again: askSaid } = useAsked(at("/api/runs/{id}/transcripts", { id: run.id }));
  const { value: left, again: askLeft } = useAsked(at("/api/runs/{id}/artifacts", { id: run.id }));
  useEffect(() => {
    askSaid();
    askLeft();
  }, [askSaid, askLeft, state.length]);
  const attempts = said !== null && "attempts" in said ? said.attempts : [];
  const running = isUnderWay(run.status);
  const last = state.at(-1)?.name;
  return (
    <>
      <Head {...watched} line={line} lost={lost} />
      <Verdict run={run} />
      <ol className="grid gap-4">
        {attempts.map((attempt, index) => (
          <One
            key={index}
            attempt={attempt}
            number={index + 1}
            before={attempts[index - 1]?.code ?? null}
            language={run.input.language}
            live={attempt.execution === null && running ? live[liveKey(index + 1, null)] : undefined}
          />
        ))}
        {running && (attempts.length === 0 || last === EVENT.codeCriticised) && (
          <Place number={attempts.length + 1} mark={<LoaderCircle className="size-4 animate-spin" />}>
            <Empty title={attempts.length === 0 ? "A program is being written" : "The next one is being written"}>It is shown as soon as it is there.</Empty>
          </Place>
        )}
      </ol>
      <Files run={run.id} files={left?.left ?? []} />
    </>
  );
}

const howSoon = (attempts: number) => (attempts === 1 ? "It works, at the first attempt" : `It works, after ${count(attempts, "attempt")}`);

function Verdict({ run }: { run: RunOf<"run"> }) {
  const came = run.result;
  if (!came || run.status !== "done") return null;
  return (
    <div className="mb-4 animate-arrive">
      <Notice tone={came.success ? "good" : "bad"} title={came.success ? howSoon(came.attempts) : "It was not solved"}>
        {!came.success && "What was tried is below. Say more in the task, or allow more attempts, and begin anew."}
      </Notice>
    </div>
  );
}

/** A place in the time line. */
function Place({ number, mark, tone, children }: { number: number; mark: ReactNode; tone?: string; children: ReactNode }) {
  return (
    <li className="relative grid animate-arrive grid-cols-[1.75rem_minmax(0,1fr)] gap-3">
      <div aria-hidden className="flex flex-col items-center">
        <span className={cn("flex size-7 items-center justify-center rounded-full border-2 border-line bg-raised text-soft", tone)}>{mark}</span>
        <span className="w-0.5 flex-1 bg-line" />
      </div>
      <section aria-label={`Attempt ${number}`}>{children}</section>
    </li>
  );
}

function howItWent(ran: Execution): string {
  if (!ran.failure) return "succeeded";
  if (ran.timed_out) return "took too long";
  if (ran.out_of_memory) return "out of memory";
  if (ran.signal !== null) return `ended by signal ${ran.signal}`;
  if (ran.exit_code !== null && ran.exit_code !== 0) return `exit code ${ran.exit_code}`;
  return ran.failure.kind.replaceAll("_", " ");
}

interface OneProps {
  attempt: Attempt;
  number: number;
  before: string | null;
  language: string;
  /** What it has written so far, while it runs. */
  live: Wrote[] | undefined;
}

function One({ attempt, number, before, language, live }: OneProps) {
  const ran = attempt.execution;
  const good = ran !== null && ran.failure === null;
  const mark = ran === null ? <LoaderCircle className="size-4 animate-spin" /> : good ? <Check className="size-4" /> : <X className="size-4" />;
  return (
    <Place number={number} mark={mark} {...(ran === null ? {} : { tone: good ? "border-good text-good" : "border-bad text-bad" })}>
      <Card className="grid gap-3">
        <div className="flex flex-wrap items-center gap-2">
          <h2 className="font-medium">Attempt {number}</h2>
          {ran && <Badge tone={good ? "good" : "bad"}>{howItWent(ran)}</Badge>}
          {ran && <span className="text-xs text-soft">{lasting(ran.duration_ms)}</span>}
          {attempt.confidence !== null && <span className="text-xs text-soft">the model was {Math.round(attempt.confidence * 100)} % sure</span>}
        </div>
        {attempt.reasoning && (
          <p className="text-sm text-soft" dir="auto">
            {attempt.reasoning}
          </p>
        )}
        {attempt.code !== null && <Program code={attempt.code.trimEnd()} before={before?.trimEnd() ?? null} language={language} />}
        {live && <Writing wrote={live} />}
        {ran?.stdout && <Output name="Output" text={ran.stdout} />}
        {ran?.stderr && <Output name="Errors" text={ran.stderr} bad />}
        {ran?.output_cut && <p className="text-xs text-doubt">It wrote more than may be kept; the rest is gone.</p>}
        {attempt.critique && (
          <div className="border-l-2 border-doubt pl-3 text-sm">
            <Heading>The critic</Heading>
            <ul className="list-disc pl-5">
              {[...attempt.critique.issues, ...attempt.critique.suggested_fixes].map((words, index) => (
                <li key={index} dir="auto">
                  <Coded text={words} />
                </li>
              ))}
            </ul>
          </div>
        )}
      </Card>
    </Place>
  );
}

const PRE = "max-h-72 overflow-auto rounded-md bg-sunken p-3 text-xs whitespace-pre-wrap print:max-h-none";

/** What a program writes, as it does. */
function Writing({ wrote }: { wrote: Wrote[] }) {
  const end = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (end.current) end.current.scrollTop = end.current.scrollHeight;
  }, [wrote.length]);
  return (
    <div>
      <Heading className="mb-1 flex items-center gap-2 text-accent">
        <span aria-hidden className="size-1.5 animate-pulse rounded-full bg-current" />
        It runs in a sandbox
      </Heading>
      {wrote.length > 0 && (
        <pre ref={end} className={PRE} tabIndex={0} aria-label="What it writes" dir="auto">
          {wrote.map(({ stream, text }, index) => (
            <span key={index} className={stream === "stderr" ? "text-bad" : undefined}>
              {text}
            </span>
          ))}
        </pre>
      )}
      {wrote.at(-1)?.cut && <p className="mt-1 text-xs text-soft">It writes more than is shown while it runs.</p>}
    </div>
  );
}

function Output({ name, text, bad = false }: { name: string; text: string; bad?: boolean }) {
  return (
    <div>
      <Heading className="mb-1">{name}</Heading>
      <pre className={cn(PRE, bad && "text-bad")} tabIndex={0} aria-label={name} dir="auto">
        {text}
      </pre>
    </div>
  );
}

const PICTURE = /\.(png|jpe?g|gif|webp)$/i;
const PICTURE_LOOK = "mt-2 max-h-96 max-w-full rounded-md border border-line bg-white";

/** The largest drawing that is shown, in bytes. */
const LARGEST = 1 << 20;

/** A drawing as text, which the server sends as nothing but text. As a picture it runs no script and fetches nothing. */
function Drawing({ address, name }: { address: string; name: string }) {
  const text = useText(address);
  if (text == null) return null;
  return <img src={`data:image/svg+xml,${encodeURIComponent(text)}`} alt={name} className={PICTURE_LOOK} />;
}

function Files({ run, files }: { run: string; files: FileInfo[] }) {
  if (files.length === 0) return null;
  const address = (artifact: string) => at("/api/runs/{id}/artifacts/{artifact}", { id: run, artifact });
  return (
    <Card className="mt-4">
      <Heading className="mb-2">What it left</Heading>
      <ul className="grid gap-3">
        {files.map(({ name, bytes }) => (
          <li key={name} className="text-sm">
            <a href={address(name)} download className="text-accent underline" dir="auto">
              {name}
            </a>{" "}
            <span className="text-xs text-soft">{bytes.toLocaleString("en")} bytes</span>
            {PICTURE.test(name) && <img src={address(name)} alt={name} className={PICTURE_LOOK} />}
            {name.endsWith(".svg") && bytes <= LARGEST && <Drawing address={address(name)} name={name} />}
          </li>
        ))}
      </ul>
    </Card>
  );
}
