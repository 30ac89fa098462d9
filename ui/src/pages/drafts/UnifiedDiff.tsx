// Shows a unified diff in one column, or with the old and the new file side by side.

import { useState } from "react";

import type { Reason } from "../../model/schema";
import { Button, cn } from "../../parts/ui";
import { parse, type Row } from "./parse";

const LOOKS: Record<Row["kind"], string> = {
  same: "",
  added: "bg-good/12",
  removed: "bg-bad/12",
  hunk: "bg-sunken text-soft",
};

export function UnifiedDiff({ diff, reasons, narrow = false }: { diff: string; reasons: Reason[]; /** Whether the diff is in a narrow area: then the view side by side is not offered. */ narrow?: boolean }) {
  const [chosen, choose] = useState(() => localStorage.getItem("diff") === "beside");
  const sideBySide = chosen && !narrow;
  // Store the choice in the browser, so that other diffs are shown the same way.
  const setBeside = (next: boolean) => {
    localStorage.setItem("diff", next ? "beside" : "one");
    choose(next);
  };
  const rows = parse(diff);
  if (rows.length === 0) return <p className="text-sm text-soft">No changes.</p>;
  const reasonsAt = (row: Row) => (row.kind === "added" ? reasons.filter((one) => one.line === row.now) : []);
  return (
    <div>
      <div className={cn("mb-2 flex gap-1 max-md:hidden", narrow && "hidden")}>
        <Button variant={sideBySide ? "quiet" : "plain"} aria-pressed={!sideBySide} onClick={() => setBeside(false)} className="min-h-7 px-2 py-0.5 text-xs">
          Unified
        </Button>
        <Button variant={sideBySide ? "plain" : "quiet"} aria-pressed={sideBySide} onClick={() => setBeside(true)} className="min-h-7 px-2 py-0.5 text-xs">
          Side by side
        </Button>
      </div>
      <div className="overflow-x-auto rounded-md border border-line" tabIndex={0} aria-label="Diff">
        <table className="w-full font-mono text-xs leading-relaxed">
          <tbody>{sideBySide ? pairs(rows).map((pair, index) => <SideBySideRow key={index} pair={pair} reasonsAt={reasonsAt} />) : rows.map((row, index) => <UnifiedRow key={index} row={row} reasonsAt={reasonsAt} />)}</tbody>
        </table>
      </div>
    </div>
  );
}

const NUMBER = "w-10 px-2 text-right align-top text-soft select-none";
const SIGN: Record<Row["kind"], string> = { same: " ", added: "+", removed: "−", hunk: "" };

function UnifiedRow({ row, reasonsAt }: { row: Row; reasonsAt: (row: Row) => Reason[] }) {
  return (
    <>
      <tr className={LOOKS[row.kind]}>
        <td className={NUMBER}>{row.old ?? ""}</td>
        <td className={NUMBER}>{row.now ?? ""}</td>
        <td className="pr-3 whitespace-pre" dir="ltr">
          {SIGN[row.kind]} {row.text}
        </td>
      </tr>
      {reasonsAt(row).map((one, index) => (
        <tr key={index}>
          <td colSpan={3} className="border-l-2 border-warning bg-warning/10 px-3 py-1 font-sans">
            [{one.rule}] {one.message}
          </td>
        </tr>
      ))}
    </>
  );
}

interface RowPair {
  left: Row | null;
  right: Row | null;
}

/** Pairs each removed line with the added line that replaces it, for the view side by side. */
function pairs(rows: Row[]): RowPair[] {
  const found: RowPair[] = [];
  let removed: Row[] = [];
  const flush = () => {
    for (const row of removed) found.push({ left: row, right: null });
    removed = [];
  };
  for (const row of rows) {
    if (row.kind === "removed") removed.push(row);
    else if (row.kind === "added") found.push({ left: removed.shift() ?? null, right: row });
    else {
      flush();
      found.push({ left: row, right: row });
    }
  }
  flush();
  return found;
}

function Sign({ row }: { row: Row }) {
  return (
    <span aria-hidden className="inline-block w-4 text-soft select-none">
      {SIGN[row.kind]}
    </span>
  );
}

function SideBySideRow({ pair: { left, right }, reasonsAt }: { pair: RowPair; reasonsAt: (row: Row) => Reason[] }) {
  return (
    <>
      <tr>
        <td className={NUMBER}>{left?.old ?? ""}</td>
        <td className={cn("w-1/2 pr-3 whitespace-pre-wrap", left && LOOKS[left.kind])} dir="ltr">
          {left && <Sign row={left} />}
          {left?.text ?? ""}
        </td>
        <td className={NUMBER}>{right?.now ?? ""}</td>
        <td className={cn("w-1/2 pr-3 whitespace-pre-wrap", right && LOOKS[right.kind])} dir="ltr">
          {right && <Sign row={right} />}
          {right?.text ?? ""}
        </td>
      </tr>
      {right &&
        reasonsAt(right).map((one, index) => (
          <tr key={index}>
            <td colSpan={4} className="border-l-2 border-warning bg-warning/10 px-3 py-1 font-sans">
              [{one.rule}] {one.message}
            </td>
          </tr>
        ))}
    </>
  );
}
