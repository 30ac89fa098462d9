// View of a file-editing run: each tool call of the model, and each verdict of the gate on the model's drafts.

import type { RunOf } from "../../model/api";
import { EVENT } from "../../model/events";
import { useRunEvents, type RunProps } from "../../model/hooks";
import type { Reason, WorkOutcome } from "../../model/schema";
import type { ServerEvent } from "../../model/stream";
import { ReasonText } from "../../parts/notices";
import { Badge, Card, cn, EmptyState, Heading, Notice, type Tone } from "../../parts/ui";
import { Link } from "../../route";
import { RunHeader } from "../RunHeader";

/** Maximum number of steps that are shown; older steps are dropped. */
const MAX_STEPS = 1000;

const none = (): ServerEvent[] => [];
const add = (all: ServerEvent[], event: ServerEvent): ServerEvent[] => [...all, event].slice(-MAX_STEPS);

const VERDICTS: Record<string, { tone: Tone; words: string }> = {
  [EVENT.draftReady]: { tone: "accent", words: "submitted" },
  [EVENT.draftAccepted]: { tone: "good", words: "accepted" },
  [EVENT.draftRejected]: { tone: "bad", words: "rejected" },
  [EVENT.draftEscalated]: { tone: "warning", words: "needs review" },
};

/** Description of a call of each draft tool. The page shows the path of the file after it. */
const TOOLS: Record<string, string> = {
  list_files: "listed the files",
  read_file: "read the file",
  ollama_request_draft: "requested a draft of",
  ollama_read_draft: "read the draft",
  ollama_write_draft: "wrote the draft",
  ollama_submit_draft: "submitted the draft",
};

/** Description of each outcome of a file-editing run. */
const OUTCOMES: Record<WorkOutcome, string> = {
  accepted: "accepted",
  escalated: "waiting for your review",
  pending: "verification not finished",
  rejected: "rejected",
  nothing: "the model submitted no draft",
};

export default function WorkRun(props: RunProps<RunOf<"work">>) {
  const { run } = props;
  const { state, connection, lost } = useRunEvents(props, none, add);
  const { workspace } = run.input;
  const result = run.status === "done" ? run.result : null;
  return (
    <>
      <RunHeader {...props} connection={connection} lost={lost} />
      {result && (
        <div className="mb-4">
          <Notice tone={result.outcome === "accepted" ? "good" : "warning"} title={`Result: ${OUTCOMES[result.outcome]}`}>
            {result.limit_reached && <p>The run ended because it reached its limit of model calls or rejections.</p>}
            {result.answer && <p>Last answer of the model: <span dir="auto">{result.answer}</span></p>}
          </Notice>
        </div>
      )}
      <Heading className="mb-2">Steps</Heading>
      {state.length === 0 && <EmptyState title="No steps yet">Each tool call of the model and each verdict on its drafts appears here.</EmptyState>}
      <ol className="grid gap-1.5 text-sm">
        {state.map((event) => (
          <li key={event.id} className="animate-arrive">
            <Step event={event} workspace={workspace} />
          </li>
        ))}
      </ol>
    </>
  );
}

function Step({ event: { name, data }, workspace }: { event: ServerEvent; workspace: string | null }) {
  if (name === EVENT.toolCalled) {
    return (
      <p className="flex gap-3 px-2">
        <span className="w-8 shrink-0 text-right text-soft tabular-nums">{String(data.step)}</span>
        <span className={cn("shrink-0", data.failed === true && "text-bad")} title={String(data.tool)}>
          {TOOLS[String(data.tool)] ?? String(data.tool)}
        </span>
        <span className="min-w-0 wrap-anywhere text-soft" dir="auto">
          {typeof data.path === "string" && data.path}
          {data.failed === true && " (failed)"}
        </span>
      </p>
    );
  }
  const verdict = VERDICTS[name];
  if (verdict) {
    const number = String(data.submission ?? "");
    const reasons = Array.isArray(data.reasons) ? (data.reasons as Reason[]) : [];
    return (
      <Card className="px-3 py-2">
        <p className="flex flex-wrap items-center gap-2">
          <Badge tone={verdict.tone}>{verdict.words}</Badge>
          {workspace ? (
            <Link href={`/drafts/${encodeURIComponent(workspace)}/${encodeURIComponent(number)}`} className="text-accent underline">
              draft {number}
            </Link>
          ) : (
            <span>draft {number}</span>
          )}
        </p>
        {reasons.map((reason, index) => (
          <p key={index} className="mt-1 text-xs" dir="auto">
            <ReasonText reason={reason} />
          </p>
        ))}
      </Card>
    );
  }
  if (name === EVENT.modeChanged) {
    return (
      <p className="px-2 text-warning" dir="auto">
        The model continues in {String(data.mode)} mode, without tools: {String(data.why)}
      </p>
    );
  }
  return null;
}
