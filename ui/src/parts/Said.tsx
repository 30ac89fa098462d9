// What went wrong, and what to do about it.

import type { Problem, Reason } from "../model/api";
import { Coded, Notice } from "./ui";

export function Said({ problem }: { problem: Problem }) {
  return (
    <Notice tone="bad" title={problem.detail}>
      {problem.hint && <Coded text={problem.hint} />}
    </Notice>
  );
}

/** Why a draft was not simply accepted, and where. */
export function Because({ reason: { file, line, rule, message } }: { reason: Reason }) {
  return (
    <>
      <code className="font-mono text-xs text-soft">
        {file}
        {line !== undefined && `:${line}`} [{rule}]
      </code>{" "}
      {message}
    </>
  );
}
