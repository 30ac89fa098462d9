// A unified diff, as people read it: in one column, or old beside new.

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

export function Unified({ diff, reasons, narrow = false }: { diff: string; reasons: Reason[]; /** There is room for one column only. */ narrow?: boolean }) {
  const [chosen, choose] = useState(() => localStorage.getItem("diff") === "beside");
  const beside = chosen && !narrow;
  // As somebody likes it, for the next one, too.
  const setBeside = (next: boolean) => {
    localStorage.setItem("diff", next ? "beside" : "one");
    choose(next);
  };
  const rows = parse(diff);
  if (rows.length === 0) return <p className="text-sm text-soft">It changes nothing.</p>;
  const about = (row: Row) => (row.kind === "added" ? reasons.filter((one) => one.line === row.now) : []);
  return (
    <div>
      <div className={cn("mb-2 flex gap-1 max-md:hidden", narrow && "hidden")}>
        <Button look={beside ? "quiet" : "plain"} aria-pressed={!beside} onClick={() => setBeside(false)} className="min-h-7 px-2 py-0.5 text-xs">
          In one column
        </Button>
        <Button look={beside ? "plain" : "quiet"} aria-pressed={beside} onClick={() => setBeside(true)} className="min-h-7 px-2 py-0.5 text-xs">
          Side by side
        </Button>
      </div>
      <div className="overflow-x-auto rounded-md border border-line" tabIndex={0} aria-label="What changes">
        <table className="w-full font-mono text-xs leading-relaxed">
          <tbody>{beside ? pairs(rows).map((pair, index) => <Pair key={index} pair={pair} about={about} />) : rows.map((row, index) => <Single key={index} row={row} about={about} />)}</tbody>
        </table>
      </div>
    </div>
  );
}

const NUMBER = "w-10 px-2 text-right align-top text-soft select-none";
const SIGN: Record<Row["kind"], string> = { same: " ", added: "+", removed: "−", hunk: "" };

function Single({ row, about }: { row: Row; about: (row: Row) => Reason[] }) {
  return (
    <>
      <tr className={LOOKS[row.kind]}>
        <td className={NUMBER}>{row.old ?? ""}</td>
        <td className={NUMBER}>{row.now ?? ""}</td>
        <td className="pr-3 whitespace-pre" dir="ltr">
          {SIGN[row.kind]} {row.text}
        </td>
      </tr>
      {about(row).map((one, index) => (
        <tr key={index}>
          <td colSpan={3} className="border-l-2 border-doubt bg-doubt/10 px-3 py-1 font-sans">
            [{one.rule}] {one.message}
          </td>
        </tr>
      ))}
    </>
  );
}

interface Two {
  left: Row | null;
  right: Row | null;
}

/** What was removed beside what stands in its place. */
function pairs(rows: Row[]): Two[] {
  const found: Two[] = [];
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

function Pair({ pair: { left, right }, about }: { pair: Two; about: (row: Row) => Reason[] }) {
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
        about(right).map((one, index) => (
          <tr key={index}>
            <td colSpan={4} className="border-l-2 border-doubt bg-doubt/10 px-3 py-1 font-sans">
              [{one.rule}] {one.message}
            </td>
          </tr>
        ))}
    </>
  );
}
