// Form that starts a run: a consultation, a code run or a debate.

import { ArrowRight, FlaskConical, Gavel, TerminalSquare } from "lucide-react";
import { useEffect, useId, useState, type FormEvent } from "react";

import { post } from "../../model/api";
import { useAction } from "../../model/hooks";
import type { EstimateView, Problem } from "../../model/schema";
import { formatCount, formatDollars, formatTokens } from "../../model/format";
import { ProblemNotice } from "../../parts/notices";
import { Button, Card, Chip, cn, Input, Textarea } from "../../parts/ui";
import { navigate } from "../../route";
import { Files } from "./Files";
import { isTicker, guessKind, MAX_ROUNDS, DEFAULT_ROUNDS, startBody, type Options, type StartKind, type Upload } from "./request";

/** Kinds of trial in the form. `hint` is the placeholder of the text field; `suggestion` completes "This looks like …". */
const KINDS: readonly { kind: StartKind; name: string; icon: typeof Gavel; hint: string; suggestion: string }[] = [
  { kind: "consult", name: "Consult", icon: Gavel, hint: "Stock ticker, such as NVDA: what should this company do next?", suggestion: "a ticker" },
  { kind: "run", name: "Code", icon: TerminalSquare, hint: "Programming task, such as: Calculate fibonacci(10)", suggestion: "a programming task" },
  { kind: "debate", name: "Debate", icon: FlaskConical, hint: "Proposed move of a company, in Markdown or plain text: what the company should do, and why", suggestion: "a proposed move to debate" },
];

/** Start form. `tasks` lists the tasks that the rehearsal model can do; it is empty with another provider. */
export function StartForm({ tasks }: { tasks: string[] }) {
  const [text, setText] = useState("");
  const [kind, setKind] = useState<StartKind>("consult");
  const [rounds, setRounds] = useState(DEFAULT_ROUNDS);
  const [blindScores, setBlindScores] = useState(false);
  const [privateCompany, setPrivateCompany] = useState(false);
  const [files, setFiles] = useState<Upload[]>([]);
  const options: Options = { rounds, blindScores, privateCompany, files };
  const { pending, problem, perform, clear } = useAction();
  // A change of the form removes the error message about the previous request.
  const change = <T,>(set: (value: T) => void) => (value: T) => {
    set(value);
    clear();
  };
  const write = change(setText);
  const hint = useId();
  const [key, setKey] = useState(() => crypto.randomUUID());
  const start = (event?: FormEvent, yes = false) => {
    event?.preventDefault();
    if (text.trim() === "" || pending) return;
    const body = { ...startBody(kind, text, options), ...(yes ? { yes } : {}) };
    void perform(async () => {
      // Because of the idempotency key, a request that is sent twice starts only one run.
      const run = await post("/api/runs", {}, body, { "Idempotency-Key": `${key}-${String(yes)}` });
      setKey(crypto.randomUUID());
      navigate(`/runs/${run.id}`);
    });
  };
  const suggested = KINDS.find((one) => one.kind === guessKind(text));
  return (
    <form onSubmit={start}>
      <Card className="grid gap-3">
        <div role="radiogroup" aria-label="Kind of trial" className="flex flex-wrap gap-1">
          {KINDS.map(({ kind: one, name, icon: Icon }) => (
            <label
              key={one}
              className={cn(
                "inline-flex min-h-9 cursor-pointer items-center gap-2 rounded-md px-3 text-sm text-soft hover:bg-sunken has-focus-visible:outline-2 has-focus-visible:outline-accent",
                kind === one && "bg-sunken font-medium text-ink",
              )}
            >
              <input type="radio" name="kind" className="sr-only" checked={kind === one} onChange={() => change(setKind)(one)} />
              <Icon aria-hidden className="size-4" />
              {name}
            </label>
          ))}
        </div>
        <Textarea
          autoFocus
          aria-label="Company ticker, programming task or proposed move"
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
              start();
            }
          }}
        />
        {suggested && text.trim() !== "" && suggested.kind !== kind && kind === "consult" && !privateCompany && (
          <p className="flex flex-wrap items-center gap-2 text-sm text-soft" role="status">
            This looks like {suggested.suggestion}.
            <Button className="min-h-7 px-2 py-0.5 text-xs" onClick={() => change(setKind)(suggested.kind)}>
              Switch to {suggested.name}
            </Button>
          </p>
        )}
        {tasks.length > 0 && <Examples kind={kind} tasks={tasks} onChoose={write} />}
        {kind === "consult" && (
          <>
            <Files
              label="Add your own data"
              hint="Markdown, text, CSV and JSON files about the company. Without files, the model makes up the company data."
              files={files}
              onChange={change(setFiles)}
            />
            <label className="flex flex-wrap items-center gap-x-2 text-sm">
              <input type="checkbox" className="size-4 shrink-0 accent-accent" checked={privateCompany} onChange={(event) => change(setPrivateCompany)(event.target.checked)} />
              Private company
              <span className="text-xs text-soft">The text above is the name of the company, such as Larkspur Kettles, instead of a ticker.</span>
            </label>
            <label className="flex flex-wrap items-center gap-x-2 text-sm">
              <input type="checkbox" className="size-4 shrink-0 accent-accent" checked={blindScores} onChange={(event) => change(setBlindScores)(event.target.checked)} />
              Blind scores
              <span className="text-xs text-soft">Each judge also scores each move before its debate, to show how the debate changed the scores.</span>
            </label>
          </>
        )}
        {kind === "run" && <Files label="Add files" hint="The program can read these files in its working folder." files={files} onChange={change(setFiles)} />}
        <div className="flex flex-wrap items-center gap-3">
          <p id={hint} className="flex-1 basis-full text-sm text-soft sm:basis-0" aria-live="polite">
            <Cost kind={kind} text={text} options={options} />
          </p>
          {kind !== "run" && (
            <label className="flex items-center gap-2 text-sm text-soft">
              Debate rounds
              <Input
                type="number"
                min={1}
                max={MAX_ROUNDS}
                value={rounds}
                className="w-18"
                onChange={(event) => change(setRounds)(Math.min(Math.max(Math.round(event.target.valueAsNumber) || 1, 1), MAX_ROUNDS))}
              />
            </label>
          )}
          <Button type="submit" variant="primary" disabled={text.trim() === "" || pending}>
            {pending ? "Starting…" : "Start"}
            <ArrowRight aria-hidden className="size-4" />
          </Button>
        </div>
        {problem && <ProblemNotice problem={problem} />}
        {problem?.status === 402 && (
          <Button onClick={() => start(undefined, true)} className="justify-self-start">
            Confirm cost and start
          </Button>
        )}
      </Card>
    </form>
  );
}

/** Buttons with example texts. Code tasks are limited to those that the rehearsal model can do. */
function Examples({ kind, tasks, onChoose }: { kind: StartKind; tasks: string[]; onChoose: (text: string) => void }) {
  const examples: Record<StartKind, string[]> = { consult: ["NVDA", "AAPL", "MSFT"], run: tasks, debate: ["# Open a second plant\n\nWe should build where our customers are."] };
  return (
    <p className="flex flex-wrap items-center gap-1.5 text-xs text-soft">
      <span>{kind === "run" ? "Tasks that the rehearsal model (built-in, offline) can do:" : "Examples:"}</span>
      {examples[kind].map((text) => (
        <Chip key={text} onClick={() => onChoose(text)}>
          {text.split("\n")[0]?.replace(/^# /, "")}
        </Chip>
      ))}
    </p>
  );
}

/**
 * Maximum total size of the files in a request for an estimate, in bytes. The form sends such a request after each
 * change, so larger files are left out of it.
 */
const MAX_ESTIMATE_UPLOAD_BYTES = 1024 * 1024;

const NONE: Upload[] = [];
const withoutLargeFiles = (files: Upload[]) => (files.reduce((sum, file) => sum + file.bytes, 0) <= MAX_ESTIMATE_UPLOAD_BYTES ? files : NONE);

/** Line in the start form: the estimated cost of the trial, or a hint if the text is missing or not a ticker. */
function Cost({ kind, text, options }: { kind: StartKind; text: string; options: Options }) {
  const [estimate, setEstimate] = useState<EstimateView | Problem | null>(null);
  const { rounds, blindScores, privateCompany, files } = options;
  const incomplete = kind === "consult" && !privateCompany && !isTicker(text);
  useEffect(() => {
    setEstimate(null);
    if (text.trim() === "" || kind === "run" || incomplete) return;
    let current = true;
    const timer = setTimeout(() => {
      post("/api/estimates", {}, startBody(kind, text, { rounds, blindScores, privateCompany, files: withoutLargeFiles(files) })).then(
        (received) => current && setEstimate(received),
        (error: { problem?: Problem }) => current && setEstimate(error.problem ?? null),
      );
    }, 500);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [kind, text, rounds, blindScores, privateCompany, incomplete, files]);
  if (text.trim() === "") return <>Press {kind === "debate" ? "Ctrl+Enter" : "Enter"} to start the trial. No model is called before the start.</>;
  if (kind === "run") return <>The cost cannot be estimated before the start: the model writes one to three programs, and a critic reviews each program that fails.</>;
  if (incomplete) return <>Not a ticker: a ticker has at most ten letters, digits, dots and hyphens, such as NVDA or BRK.B.</>;
  if (estimate === null) return <>Estimating the cost…</>;
  if ("detail" in estimate) return <>{estimate.detail}</>;
  const usage = `Estimate: ${formatCount(estimate.calls, "model call")}, about ${formatTokens(estimate.input_tokens + estimate.output_tokens)} tokens`;
  if (estimate.rehearsal) return <>Rehearsal: {formatCount(estimate.calls, "simulated call")}, no model is called.</>;
  const cached = estimate.cost_cached_usd !== null && estimate.cost_cached_usd !== estimate.cost_usd;
  return (
    <>
      {usage}: {estimate.cost_usd === null ? "price unknown" : `about ${formatDollars(estimate.cost_usd)}`}
      {estimate.cost_note && <> ({estimate.cost_note})</>}
      {cached && <> ({formatDollars(estimate.cost_cached_usd)} with prompt caching)</>}
    </>
  );
}
