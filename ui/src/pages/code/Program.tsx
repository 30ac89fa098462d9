// Shows a program with syntax highlighting, and marks the lines that differ from the program of the previous attempt.

import { useMemo } from "react";

import { diffLines } from "../../model/diff";
import { highlight, type Token } from "../../model/highlight";
import { cn } from "../../parts/ui";

/** Tailwind classes for the CSS classes of highlight.js. */
const KINDS: Record<string, string> = {
  "hljs-keyword": "text-accent",
  "hljs-built_in": "text-accent",
  "hljs-literal": "text-accent",
  "hljs-string": "text-good",
  "hljs-number": "text-warning",
  "hljs-comment": "text-soft italic",
  "hljs-title": "font-semibold",
};

interface Props {
  code: string;
  /** Program of the previous attempt; `null` if changed lines are not marked. */
  before: string | null;
  language: string;
}

export function Program({ code, before, language }: Props) {
  const rows = useMemo(() => {
    const now = highlight(code, language);
    if (before === null) return now.map((tokens, index) => ({ kind: "same" as const, tokens, number: index + 1 }));
    const old = highlight(before, language);
    let [nth, nthOld] = [0, 0];
    return diffLines(before, code).map(({ kind }) => {
      const tokens = (kind === "removed" ? old[nthOld] : now[nth]) ?? [];
      if (kind !== "removed") nth += 1;
      if (kind !== "added") nthOld += 1;
      return { kind, tokens, number: kind === "removed" ? null : nth };
    });
  }, [code, before, language]);
  return (
    <pre className="max-h-96 overflow-auto rounded-md bg-sunken py-3 text-xs leading-relaxed print:max-h-none" tabIndex={0} aria-label={before === null ? "Program" : "Program with changes since the previous attempt"} dir="ltr">
      {rows.map(({ kind, tokens, number }, index) => (
        <span key={index} className={cn("block w-max min-w-full px-3", kind === "added" && "bg-good/12", kind === "removed" && "bg-bad/12 line-through decoration-bad/50")}>
          <span aria-hidden className="mr-3 inline-block w-10 text-right text-soft select-none">
            {number}
            <span className="ml-1 inline-block w-2">{kind === "added" ? "+" : kind === "removed" ? "−" : ""}</span>
          </span>
          <Tokens tokens={tokens} />
        </span>
      ))}
    </pre>
  );
}

function Tokens({ tokens }: { tokens: Token[] }) {
  if (tokens.length === 0) return <> </>;
  return tokens.map(({ text, kind }, index) => (
    <span key={index} className={kind === null ? undefined : KINDS[kind]}>
      {text}
    </span>
  ));
}
