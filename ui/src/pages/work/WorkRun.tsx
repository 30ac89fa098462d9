// A worker that drafts: what it did, step by step, and what became of its drafts.

import type { RunOf } from "../../model/api";
import { EVENT } from "../../model/events";
import { useFollowed, type Watched } from "../../model/hooks";
import type { Reason } from "../../model/schema";
import type { Told } from "../../model/stream";
import { Because } from "../../parts/Said";
import { Badge, Card, cn, Empty, Heading, Notice, type Tone } from "../../parts/ui";
import { Link } from "../../route";
import { Head } from "../Head";

/** The most steps that are shown. */
const MOST = 1000;

const none = (): Told[] => [];
const add = (all: Told[], told: Told): Told[] => [...all, told].slice(-MOST);

const VERDICTS: Record<string, { tone: Tone; words: string }> = {
  [EVENT.draftReady]: { tone: "accent", words: "handed in" },
  [EVENT.draftAccepted]: { tone: "good", words: "accepted" },
  [EVENT.draftRejected]: { tone: "bad", words: "sent back" },
  [EVENT.draftEscalated]: { tone: "doubt", words: "waits for you" },
};

/** What a worker does with the tools that there are. */
const TOOLS: Record<string, string> = {
  list_files: "looked at what is there",
  read_file: "read",
  ollama_request_draft: "asked for a draft of",
  ollama_read_draft: "read the draft",
  ollama_write_draft: "wrote the draft",
  ollama_submit_draft: "handed in",
};

export default function WorkRun(watched: Watched<RunOf<"work">>) {
  const { run } = watched;
  const { state, line, lost } = useFollowed(watched, none, add);
  const { workspace } = run.input;
  const came = run.status === "done" ? run.result : null;
  return (
    <>
      <Head {...watched} line={line} lost={lost} />
      {came && (
        <div className="mb-4">
          <Notice tone={came.outcome === "accepted" ? "good" : "doubt"} title={`It came to: ${came.outcome.replaceAll("_", " ")}`}>
            {came.said && <span dir="auto">{came.said}</span>}
            {came.limit_reached && <span> It had no more steps.</span>}
          </Notice>
        </div>
      )}
      <Heading className="mb-2">What it did</Heading>
      {state.length === 0 && <Empty title="It has just begun">Each step is shown as it is done.</Empty>}
      <ol className="grid gap-1.5 text-sm">
        {state.map((told) => (
          <li key={told.id} className="animate-arrive">
            <Step told={told} workspace={workspace} />
          </li>
        ))}
      </ol>
    </>
  );
}

function Step({ told: { name, data }, workspace }: { told: Told; workspace: string | null }) {
  if (name === EVENT.toolCalled) {
    return (
      <p className="flex gap-3 px-2">
        <span className="w-8 shrink-0 text-right text-soft tabular-nums">{String(data.step)}</span>
        <span className={cn("shrink-0", data.failed === true && "text-bad")} title={String(data.tool)}>
          {TOOLS[String(data.tool)] ?? String(data.tool)}
        </span>
        <span className="truncate text-soft" dir="auto">
          {typeof data.path === "string" && data.path}
          {data.failed === true && " refused"}
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
            <Because reason={reason} />
          </p>
        ))}
      </Card>
    );
  }
  if (name === EVENT.modeChanged) {
    return (
      <p className="px-2 text-doubt" dir="auto">
        It goes on as {String(data.mode)}: {String(data.why)}
      </p>
    );
  }
  return null;
}
