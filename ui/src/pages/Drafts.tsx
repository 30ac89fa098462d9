// Drafts: what waits for a person, what was decided, what each would change, and the log of it all.

import { Check, Undo2, X } from "lucide-react";
import { Fragment, useEffect, useReducer, useRef, useState, type FormEvent } from "react";

import { at, post } from "../model/api";
import { EVENT } from "../model/events";
import { useAsked, useDoing } from "../model/hooks";
import type { AuditLog, Reason, Submission, SubmissionStage } from "../model/schema";
import { follow, type Line, type Told } from "../model/stream";
import { ago, count } from "../model/words";
import { Because, Lost, Said } from "../parts/Said";
import { Badge, Button, Card, Chip, cn, Coded, Empty, Heading, Input, Notice, type Tone } from "../parts/ui";
import { go, Link, useTitle } from "../route";
import { Unified } from "./drafts/Unified";

const TONES: Record<SubmissionStage, Tone> = {
  submitted: "accent",
  escalated: "doubt",
  accepting: "accent",
  accepted: "good",
  rejected: "bad",
  undoing: "accent",
  undone: "plain",
};

export function Drafts({ workspace, submission }: { workspace: string | null; submission: string | null }) {
  useTitle("Drafts");
  const { value, problem, again } = useAsked(at("/api/workspaces", {}));
  if (problem) return <Said problem={problem} />;
  if (!value) return <p className="text-sm text-soft">Looking…</p>;
  const chosen = workspace === null ? value.workspaces[0] : value.workspaces.find((one) => one.name === workspace);
  if (!chosen && workspace !== null) {
    return (
      <Empty page title={`No folder called ${workspace} was allowed on this server`}>
        <Link href="/drafts" className="text-accent underline">
          To those that were
        </Link>
      </Empty>
    );
  }
  if (!chosen) {
    return (
      <Empty page title="No folder was allowed on this server">
        Start it with <code className="font-mono">assize serve --root NAME=FOLDER</code>: models then propose changes to
        that folder’s files, and you decide here.
      </Empty>
    );
  }
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center gap-2">
        <h1 className="mr-2 text-xl font-semibold">Drafts</h1>
        {value.workspaces.map((one) => (
          <Link
            key={one.name}
            href={`/drafts/${encodeURIComponent(one.name)}`}
            aria-current={one === chosen ? "page" : undefined}
            className={cn("rounded-md border border-line px-3 py-1 text-sm", one === chosen && "bg-sunken font-medium")}
          >
            {one.name}
            {one.waiting > 0 && <span className="ml-2 text-doubt">{one.waiting}</span>}
          </Link>
        ))}
      </div>
      {!chosen.tools_on && <Notice tone="doubt" title="The draft tools are switched off here: no model can propose anything." />}
      {chosen.blocked && <Notice tone="bad" title={chosen.blocked} />}
      {chosen.tools_on && submission === null && <Ask key={`ask ${chosen.name}`} workspace={chosen.name} />}
      <Inbox key={chosen.name} workspace={chosen.name} open={submission} onNews={again} />
    </div>
  );
}

/** Has a model change files of a workspace, as drafts. */
function Ask({ workspace }: { workspace: string }) {
  const [task, setTask] = useState("");
  const about = useAsked(at("/api/about", {}));
  const { doing, problem, perform } = useDoing();
  const begin = (event: FormEvent) => {
    event.preventDefault();
    if (task.trim() === "") return;
    void perform(async () => go(`/runs/${(await post("/api/runs", {}, { kind: "work", workspace, task: task.trim() })).id}`));
  };
  return (
    <form onSubmit={begin} className="grid gap-2">
      <div className="flex flex-wrap gap-2">
        <Input aria-label="What is to be changed" placeholder="What is to be changed in these files? A model drafts it, and the gate decides or asks you." value={task} onChange={(event) => setTask(event.target.value)} className="flex-1 basis-64" />
        <Button type="submit" look="primary" disabled={doing || task.trim() === ""}>
          {doing ? "Beginning…" : "Have it drafted"}
        </Button>
      </div>
      {about.value && about.value.rehearsed_changes.length > 0 && (
        <p className="flex flex-wrap items-center gap-1.5 text-xs text-soft">
          <span>No model is asked here; known by heart:</span>
          {about.value.rehearsed_changes.map((text) => (
            <Chip key={text} onClick={() => setTask(text)}>
              {text}
            </Chip>
          ))}
        </p>
      )}
      {problem && <Said problem={problem} />}
    </form>
  );
}

/** What happened to the log file of a workspace, for events that are about the file itself. */
export function aboutLogFile({ name, data }: Told): string | null {
  const detail = (data.detail ?? {}) as Record<string, unknown>;
  switch (name) {
    case EVENT.logCompleted: {
      const lines = Number(detail.lines_added) || 0;
      return `The log file of this workspace ended early: ${count(lines, "missing line")} added from the store`;
    }
    case EVENT.logSetAside:
      return `This workspace held the log file of another workspace: it was renamed to \`${String(detail.name)}\``;
    default:
      return null;
  }
}

function Inbox({ workspace, open, onNews }: { workspace: string; open: string | null; onNews: () => void }) {
  const { value, problem, again } = useAsked(at("/api/workspaces/{workspace}/submissions", { workspace }, { all: true }));
  const [line, setLine] = useState<Line>("connecting");
  // Whatever happens here, whoever does it.
  const [news, hear] = useReducer((before: number) => before + 1, 0);
  const [logNotes, addLogNotes] = useReducer((before: string[], more: string[]) => [...before, ...more], []);
  useEffect(() => {
    const told = (events: Told[]) => {
      addLogNotes(events.map(aboutLogFile).filter((note) => note !== null));
      again();
      onNews();
      hear();
    };
    return follow(at("/api/workspaces/{workspace}/events", { workspace }), { snapshot: () => {}, line: setLine, told }).stop;
  }, [workspace, again, onNews]);
  // What is shown stays, though others come in: nobody accepts what they have not seen.
  const shown = useRef<string | null>(null);
  if (problem) return <Said problem={problem} />;
  if (!value) return null;
  const notes = logNotes.map((note, index) => (
    <Notice key={index} tone="doubt" title={note}>
      <Coded text="The store keeps the full log; `assize audit verify` compares both." />
    </Notice>
  ));
  const waiting = value.submissions.filter((one) => one.stage === "escalated");
  const settled = value.submissions.filter((one) => one.stage !== "escalated");
  if (value.submissions.length === 0 && open === null) {
    return (
      <div className="grid gap-3">
        {notes}
        <Empty title="No submissions yet">
          <code className="font-mono">assize work "…"</code> has a model change files here; so can any MCP client.
        </Empty>
      </div>
    );
  }
  if (!value.submissions.some((one) => String(one.id) === shown.current)) shown.current = String((waiting[0] ?? settled[0])?.id ?? "");
  const chosen = open ?? shown.current ?? "";
  const list = (title: string, all: Submission[]) =>
    all.length > 0 && (
      <section className="grid grid-cols-1 gap-1">
        <Heading>{title}</Heading>
        <ul className="grid grid-cols-1 gap-1">
          {all.map((one) => (
            <li key={one.id}>
              <Link
                href={`/drafts/${encodeURIComponent(workspace)}/${one.id}`}
                aria-current={String(one.id) === chosen ? "true" : undefined}
                className={cn("grid gap-0.5 rounded-md border border-transparent px-3 py-2 text-sm hover:bg-sunken", String(one.id) === chosen && "border-line bg-raised")}
              >
                <span className="flex items-center gap-2">
                  <span className="min-w-0 flex-1 truncate font-medium" dir="auto">
                    {one.summary || one.task}
                  </span>
                  <Badge tone={TONES[one.stage]}>{one.stage}</Badge>
                </span>
                <span className="truncate text-xs text-soft">
                  {one.files.map((file) => file.path).join(", ")} · {ago(one.at)}
                </span>
              </Link>
            </li>
          ))}
        </ul>
      </section>
    );
  return (
    <div className="grid gap-5 lg:grid-cols-[20rem_1fr]">
      <div className="empty:hidden lg:col-span-2">
        <Lost line={line} />
        {notes}
      </div>
      <div className={cn("grid grid-cols-1 content-start gap-4", open !== null && "max-lg:hidden")}>
        {list("Waiting for you", waiting)}
        {list("Settled", settled)}
      </div>
      <div className="min-w-0">
        {open !== null && (
          <Button look="quiet" className="mb-2 lg:hidden" onClick={() => go(`/drafts/${encodeURIComponent(workspace)}`)}>
            All drafts
          </Button>
        )}
        {chosen !== "" && <One key={chosen} workspace={workspace} id={chosen} news={news} />}
      </div>
    </div>
  );
}

function One({ workspace, id, news }: { workspace: string; id: string; news: number }) {
  const path = { workspace, submission: id };
  const { value, problem, again } = useAsked(at("/api/workspaces/{workspace}/submissions/{submission}", path));
  useEffect(() => {
    if (news > 0) again();
  }, [again, news]);
  const { doing, problem: refused, perform } = useDoing();
  const [reason, setReason] = useState("");
  if (problem) return <Said problem={problem} />;
  if (!value) return null;
  const decide = (request: () => Promise<unknown>) =>
    void perform(async () => {
      try {
        await request();
        // It stays in view, though it waits no more.
        go(`/drafts/${encodeURIComponent(workspace)}/${id}`, true);
      } finally {
        // Refused, it may have become a conflict, of which both sides are shown.
        again();
      }
    });
  const conflicts = value.diffs.filter((one) => one.changed_meanwhile !== null);
  const changed = conflicts.length > 0;
  const reasonsFor = (file: string) => value.reasons.filter((reason) => reason.file === file);
  return (
    <div className="grid gap-4">
      <Card className="grid gap-3">
        <div className="flex flex-wrap items-start gap-2">
          <h2 className="min-w-0 flex-1 font-medium" dir="auto">
            {value.summary || value.task}
          </h2>
          <Badge tone={TONES[value.stage]}>{value.stage}</Badge>
        </div>
        <p className="text-xs text-soft">
          {value.worker} · task {value.task} · {count(value.files.length, "file")} · {ago(value.at)}
          {value.by && (
            <>
              {" "}
              · {value.stage === "escalated" ? "passed on" : "decided"} by {value.by}
            </>
          )}
        </p>
        {value.reasons.length > 0 && (
          <ul className="grid gap-2">
            {value.reasons.map((one, index) => (
              <li key={index} className={cn("border-l-2 pl-3 text-sm", one.effect === "reject" ? "border-bad" : "border-doubt")}>
                <p dir="auto">
                  <Because reason={one} />
                </p>
                <p className="text-xs text-soft" dir="auto">
                  To the worker: <Coded text={one.what_to_do} />
                </p>
              </li>
            ))}
          </ul>
        )}
        {value.verified && (
          <details className="text-sm">
            <summary className="cursor-pointer">
              <Badge tone={value.verified.passed ? "good" : "bad"}>{value.verified.outcome}</Badge> {value.verified.command}
            </summary>
            {value.verified.evidence && <p className="mt-2 text-xs text-soft">{value.verified.evidence}</p>}
            <pre className="mt-2 max-h-60 overflow-auto rounded-md bg-sunken p-3 text-xs" dir="auto">
              {value.verified.output}
            </pre>
          </details>
        )}
        {changed && (
          <Notice tone="doubt" title={`Conflict: ${conflicts.length === 1 ? "a file has" : "files have"} changed since the draft was created`}>
            Accepting overwrites the newer {conflicts.length === 1 ? "file" : "files"}{" "}
            {conflicts.map((one, index) => (
              <Fragment key={one.path}>
                {index > 0 && ", "}
                <a href={`#file-${index}`} className="font-mono text-xs underline" dir="auto">
                  {one.path}
                </a>
              </Fragment>
            ))}
            ; <em>Undo</em> brings {conflicts.length === 1 ? "it" : "them"} back. Both sides are shown below.
          </Notice>
        )}
        {value.stage === "escalated" && (
          <div className="flex flex-wrap items-center gap-2">
            <Button look="primary" disabled={doing} onClick={() => decide(() => post("/api/workspaces/{workspace}/submissions/{submission}/accept", path, { force: changed }))}>
              <Check aria-hidden className="size-4" />
              {changed ? "Accept and overwrite" : "Accept"}
            </Button>
            <Input aria-label="What the worker is told" placeholder="What the worker is told" value={reason} onChange={(event) => setReason(event.target.value)} className="flex-1 basis-64 sm:max-w-72" />
            <Button look="danger" disabled={doing} onClick={() => decide(() => post("/api/workspaces/{workspace}/submissions/{submission}/reject", path, { reason }))}>
              <X aria-hidden className="size-4" />
              Reject
            </Button>
          </div>
        )}
        {value.stage === "accepted" && !value.swept && (
          <Button className="justify-self-start" disabled={doing} onClick={() => decide(() => post("/api/workspaces/{workspace}/submissions/{submission}/undo", path))}>
            <Undo2 aria-hidden className="size-4" />
            Undo
          </Button>
        )}
        {refused && <Said problem={refused} />}
      </Card>
      {value.diffs.map((one) => (
        <Card key={one.path} id={one.changed_meanwhile === null ? undefined : `file-${conflicts.indexOf(one)}`} className="min-w-0">
          <h3 className="mb-2 font-mono text-sm">{one.path}</h3>
          {one.diff === null && <p className="text-sm text-soft">Its copies were put away.</p>}
          {one.diff !== null && one.changed_meanwhile === null && <Unified diff={one.diff} reasons={reasonsFor(one.path)} />}
          {one.diff !== null && one.changed_meanwhile !== null && <Conflict draft={one.diff} now={one.changed_meanwhile} reasons={reasonsFor(one.path)} />}
        </Card>
      ))}
      <Log key={value.stage} workspace={workspace} task={value.task} />
    </div>
  );
}

/** Both sides of a conflict, each compared with the base: the file as it was when the draft was created. */
function Conflict({ draft, now, reasons }: { draft: string; now: string; reasons: Reason[] }) {
  return (
    <>
      <p className="mb-3 text-xs text-soft">Both sides are compared with the base: the file as it was when the draft was created.</p>
      <div className="grid grid-cols-1 gap-4 xl:grid-cols-2">
        <section aria-label="The file now" className="min-w-0">
          <h4 className="mb-2 text-sm font-medium">The file now</h4>
          <Unified narrow diff={now} reasons={[]} />
        </section>
        <section aria-label="The draft" className="min-w-0">
          <h4 className="mb-2 text-sm font-medium">The draft</h4>
          <Unified narrow diff={draft} reasons={reasons} />
        </section>
      </div>
    </>
  );
}

/** The decision that an entry of the log is, if it is one. */
const decision = (entry: AuditLog["entries"][number]) => (entry.action === EVENT.decided ? entry.detail : null);

/** What happened to the drafts of a task. */
function Log({ workspace, task }: { workspace: string; task: string }) {
  const { value } = useAsked(at("/api/workspaces/{workspace}/audit", { workspace }, { task }));
  if (!value || value.entries.length === 0) return null;
  return (
    <details>
      <summary className="cursor-pointer text-sm text-soft">What happened in this task, from the log</summary>
      <ol className="mt-2 grid gap-1 text-xs">
        {value.entries.map((entry) => (
          <li key={entry.id} className="flex flex-wrap gap-x-3">
            <span className="w-10 shrink-0 text-right text-soft tabular-nums">{entry.id}</span>
            <time className="shrink-0 text-soft">{new Date(entry.at).toLocaleString()}</time>
            <span className="shrink-0">
              {entry.action}
              {decision(entry) && `: ${decision(entry)?.verdict}`}
            </span>
            <span className="text-soft" dir="auto">
              {entry.actor}
            </span>
            {decision(entry)?.reasons.map((reason, nth) => (
              <span key={nth} className="w-full pl-13 wrap-anywhere" dir="auto">
                <Because reason={reason} />
              </span>
            ))}
          </li>
        ))}
      </ol>
    </details>
  );
}
