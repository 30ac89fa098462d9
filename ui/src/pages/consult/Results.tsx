// What a consultation came to: the three that are recommended, and the others.

import { Download, Printer } from "lucide-react";
import { useState } from "react";

import type { Run } from "../../model/api";
import { Badge, Button, Card, cn, Empty, Heading, Notice } from "../../parts/ui";
import { METRICS, sum, type Placed, type Report, type Scored, type Suggested } from "./report";

export function Results({ run, report, onOpen }: { run: Run; report: Report | null; onOpen: (move: string) => void }) {
  if (!report) {
    return (
      <Empty title={run.status === "running" ? "It is still being debated" : "It has not come to its end"}>
        The recommendations are here once every move was scored.
      </Empty>
    );
  }
  const path = `/api/runs/${encodeURIComponent(run.id)}`;
  const scored = (move: string) => report.policy_scores.find((one) => one.move_id === move);
  const suggested = (move: string) => report.move_suggestions.find((one) => one.move_id === move);
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap gap-2 print:hidden">
        {["report.md", "report.html", "report.json"].map((name) => (
          <Button key={name} asChild>
            <a href={`${path}/documents/${name}`} download>
              <Download aria-hidden className="size-4" />
              {name}
            </a>
          </Button>
        ))}
        <Button onClick={() => window.print()}>
          <Printer aria-hidden className="size-4" />
          Print
        </Button>
      </div>
      {report.flags.map((flag) => (
        <Notice key={`${flag.kind} ${flag.move ?? ""}`} tone="doubt" title={flag.message} />
      ))}
      <ol className="grid gap-4 lg:grid-cols-3">
        {report.recommended_moves.map((placed) => (
          <li key={placed.move_id}>
            <Recommended placed={placed} scored={scored(placed.move_id)} suggested={suggested(placed.move_id)} onOpen={onOpen} />
          </li>
        ))}
      </ol>
      <Others placed={report.other_moves} scored={scored} onOpen={onOpen} />
      <p className="text-xs text-soft">Ties: {report.tie_rule}.</p>
    </div>
  );
}

interface One {
  placed: Placed;
  scored: Scored | undefined;
  suggested: Suggested | undefined;
  onOpen: (move: string) => void;
}

function Recommended({ placed, scored, suggested, onOpen }: One) {
  return (
    <Card className="flex h-full flex-col gap-3 break-inside-avoid">
      <div className="flex items-start gap-3">
        <span className="text-2xl font-semibold text-accent tabular-nums">{placed.rank}</span>
        <div className="min-w-0 flex-1">
          <h3 className="font-medium text-balance" dir="auto">
            {placed.title}
          </h3>
          <p className="text-xs text-soft">
            {placed.move_id}
            {suggested && <> · {suggested.persona}</>}
          </p>
        </div>
        <p className="text-right tabular-nums">
          <span className="text-lg font-semibold">{placed.total_score}</span>
          <span className="text-xs text-soft"> of {placed.out_of}</span>
        </p>
      </div>
      {suggested && (
        <p className="text-sm" dir="auto">
          {suggested.thesis}
        </p>
      )}
      {scored && <Bars scored={scored} />}
      {scored && <Objections scored={scored} />}
      {suggested && suggested.cited.length > 0 && (
        <p className="text-xs text-soft">
          Rests on {suggested.cited.map((one) => `${one.finding} (${one.title})`).join(", ")}
        </p>
      )}
      <Button className="mt-auto self-start print:hidden" onClick={() => onOpen(placed.move_id)}>
        Read the debate
      </Button>
    </Card>
  );
}

/** By metric, and within it by judge. */
function Bars({ scored }: { scored: Scored }) {
  const judges = Object.entries(scored.scores_by_agent);
  return (
    <table className="w-full text-xs">
      <caption className="sr-only">Scores by metric and judge</caption>
      <thead>
        <tr className="text-soft">
          <th scope="col" className="text-left font-normal">
            of 10 each
          </th>
          {judges.map(([id]) => (
            <th key={id} scope="col" className="px-1 text-right font-normal" title={scored.agents[id]}>
              {id}
            </th>
          ))}
          <th scope="col" className="w-2/5 text-right font-normal">
            together
          </th>
        </tr>
      </thead>
      <tbody>
        {METRICS.map(({ key, name }) => {
          const total = sum(scored, key);
          const most = judges.length * 10;
          return (
            <tr key={key}>
              <th scope="row" className="py-0.5 text-left font-normal">
                {name}
              </th>
              {judges.map(([id, card]) => (
                <td key={id} className="px-1 text-right tabular-nums">
                  {card[key] ?? "–"}
                </td>
              ))}
              <td className="pl-2">
                <span className="flex items-center gap-2">
                  <span aria-hidden className="h-2 flex-1 overflow-hidden rounded-full bg-sunken">
                    <span className="block h-full bg-accent" style={{ width: `${(total / most) * 100}%` }} />
                  </span>
                  <span className="w-5 text-right tabular-nums">{total}</span>
                </span>
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Objections({ scored }: { scored: Scored }) {
  const open = Object.entries(scored.scores_by_agent).filter(([, card]) => card.unanswered);
  if (open.length === 0) return null;
  return (
    <div>
      <Heading>Not answered</Heading>
      <ul className="mt-1 grid gap-1 text-xs text-soft">
        {open.map(([id, card]) => (
          <li key={id} dir="auto">
            <Badge className="mr-1">{id}</Badge>
            {card.unanswered}
          </li>
        ))}
      </ul>
    </div>
  );
}

const COLUMNS = [{ key: "rank", name: "Rank" }, { key: "total", name: "Score" }, ...METRICS] as const;
type Column = (typeof COLUMNS)[number]["key"];

function Others({ placed, scored, onOpen }: { placed: Placed[]; scored: (move: string) => Scored | undefined; onOpen: (move: string) => void }) {
  const [by, setBy] = useState<{ column: Column; down: boolean }>({ column: "rank", down: false });
  const value = (one: Placed, column: Column): number => {
    if (column === "rank") return one.rank;
    if (column === "total") return one.total_score;
    const own = scored(one.move_id);
    return own ? sum(own, column) : 0;
  };
  const rows = [...placed].sort((one, other) => (value(one, by.column) - value(other, by.column)) * (by.down ? -1 : 1));
  if (rows.length === 0) return null;
  return (
    <section aria-labelledby="others">
      <Heading id="others" className="mb-2">
        The other {placed.length}
      </Heading>
      <div className="overflow-x-auto rounded-lg border border-line bg-raised">
        <table className="w-full text-sm">
          <thead className="text-xs text-soft">
            <tr>
              <th scope="col" className="px-3 py-2 text-left font-normal">
                Move
              </th>
              {COLUMNS.map(({ key, name }) => (
                <th key={key} scope="col" aria-sort={by.column === key ? (by.down ? "descending" : "ascending") : "none"} className="px-3 py-2 text-right font-normal">
                  <button
                    type="button"
                    className={cn("cursor-pointer whitespace-nowrap hover:text-ink", by.column === key && "font-medium text-ink")}
                    onClick={() => setBy((before) => ({ column: key, down: before.column === key ? !before.down : key !== "rank" }))}
                  >
                    {name}
                    {by.column === key && (by.down ? " ↓" : " ↑")}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {rows.map((one) => (
              <tr key={one.move_id} className="hover:bg-sunken">
                <th scope="row" className="px-3 py-2 text-left font-normal">
                  <button type="button" className="cursor-pointer text-left underline-offset-2 hover:underline" onClick={() => onOpen(one.move_id)} dir="auto">
                    <span className="font-mono text-xs text-soft">{one.move_id}</span> {one.title}
                  </button>
                </th>
                {COLUMNS.map(({ key }) => (
                  <td key={key} className="px-3 py-2 text-right tabular-nums">
                    {value(one, key)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
