// One field to begin a trial with, and the trials there were.

import { ArrowRight, FlaskConical, Gavel, TerminalSquare } from "lucide-react";
import * as m from "motion/react-m";
import { useEffect, useId, useState, type FormEvent } from "react";

import { post, type About, type Cluster, type Estimate, type Kind, type Problem, type Run, type RunSummary } from "../model/api";
import { useAsked, useDoing, useRuns } from "../model/hooks";
import { ago, count, dollars, tokens } from "../model/words";
import { Lost, Said } from "../parts/Said";
import { Badge, Button, Card, Chip, cn, Empty, Heading, Input, Notice, StatusBadge, Textarea } from "../parts/ui";
import { go, Link, useTitle } from "../route";

type Asking = "consult" | "run" | "debate";

const KINDS: readonly { kind: Asking; name: string; icon: typeof Gavel; hint: string }[] = [
  { kind: "consult", name: "Consult", icon: Gavel, hint: "A ticker, such as NVDA: what should this company do next?" },
  { kind: "run", name: "Code", icon: TerminalSquare, hint: "A task in plain words, such as: Calculate fibonacci(10)" },
  { kind: "debate", name: "Debate", icon: FlaskConical, hint: "A move, in Markdown or as plain text: what is to be done, and why?" },
];

/** What somebody seems to want who has typed this. */
export function guess(text: string): Asking {
  const plain = text.trim();
  if (plain === "" || /^[A-Za-z]{1,5}([.-][A-Za-z]{1,2})?$/.test(plain)) return "consult";
  return plain.startsWith("#") || plain.endsWith("?") || plain.split("\n").length > 3 ? "debate" : "run";
}

/** As many rounds as are debated unless somebody says, and the most. */
const ROUNDS = 10;
const MOST_ROUNDS = 50;

function body(kind: Asking, text: string, rounds: number): Record<string, unknown> {
  const plain = text.trim();
  if (kind === "run") return { kind, task: plain };
  // What is usual is left to the server.
  const more = rounds === ROUNDS ? {} : { rounds };
  return kind === "consult" ? { kind, ticker: plain.toUpperCase(), ...more } : { kind, document: plain, ...more };
}

export function Home() {
  useTitle(null);
  const about = useAsked<About>("/api/about");
  return (
    <div className="grid gap-6">
      <div className="mx-auto w-full max-w-3xl">
        <h1 className="mb-1 text-2xl font-semibold text-balance">Put it on trial</h1>
        <p className="mb-4 text-sm text-balance text-soft">
          A company’s options are debated and scored; a program is written, run in a sandbox and mended until it works.
        </p>
        <Begin rehearsed={about.value?.rehearsed ?? []} />
        <div className="mt-4">
          {about.value && <InUse about={about.value} />}
          {about.problem && <Said problem={about.problem} />}
        </div>
      </div>
      <Recent />
    </div>
  );
}

/** Begins a trial; where only some tasks are known by heart, these are offered. */
function Begin({ rehearsed }: { rehearsed: string[] }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<Asking | null>(null);
  const [rounds, setRounds] = useState(ROUNDS);
  const kind = chosen ?? guess(text);
  const { doing, problem, perform, forget } = useDoing();
  // What was wrong with another text says nothing about this one.
  const write = (next: string) => {
    setText(next);
    forget();
  };
  const hint = useId();
  const [key, setKey] = useState(() => crypto.randomUUID());
  const begin = (event?: FormEvent, yes = false) => {
    event?.preventDefault();
    if (text.trim() === "" || doing) return;
    const asked = { ...body(kind, text, rounds), ...(yes ? { yes } : {}) };
    void perform(async () => {
      // Sent twice, it is begun once.
      const run = await post<Run>("/api/runs", asked, { "Idempotency-Key": `${key}-${String(yes)}` });
      setKey(crypto.randomUUID());
      go(`/runs/${run.id}`);
    });
  };
  return (
    <form onSubmit={begin}>
      <Card className="grid gap-3">
        <div role="radiogroup" aria-label="What kind of trial" className="flex flex-wrap gap-1">
          {KINDS.map(({ kind: one, name, icon: Icon }) => (
            <label
              key={one}
              className={cn(
                "inline-flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-3 text-sm text-soft hover:bg-sunken has-focus-visible:outline-2 has-focus-visible:outline-accent",
                kind === one && "bg-sunken font-medium text-ink",
              )}
            >
              <input type="radio" name="kind" className="sr-only" checked={kind === one} onChange={() => setChosen(one)} />
              <Icon aria-hidden className="size-4" />
              {name}
            </label>
          ))}
        </div>
        <Textarea
          autoFocus
          aria-label="A ticker, a task or a move"
          aria-describedby={hint}
          placeholder={KINDS.find((one) => one.kind === kind)?.hint}
          value={text}
          rows={kind === "debate" ? 8 : 2}
          className={cn(kind !== "debate" && "min-h-14")}
          onChange={(event) => write(event.target.value)}
          onKeyDown={(event) => {
            const plain = kind !== "debate" && !event.shiftKey;
            if (event.key === "Enter" && (plain || event.metaKey || event.ctrlKey)) {
              event.preventDefault();
              begin();
            }
          }}
        />
        {rehearsed.length > 0 && <Examples kind={kind} tasks={rehearsed} onChoose={write} />}
        <div className="flex flex-wrap items-center gap-3">
          <p id={hint} className="flex-1 basis-full text-sm text-soft sm:basis-0" aria-live="polite">
            <Cost kind={kind} text={text} rounds={rounds} />
          </p>
          {kind !== "run" && (
            <label className="flex items-center gap-2 text-sm text-soft">
              Rounds
              <Input
                type="number"
                min={1}
                max={MOST_ROUNDS}
                value={rounds}
                className="w-18"
                onChange={(event) => setRounds(Math.min(Math.max(Math.round(event.target.valueAsNumber) || 1, 1), MOST_ROUNDS))}
              />
            </label>
          )}
          <Button type="submit" look="primary" disabled={text.trim() === "" || doing}>
            {doing ? "Beginning…" : "Begin"}
            <ArrowRight aria-hidden className="size-4" />
          </Button>
        </div>
        {problem && <Said problem={problem} />}
        {problem?.status === 402 && (
          <Button onClick={() => begin(undefined, true)} className="justify-self-start">
            Spend it, and begin
          </Button>
        )}
      </Card>
    </form>
  );
}

/** What can be tried without a model. */
function Examples({ kind, tasks, onChoose }: { kind: Asking; tasks: string[]; onChoose: (text: string) => void }) {
  const examples: Record<Asking, string[]> = { consult: ["NVDA", "AAPL", "MSFT"], run: tasks, debate: ["# Open a second plant\n\nWe should build where our customers are."] };
  return (
    <p className="flex flex-wrap items-center gap-1.5 text-xs text-soft">
      <span>{kind === "run" ? "Known by heart:" : "Such as:"}</span>
      {examples[kind].map((text) => (
        <Chip key={text} onClick={() => onChoose(text)}>
          {text.split("\n")[0]?.replace(/^# /, "")}
        </Chip>
      ))}
    </p>
  );
}

/** What a trial will cost, as far as that can be known before. */
function Cost({ kind, text, rounds }: { kind: Asking; text: string; rounds: number }) {
  const [likely, setLikely] = useState<Estimate | Problem | null>(null);
  useEffect(() => {
    setLikely(null);
    if (text.trim() === "" || kind === "run") return;
    let wanted = true;
    const timer = setTimeout(() => {
      post<Estimate>("/api/estimates", body(kind, text, rounds)).then(
        (estimate) => wanted && setLikely(estimate),
        (error: { problem?: Problem }) => wanted && setLikely(error.problem ?? null),
      );
    }, 500);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [kind, text, rounds]);
  if (text.trim() === "") return <>Enter begins it; nothing is spent before.</>;
  if (kind === "run") return <>How often it is tried is not known before: three programs at most, with a critique of each that fails.</>;
  if (likely === null) return <>…</>;
  if ("detail" in likely) return <>{likely.detail}</>;
  const said = `${count(likely.calls, "call")}, about ${tokens(likely.input_tokens + likely.output_tokens)} tokens`;
  if (likely.rehearsal) return <>{said}, asked of nobody: this is a rehearsal.</>;
  const cached = likely.cost_cached_usd !== null && likely.cost_cached_usd !== likely.cost_usd;
  return (
    <>
      {said}: about {dollars(likely.cost_usd)}
      {cached && <> ({dollars(likely.cost_cached_usd)} where prompts are cached)</>}
    </>
  );
}

/** Who answers, behind which walls code runs, and where runs are kept. */
function InUse({ about }: { about: About }) {
  const rehearsal = about.provider === "rehearsal";
  return (
    <div className="grid gap-3">
      {rehearsal && (
        <Notice tone="doubt" title="This is a rehearsal: no model is asked">
          Everything works, and what is said means nothing. To ask a real model, set a key where the server is started,
          such as <code className="font-mono">ANTHROPIC_API_KEY</code> or{" "}
          <code className="font-mono">OPENAI_API_KEY</code>, or run Ollama; then start the server again.
        </Notice>
      )}
      {about.cluster !== null && <Workers />}
      {about.cluster === null && about.isolation === null && (
        <Notice tone="bad" title="There is no sandbox here, so no program can be run">
          {about.isolation_why}
        </Notice>
      )}
      <p className="flex flex-wrap items-center gap-2 text-xs text-soft">
        <Badge title={about.why}>{rehearsal ? "rehearsal" : `${about.provider} · ${about.model ?? ""}`}</Badge>
        {about.cluster !== null ? (
          <Badge title={about.store}>cluster: {about.cluster}</Badge>
        ) : (
          <>
            <Badge title={about.isolation_why}>code in: {about.isolation ?? "no sandbox"}</Badge>
            <Badge title={about.store}>kept in: {about.store.split("/").at(-1)}</Badge>
          </>
        )}
        <Link href="/system" className="underline">
          why these
        </Link>
      </p>
    </div>
  );
}

/** Says so, if there is nobody who would do what is asked for. */
function Workers() {
  const { value, problem } = useAsked<Cluster>("/api/cluster");
  if (problem) return <Said problem={problem} />;
  if (!value || value.nodes.some((node) => node.role === "worker")) return null;
  return (
    <Notice tone="bad" title="Nobody works for the cluster, so what is asked for waits">
      Start a worker on any machine that reaches its servers: <code className="font-mono">assize worker --cluster …</code>
    </Notice>
  );
}

const NAMES: Record<Kind, string> = { run: "Code", consult: "Consult", debate: "Debate", work: "Work", eval: "Eval" };

function Recent() {
  const [limit, setLimit] = useState(20);
  const { value, problem, line } = useRuns(limit);
  return (
    <section aria-labelledby="recent" className="mx-auto w-full max-w-3xl">
      <Heading id="recent" className="mb-2">
        Recent trials
      </Heading>
      <Lost line={line} />
      {problem && <Said problem={problem} />}
      {value?.runs.length === 0 && <Empty title="No trials yet">What you begin above is kept, and shown here.</Empty>}
      <ul className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-raised empty:hidden">
        {value?.runs.map((run) => <RunRow key={run.id} run={run} />)}
      </ul>
      {value?.next != null && limit < 200 && (
        <Button look="quiet" className="mt-2" onClick={() => setLimit((before) => Math.min(before + 40, 200))}>
          Show more
        </Button>
      )}
    </section>
  );
}

function RunRow({ run }: { run: RunSummary }) {
  return (
    <m.li layout="position" className="animate-arrive">
      <Link href={`/runs/${run.id}`} className="flex items-center gap-3 px-4 py-2.5 hover:bg-sunken">
        <span className="w-16 shrink-0 text-xs text-soft">{NAMES[run.kind]}</span>
        <span className="min-w-0 flex-1 truncate text-sm" dir="auto">
          {run.title}
        </span>
        {run.label && <Badge className="max-sm:hidden">rehearsal</Badge>}
        <StatusBadge status={run.status} />
        <span className="w-24 shrink-0 text-right text-xs text-soft max-sm:hidden">{ago(run.created)}</span>
      </Link>
    </m.li>
  );
}
