// View of a code run: a timeline of attempts, each with its program, the changes, the output and the critique.

import { Check, LoaderCircle, X } from "lucide-react";
import { useEffect, useRef, type ReactNode } from "react";

import { apiUrl, isActive, type RunOf } from "../../model/api";
import { EVENT } from "../../model/events";
import { outputKey, useFetch, useRunEvents, useText, type RunProps } from "../../model/hooks";
import type { Attempt, CodeExecution, FileInfo } from "../../model/schema";
import type { OutputChunk, ServerEvent } from "../../model/stream";
import { formatCount, formatDuration } from "../../model/format";
import { Badge, Card, cn, EmptyState, Heading, InlineCode, Notice } from "../../parts/ui";
import { RunHeader } from "../RunHeader";
import { Program } from "./Program";

const none = (): ServerEvent[] => [];
const add = (all: ServerEvent[], event: ServerEvent): ServerEvent[] => [...all, event];

export default function CodeRun(props: RunProps<RunOf<"run">>) {
  const { run } = props;
  const { state, connection, lost, live } = useRunEvents(props, none, add);
  const { value: transcripts, refetch: refetchTranscripts } = useFetch(apiUrl("/api/runs/{id}/transcripts", { id: run.id }));
  const { value: artifacts, refetch: refetchArtifacts } = useFetch(apiUrl("/api/runs/{id}/artifacts", { id: run.id }));
  useEffect(() => {
    refetchTranscripts();
    refetchArtifacts();
  }, [refetchTranscripts, refetchArtifacts, state.length]);
  const attempts = transcripts !== null && "attempts" in transcripts ? transcripts.attempts : [];
  const running = isActive(run.status);
  const last = state.at(-1)?.name;
  return (
    <>
      <RunHeader {...props} connection={connection} lost={lost} />
      <VerdictNotice run={run} />
      <ol className="grid gap-4">
        {attempts.map((attempt, index) => (
          <AttemptCard
            key={index}
            attempt={attempt}
            number={index + 1}
            before={attempts[index - 1]?.code ?? null}
            language={run.input.language}
            live={attempt.execution === null && running ? live[outputKey(index + 1, null)] : undefined}
          />
        ))}
        {running && (attempts.length === 0 || last === EVENT.codeCriticised) && (
          <TimelineItem number={attempts.length + 1} mark={<LoaderCircle className="size-4 animate-spin" />}>
            <EmptyState title={attempts.length === 0 ? "The model is writing a program" : "The model is writing the next program"}>The program appears here when it is complete.</EmptyState>
          </TimelineItem>
        )}
      </ol>
      <Files run={run.id} files={artifacts?.outputs ?? []} />
    </>
  );
}

const solvedTitle = (attempts: number) => (attempts === 1 ? "Solved at the first attempt" : `Solved after ${formatCount(attempts, "attempt")}`);

function VerdictNotice({ run }: { run: RunOf<"run"> }) {
  const { result } = run;
  if (!result || run.status !== "done") return null;
  return (
    <div className="mb-4 animate-arrive">
      <Notice tone={result.success ? "good" : "bad"} title={result.success ? solvedTitle(result.attempts) : "Not solved"}>
        {!result.success && "All attempts are shown below. Describe the task in more detail or allow more attempts, then start a new run."}
      </Notice>
    </div>
  );
}

/** One item of the timeline: an attempt with its status icon. */
function TimelineItem({ number, mark, tone, children }: { number: number; mark: ReactNode; tone?: string; children: ReactNode }) {
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

/** Describes the outcome of an execution in a few words, such as `exit code 1`. */
function outcomeOf(execution: CodeExecution): string {
  if (!execution.failure) return "succeeded";
  if (execution.timed_out) return "timed out";
  if (execution.out_of_memory) return "out of memory";
  if (execution.signal !== null) return `killed by signal ${execution.signal}`;
  if (execution.exit_code !== null && execution.exit_code !== 0) return `exit code ${execution.exit_code}`;
  return execution.failure.kind.replaceAll("_", " ");
}

interface AttemptProps {
  attempt: Attempt;
  /** Number of the attempt, from 1. */
  number: number;
  /** Program of the previous attempt; `null` for the first attempt. */
  before: string | null;
  language: string;
  /** Output so far of a running program; `undefined` if the program is not running. */
  live: OutputChunk[] | undefined;
}

function AttemptCard({ attempt, number, before, language, live }: AttemptProps) {
  const { execution } = attempt;
  const good = execution !== null && execution.failure === null;
  const mark = execution === null ? <LoaderCircle className="size-4 animate-spin" /> : good ? <Check className="size-4" /> : <X className="size-4" />;
  return (
    <TimelineItem number={number} mark={mark} {...(execution === null ? {} : { tone: good ? "border-good text-good" : "border-bad text-bad" })}>
      <Card className="grid gap-3">
        <div className="flex flex-wrap items-center gap-2">
          <h2 className="font-medium">Attempt {number}</h2>
          {execution && <Badge tone={good ? "good" : "bad"}>{outcomeOf(execution)}</Badge>}
          {execution && <span className="text-xs text-soft">{formatDuration(execution.duration_ms)}</span>}
          {attempt.confidence !== null && <span className="text-xs text-soft">confidence stated by the model: {Math.round(attempt.confidence * 100)} %</span>}
        </div>
        {attempt.reasoning && (
          <p className="text-sm text-soft" dir="auto">
            {attempt.reasoning}
          </p>
        )}
        {attempt.code !== null && <Program code={attempt.code.trimEnd()} before={before?.trimEnd() ?? null} language={language} />}
        {live && <LiveOutput chunks={live} />}
        {execution?.stdout && <Output name="Output (stdout)" text={execution.stdout} />}
        {execution?.stderr && <Output name="Errors (stderr)" text={execution.stderr} bad />}
        {execution?.output_cut && <p className="text-xs text-warning">Output truncated: the program wrote more than the limit allows.</p>}
        {attempt.critique && (
          <div className="border-l-2 border-warning pl-3 text-sm">
            <Heading>Critique of the program</Heading>
            <ul className="list-disc pl-5">
              {[...attempt.critique.issues, ...attempt.critique.suggested_fixes].map((text, index) => (
                <li key={index} dir="auto">
                  <InlineCode text={text} />
                </li>
              ))}
            </ul>
          </div>
        )}
      </Card>
    </TimelineItem>
  );
}

const PRE = "max-h-72 overflow-auto rounded-md bg-sunken p-3 text-xs whitespace-pre-wrap print:max-h-none";

/** Live output of a running program. The area scrolls to the end when output is added. */
function LiveOutput({ chunks }: { chunks: OutputChunk[] }) {
  const area = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (area.current) area.current.scrollTop = area.current.scrollHeight;
  }, [chunks.length]);
  return (
    <div>
      <Heading className="mb-1 flex items-center gap-2 text-accent">
        <span aria-hidden className="size-1.5 animate-pulse rounded-full bg-current" />
        The program is running in a sandbox
      </Heading>
      {chunks.length > 0 && (
        <pre ref={area} className={PRE} tabIndex={0} aria-label="Live output" dir="auto">
          {chunks.map(({ stream, text }, index) => (
            <span key={index} className={stream === "stderr" ? "text-bad" : undefined}>
              {text}
            </span>
          ))}
        </pre>
      )}
      {chunks.at(-1)?.cut && <p className="mt-1 text-xs text-soft">Live output stops here because of its size limit. The whole output appears when the program has ended.</p>}
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

const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const IMAGE_STYLE = "mt-2 max-h-96 max-w-full rounded-md border border-line bg-white";

/** Maximum size of an SVG file that is shown as an image, in bytes. */
const MAX_SVG_BYTES = 1 << 20;

/**
 * Shows an SVG file as an image. The server sends the file as plain text. An SVG inside an `img` element runs no
 * scripts and sends no requests.
 */
function SvgImage({ address, name }: { address: string; name: string }) {
  const text = useText(address);
  if (text == null) return null;
  return <img src={`data:image/svg+xml,${encodeURIComponent(text)}`} alt={name} className={IMAGE_STYLE} />;
}

function Files({ run, files }: { run: string; files: FileInfo[] }) {
  if (files.length === 0) return null;
  const address = (artifact: string) => apiUrl("/api/runs/{id}/artifacts/{artifact}", { id: run, artifact });
  return (
    <Card className="mt-4">
      <Heading className="mb-2">Output files</Heading>
      <ul className="grid gap-3">
        {files.map(({ name, bytes }) => (
          <li key={name} className="text-sm">
            <a href={address(name)} download className="text-accent underline" dir="auto">
              {name}
            </a>{" "}
            <span className="text-xs text-soft">{formatCount(bytes, "byte")}</span>
            {IMAGE.test(name) && <img src={address(name)} alt={name} className={IMAGE_STYLE} />}
            {name.endsWith(".svg") && bytes <= MAX_SVG_BYTES && <SvgImage address={address(name)} name={name} />}
          </li>
        ))}
      </ul>
    </Card>
  );
}
