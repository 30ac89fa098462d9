// Drafts page: the submissions of a workspace, each with its diffs, the decision on it and the audit log.

import { Check, Undo2, X } from "lucide-react";
import { Fragment, useEffect, useReducer, useRef, useState, type FormEvent } from "react";

import { apiUrl, post } from "../model/api";
import { EVENT } from "../model/events";
import { useFetch, useAction } from "../model/hooks";
import type { AuditLog, Reason, Submission, SubmissionStage } from "../model/schema";
import { subscribe, type Connection, type ServerEvent } from "../model/stream";
import { formatAgo, formatCount } from "../model/format";
import { ConnectionNotice, ProblemNotice, ReasonText } from "../parts/notices";
import { Badge, Button, Card, Chip, cn, EmptyState, Heading, InlineCode, Input, Notice, type Tone } from "../parts/ui";
import { navigate, Link, useTitle } from "../route";
import { UnifiedDiff } from "./drafts/UnifiedDiff";

const TONES: Record<SubmissionStage, Tone> = {
  submitted: "accent",
  escalated: "warning",
  accepting: "accent",
  accepted: "good",
  rejected: "bad",
  undoing: "accent",
  undone: "plain",
};

export function Drafts({ workspace, submission }: { workspace: string | null; submission: string | null }) {
  useTitle("Drafts");
  const { value, problem, refetch } = useFetch(apiUrl("/api/workspaces", {}));
  if (problem) return <ProblemNotice problem={problem} />;
  if (!value) return <p className="text-sm text-soft">Loading…</p>;
  const chosen = workspace === null ? value.workspaces[0] : value.workspaces.find((one) => one.name === workspace);
  if (!chosen && workspace !== null) {
    return (
      <EmptyState page title={`Workspace ${workspace} not found on this server`}>
        <Link href="/drafts" className="text-accent underline">
          Show all workspaces
        </Link>
      </EmptyState>
    );
  }
  if (!chosen) {
    return (
      <EmptyState page title="No workspaces on this server">
        Start the server with <code className="font-mono">assize serve --root NAME=FOLDER</code>. Models can then propose
        changes to the files of that folder, and you review them here.
      </EmptyState>
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
            {one.waiting > 0 && <span className="ml-2 text-warning">{one.waiting} to review</span>}
          </Link>
        ))}
      </div>
      {!chosen.tools_on && <Notice tone="warning" title="The draft tools of this workspace are switched off: models cannot propose changes." />}
      {chosen.blocked && <Notice tone="bad" title={chosen.blocked} />}
      {chosen.tools_on && submission === null && <DraftForm key={`form ${chosen.name}`} workspace={chosen.name} />}
      <SubmissionBrowser key={chosen.name} workspace={chosen.name} open={submission} onEvents={refetch} />
    </div>
  );
}

/** Form that starts a run in which a model drafts a change to the files of a workspace. */
function DraftForm({ workspace }: { workspace: string }) {
  const [task, setTask] = useState("");
  const about = useFetch(apiUrl("/api/about", {}));
  const { pending, problem, perform } = useAction();
  const start = (event: FormEvent) => {
    event.preventDefault();
    if (task.trim() === "") return;
    void perform(async () => navigate(`/runs/${(await post("/api/runs", {}, { kind: "work", workspace, task: task.trim() })).id}`));
  };
  return (
    <form onSubmit={start} className="grid gap-2">
      <div className="flex flex-wrap gap-2">
        <Input aria-label="Change to draft" placeholder="Describe a change to these files. A model drafts it; automatic checks accept it, reject it or ask for your review." value={task} onChange={(event) => setTask(event.target.value)} className="flex-1 basis-64" />
        <Button type="submit" variant="primary" disabled={pending || task.trim() === ""}>
          {pending ? "Starting…" : "Draft change"}
        </Button>
      </div>
      {about.value && about.value.rehearsal_edits.length > 0 && (
        <p className="flex flex-wrap items-center gap-1.5 text-xs text-soft">
          <span>Tasks that the rehearsal model (built-in, offline) can do:</span>
          {about.value.rehearsal_edits.map((text) => (
            <Chip key={text} onClick={() => setTask(text)}>
              {text}
            </Chip>
          ))}
        </p>
      )}
      {problem && <ProblemNotice problem={problem} />}
    </form>
  );
}

/** Returns the message for an event about the log file of a workspace, and `null` for other events. */
export function logFileMessage({ name, data }: ServerEvent): string | null {
  const detail = (data.detail ?? {}) as Record<string, unknown>;
  switch (name) {
    case EVENT.logCompleted: {
      const lines = Number(detail.lines_added) || 0;
      return `The log file of this workspace was truncated: ${formatCount(lines, "missing line")} added from the store`;
    }
    case EVENT.logSetAside:
      return `This workspace contained the log file of another workspace: that file was renamed to \`${String(detail.name)}\``;
    default:
      return null;
  }
}

/** List of all submissions of a workspace, with the details of the open submission beside the list. */
function SubmissionBrowser({ workspace, open, onEvents }: { workspace: string; open: string | null; onEvents: () => void }) {
  const { value, problem, refetch } = useFetch(apiUrl("/api/workspaces/{workspace}/submissions", { workspace }, { all: true }));
  const [connection, setConnection] = useState<Connection>("connecting");
  // This number increases with each batch of events, which makes `SubmissionDetails` fetch the open submission again.
  const [eventBatches, countBatch] = useReducer((before: number) => before + 1, 0);
  const [logNotes, addLogNotes] = useReducer((before: string[], more: string[]) => [...before, ...more], []);
  useEffect(() => {
    const update = () => {
      refetch();
      onEvents();
      countBatch();
    };
    const receive = (events: ServerEvent[]) => {
      addLogNotes(events.map(logFileMessage).filter((note) => note !== null));
      update();
    };
    // The stream sends only events after the connection. Fetch again, because data may have changed before it.
    return subscribe(apiUrl("/api/workspaces/{workspace}/events", { workspace }), { snapshot: update, connection: setConnection, events: receive }).stop;
  }, [workspace, refetch, onEvents]);
  // Id of the submission that is shown. New submissions do not replace it, so that a reviewer does not accept a
  // submission without having seen it.
  const shown = useRef<string | null>(null);
  if (problem) return <ProblemNotice problem={problem} />;
  if (!value) return null;
  const notes = logNotes.map((note, index) => (
    <Notice key={index} tone="warning" title={note}>
      <InlineCode text="The store contains the complete log. Run `assize audit verify` to compare the log file with the store." />
    </Notice>
  ));
  const toReview = value.submissions.filter((one) => one.stage === "escalated");
  const others = value.submissions.filter((one) => one.stage !== "escalated");
  if (value.submissions.length === 0 && open === null) {
    return (
      <div className="grid gap-3">
        {notes}
        <EmptyState title="No submissions yet">
          Run <code className="font-mono">assize work "…"</code> or connect an MCP client to this server. The changes that a model proposes then appear here.
        </EmptyState>
      </div>
    );
  }
  if (!value.submissions.some((one) => String(one.id) === shown.current)) shown.current = String((toReview[0] ?? others[0])?.id ?? "");
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
                  {one.files.map((file) => file.path).join(", ")} · {formatAgo(one.at)}
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
        <ConnectionNotice connection={connection} />
        {notes}
      </div>
      <div className={cn("grid grid-cols-1 content-start gap-4", open !== null && "max-lg:hidden")}>
        {list("Needs your review", toReview)}
        {list("Other submissions", others)}
      </div>
      <div className="min-w-0">
        {open !== null && (
          <Button variant="quiet" className="mb-2 lg:hidden" onClick={() => navigate(`/drafts/${encodeURIComponent(workspace)}`)}>
            All submissions
          </Button>
        )}
        {chosen !== "" && <SubmissionDetails key={chosen} workspace={workspace} id={chosen} revision={eventBatches} />}
      </div>
    </div>
  );
}

/** Details of one submission: reasons of the gate, verification, diffs, and buttons to accept, reject or undo. */
function SubmissionDetails({ workspace, id, revision }: { workspace: string; id: string; revision: number }) {
  const path = { workspace, submission: id };
  const { value, problem, refetch } = useFetch(apiUrl("/api/workspaces/{workspace}/submissions/{submission}", path));
  useEffect(() => {
    if (revision > 0) refetch();
  }, [refetch, revision]);
  const { pending, problem: refused, perform } = useAction();
  const [reason, setReason] = useState("");
  if (problem) return <ProblemNotice problem={problem} />;
  if (!value) return null;
  const decide = (request: () => Promise<unknown>) =>
    void perform(async () => {
      try {
        await request();
        // Put the id of the submission into the URL, so that the submission stays open when it changes to the list
        // "Other submissions".
        navigate(`/drafts/${encodeURIComponent(workspace)}/${id}`, true);
      } finally {
        // The request also fails if a file has changed in the meantime: fetch both versions of that file.
        refetch();
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
          submitted by {value.worker} · task {value.task} · {formatCount(value.files.length, "file")} · {formatAgo(value.at)}
          {value.by && (
            <>
              {" "}
              · {value.stage === "escalated" ? "escalated" : "decided"} by {value.by}
            </>
          )}
        </p>
        {value.reasons.length > 0 && (
          <ul className="grid gap-2">
            {value.reasons.map((one, index) => (
              <li key={index} className={cn("border-l-2 pl-3 text-sm", one.effect === "reject" ? "border-bad" : "border-warning")}>
                <p dir="auto">
                  <ReasonText reason={one} />
                </p>
                <p className="text-xs text-soft" dir="auto">
                  Advice to the agent: <InlineCode text={one.what_to_do} />
                </p>
              </li>
            ))}
          </ul>
        )}
        {value.verified && (
          <details className="text-sm">
            <summary className="cursor-pointer">
              Verification: <Badge tone={value.verified.passed ? "good" : "bad"}>{value.verified.outcome}</Badge> {value.verified.command}
            </summary>
            {value.verified.evidence && <p className="mt-2 text-xs text-soft">{value.verified.evidence}</p>}
            <pre className="mt-2 max-h-60 overflow-auto rounded-md bg-sunken p-3 text-xs" dir="auto">
              {value.verified.output}
            </pre>
          </details>
        )}
        {changed && (
          <Notice tone="warning" title={`Conflict: ${conflicts.length === 1 ? "a file has" : "files have"} changed since the draft was created`}>
            Accepting overwrites the newer {conflicts.length === 1 ? "file" : "files"}{" "}
            {conflicts.map((one, index) => (
              <Fragment key={one.path}>
                {index > 0 && ", "}
                <a href={`#file-${index}`} className="font-mono text-xs underline" dir="auto">
                  {one.path}
                </a>
              </Fragment>
            ))}
            . Afterwards <em>Undo</em> can restore {conflicts.length === 1 ? "the newer file" : "the newer files"}. Both versions are shown below.
          </Notice>
        )}
        {value.stage === "escalated" && (
          <div className="flex flex-wrap items-center gap-2">
            <Button variant="primary" disabled={pending} onClick={() => decide(() => post("/api/workspaces/{workspace}/submissions/{submission}/accept", path, { force: changed }))}>
              <Check aria-hidden className="size-4" />
              {changed ? "Accept and overwrite" : "Accept"}
            </Button>
            <Input aria-label="Reason for the rejection" placeholder="Reason for a rejection, for the agent" value={reason} onChange={(event) => setReason(event.target.value)} className="flex-1 basis-64 sm:max-w-72" />
            <Button variant="danger" disabled={pending} onClick={() => decide(() => post("/api/workspaces/{workspace}/submissions/{submission}/reject", path, { reason }))}>
              <X aria-hidden className="size-4" />
              Reject
            </Button>
          </div>
        )}
        {value.stage === "accepted" && !value.contents_deleted && (
          <Button className="justify-self-start" disabled={pending} onClick={() => decide(() => post("/api/workspaces/{workspace}/submissions/{submission}/undo", path))}>
            <Undo2 aria-hidden className="size-4" />
            Undo
          </Button>
        )}
        {refused && <ProblemNotice problem={refused} />}
      </Card>
      {value.diffs.map((one) => (
        <Card key={one.path} id={one.changed_meanwhile === null ? undefined : `file-${conflicts.indexOf(one)}`} className="min-w-0">
          <h3 className="mb-2 font-mono text-sm">{one.path}</h3>
          {one.diff === null && <p className="text-sm text-soft">No diff: a cleanup deleted the stored contents of this draft.</p>}
          {one.diff !== null && one.changed_meanwhile === null && <UnifiedDiff diff={one.diff} reasons={reasonsFor(one.path)} />}
          {one.diff !== null && one.changed_meanwhile !== null && <Conflict draft={one.diff} now={one.changed_meanwhile} reasons={reasonsFor(one.path)} />}
        </Card>
      ))}
      <AuditEntries key={value.stage} workspace={workspace} task={value.task} />
    </div>
  );
}

/**
 * Two diffs of a file with a conflict: from the file as it was when the draft was created to the current file, and to
 * the draft.
 */
function Conflict({ draft, now, reasons }: { draft: string; now: string; reasons: Reason[] }) {
  return (
    <>
      <p className="mb-3 text-xs text-soft">Each version is shown as a diff from the file as it was when the draft was created.</p>
      <div className="grid grid-cols-1 gap-4 xl:grid-cols-2">
        <section aria-label="Current file" className="min-w-0">
          <h4 className="mb-2 text-sm font-medium">Current file</h4>
          <UnifiedDiff narrow diff={now} reasons={[]} />
        </section>
        <section aria-label="Drafted file" className="min-w-0">
          <h4 className="mb-2 text-sm font-medium">Drafted file</h4>
          <UnifiedDiff narrow diff={draft} reasons={reasons} />
        </section>
      </div>
    </>
  );
}

/** Returns the verdict and reasons of an audit log entry that records a decision, and `null` for other entries. */
const decision = (entry: AuditLog["entries"][number]) => (entry.action === EVENT.decided ? entry.detail : null);

/** Audit log of the task that a submission belongs to. */
function AuditEntries({ workspace, task }: { workspace: string; task: string }) {
  const { value } = useFetch(apiUrl("/api/workspaces/{workspace}/audit", { workspace }, { task }));
  if (!value || value.entries.length === 0) return null;
  return (
    <details>
      <summary className="cursor-pointer text-sm text-soft">Audit log of this task</summary>
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
                <ReasonText reason={reason} />
              </span>
            ))}
          </li>
        ))}
      </ol>
    </details>
  );
}
