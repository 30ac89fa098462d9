// Notices about problems, a lost connection and the gate's reasons.

import type { Problem, Reason } from "../model/schema";
import type { Connection } from "../model/stream";
import { InlineCode, Notice } from "./ui";

/** A problem with its hint. */
export function ProblemNotice({ problem }: { problem: Problem }) {
  return (
    <Notice tone="bad" title={problem.detail}>
      {problem.hint && <InlineCode text={problem.hint} />}
    </Notice>
  );
}

/** Shown while the connection to the server is lost. */
export function ConnectionNotice({ connection }: { connection: Connection }) {
  if (connection !== "lost") return null;
  return (
    <Notice tone="doubt" title="Connection to the server lost">
      Reconnecting… The page then receives all events it missed.
    </Notice>
  );
}

/** One reason of the gate for rejecting or escalating a draft: file, line, rule and message. */
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
