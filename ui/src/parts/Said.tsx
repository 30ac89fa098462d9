// What went wrong, and what to do about it.

import type { Problem, Reason } from "../model/schema";
import type { Line } from "../model/stream";
import { Coded, Notice } from "./ui";

export function Said({ problem }: { problem: Problem }) {
  return (
    <Notice tone="bad" title={problem.detail}>
      {problem.hint && <Coded text={problem.hint} />}
    </Notice>
  );
}

/** That nobody hears what happens, and that this is no harm. */
export function Lost({ line }: { line: Line }) {
  if (line !== "lost") return null;
  return (
    <Notice tone="doubt" title="The line to the server is lost">
      It is being called again. Nothing is missed: what happens meanwhile is told then.
    </Notice>
  );
}

/** Why a draft was not simply accepted, and where. */
export function Because({ reason: { file, line, rule, message } }: { reason: Reason }) {
  return (
    <>
      <code className="font-mono text-xs text-soft">
        {file}
        {line != null && `:${line}`} [{rule}]
      </code>{" "}
      <Coded text={message} />
    </>
  );
}
