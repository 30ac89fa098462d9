// Notices: a failed request, a lost connection, and the gate's reasons for a decision on a draft.

import type { Problem, Reason } from "../model/schema";
import type { Connection } from "../model/stream";
import { InlineCode, Notice } from "./ui";

/** Notice about a failed request: what failed, and a hint what to do. */
export function ProblemNotice({ problem }: { problem: Problem }) {
  return (
    <Notice tone="bad" title={problem.detail}>
      {problem.hint && <InlineCode text={problem.hint} />}
    </Notice>
  );
}

/** Notice that is shown while the connection to the server is lost. */
export function ConnectionNotice({ connection }: { connection: Connection }) {
  if (connection !== "lost") return null;
  return (
    <Notice tone="warning" title="Connection to the server lost">
      Reconnecting… Once connected, the page shows everything that happened in the meantime.
    </Notice>
  );
}

/** One reason why the gate rejected or escalated a draft: file, line, rule and message. */
export function ReasonText({ reason: { file, line, rule, message } }: { reason: Reason }) {
  return (
    <>
      <code className="font-mono text-xs text-soft">
        {file}
        {line != null && `:${line}`} [{rule}]
      </code>{" "}
      <InlineCode text={message} />
    </>
  );
}
