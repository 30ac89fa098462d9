// What went wrong, and what to do about it.

import type { Problem } from "../model/api";
import { Notice } from "./ui";

export function Said({ problem }: { problem: Problem }) {
  return (
    <Notice tone="bad" title={problem.detail}>
      {problem.hint}
    </Notice>
  );
}
