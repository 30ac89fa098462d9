// What a consultation came to: the three that are recommended, and the others.

import { Download, Printer } from "lucide-react";
import { useState } from "react";

import { at, isUnderWay } from "../../model/api";
import type { ConsultReport, RankedMove } from "../../model/schema";
import { Button, Card, cn, Empty, Heading, Notice } from "../../parts/ui";
import { Bars, METRICS, sum, Words, type Scored } from "../debate/Scores";
import { useConsultation } from "./consultation";

interface Props {
  onOpen: (move: string) => void;
  onDocument: (name: string) => void;
}

export function Results({ onOpen, onDocument }: Props) {
  const { run, came, agents } = useConsultation();
  if (!came) {
    return (
      <Empty title={isUnderWay(run.status) ? "It is still being debated" : "It has not come to its end"}>
        The recommendations are here once every move was scored.
      </Empty>
    );
  }
  const scored = (move: string) => came.policy_scores.find((one) => one.move_id === move);
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap gap-2 print:hidden">
        {["report.md", "report.html", "report.json"].map((name) => (
          <Button key={name} asChild>
            <a href={at("/api/runs/{id}/documents/{document}", { id: run.id, document: name })} download>
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
      <ToKnow came={came} />
      <section aria-labelledby="recommended" className="grid gap-2">
        <div className="flex flex-wrap items-baseline gap-x-4">
          <Heading id="recommended">Recommended</Heading>
          <p className="text-xs text-soft">
            Judges:{" "}
            {Object.entries(agents)
              .map(([id, name]) => `${id} ${name}`)
              .join(", ")}
          </p>
        </div>
        <ol className="grid gap-4 lg:grid-cols-3 print:block">
          {came.recommended_moves.map((placed) => (
            <li key={placed.move_id} className="break-inside-avoid print:mb-3">
              <Recommended placed={placed} came={came} onOpen={onOpen} onDocument={onDocument} />
            </li>
          ))}
        </ol>
      </section>
      <All came={came} scored={scored} />
      <Others placed={came.other_moves} scored={scored} onOpen={onOpen} />
      {!came.flags.some((flag) => flag.kind === "tie") && <p className="text-xs text-soft">Ties: {came.tie_rule}.</p>}
    </div>
  );
}

/** What must be known before anything of it is believed. */
function ToKnow({ came }: { came: ConsultReport }) {
  // What is about one move stands with it, where it is shown at length.
  const shown = new Set(came.recommended_moves.map((placed) => placed.move_id));
  const flags = came.flags.filter((flag) => flag.move_id == null || !shown.has(flag.move_id));
  if (flags.length === 0) return null;
  return (
    <Notice tone="doubt" title={flags.length === 1 ? "One thing to know" : `${flags.length} things to know`}>
      <ul className="list-disc pl-5">
        {flags.map((flag) => (
          <li key={`${flag.kind} ${flag.move_id ?? ""} ${flag.message}`} dir="auto">
            {flag.move_id && <span className="font-mono">{flag.move_id} </span>}
            {flag.message}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

function Recommended({ placed, came, onOpen, onDocument }: Props & { placed: RankedMove; came: ConsultReport }) {
  const id = placed.move_id;
  const scored = came.policy_scores.find((one) => one.move_id === id);
  const suggested = came.move_suggestions.find((one) => one.move_id === id);
  const flags = came.flags.filter((flag) => flag.move_id === id);
  const cited = suggested?.cited ?? [];
  return (
    <Card className="flex h-full flex-col gap-3 print:h-auto print:gap-1 print:p-3 print:text-xs">
      <div className="flex items-start gap-3">
        <span className="text-2xl font-semibold text-accent tabular-nums">{placed.rank}</span>
        <div className="flex-1">
          <h3 className="font-medium text-balance" dir="auto">
            {placed.title}
          </h3>
          <p className="text-xs text-soft">
            {id}
            {suggested && <> · {suggested.persona}</>}
          </p>
        </div>
        <p className="shrink-0 text-right tabular-nums">
          <span className="text-lg font-semibold">{placed.total_score}</span>
          <span className="text-xs text-soft"> of {placed.out_of}</span>
        </p>
      </div>
      {flags.map((flag) => (
        <p key={flag.message} className="border-l-2 border-doubt pl-2 text-xs text-doubt" dir="auto">
          {flag.message}
        </p>
      ))}
      {suggested && (
        <p className="text-sm" dir="auto">
          {suggested.thesis}
        </p>
      )}
      {scored && <Bars scored={scored} />}
      {scored && <Words scored={scored} of="reasoning" title="Why" />}
      {scored && <Words scored={scored} of="unanswered" title="Not answered" />}
      {cited.length > 0 && (
        <p className="text-xs text-soft" dir="auto">
          Rests on{" "}
          {cited.map((one, index) => (
            <span key={one.finding}>
              {index > 0 && ", "}
              <button type="button" className="cursor-pointer text-accent underline" onClick={() => onDocument(`${one.finding.split(".")[0]}.md`)}>
                {one.finding}
              </button>{" "}
              ({one.title})
            </span>
          ))}
        </p>
      )}
      <Button className="mt-auto self-start print:hidden" onClick={() => onOpen(id)}>
        Read the debate
      </Button>
    </Card>
  );
}

/** How the metrics are told apart. */
const SHADES = ["bg-accent", "bg-accent/75", "bg-accent/50", "bg-accent/30"] as const;

/** All moves beside each other, each as the sum of its metrics. */
function All({ came, scored }: { came: ConsultReport; scored: (move: string) => Scored | undefined }) {
  const placed = [...came.recommended_moves, ...came.other_moves];
  const most = placed[0]?.out_of ?? 120;
  return (
    <section aria-labelledby="all" className="break-inside-avoid">
      <div className="mb-2 flex flex-wrap items-baseline gap-x-4 gap-y-1">
        <Heading id="all">All {placed.length}, by metric</Heading>
        <ul aria-hidden className="flex flex-wrap gap-3 text-xs text-soft">
          {METRICS.map(({ key, name }, index) => (
            <li key={key} className="flex items-center gap-1.5">
              <span className={cn("size-2.5 rounded-xs", SHADES[index])} />
              {name}
            </li>
          ))}
        </ul>
      </div>
      <ol className="grid gap-1 rounded-lg border border-line bg-raised p-3">
        {placed.map((one) => {
          const own = scored(one.move_id);
          const words = own ? METRICS.map(({ key, name }) => `${name} ${sum(own, key)}`).join(", ") : "not scored";
          return (
            <li key={one.move_id} className="flex items-center gap-2 text-xs">
              <span className="w-8 shrink-0 font-mono text-soft">{one.move_id}</span>
              <span className="w-28 shrink-0 truncate sm:w-56" dir="auto">
                {one.title}
              </span>
              <span role="img" aria-label={`${one.title}: ${words}, ${one.total_score} of ${most}`} title={words} className="flex h-3 flex-1 overflow-hidden rounded-xs bg-sunken">
                {own && METRICS.map(({ key }, index) => <span key={key} className={cn("border-r border-raised", SHADES[index])} style={{ width: `${(sum(own, key) / most) * 100}%` }} />)}
              </span>
              <span className="w-7 shrink-0 text-right tabular-nums">{one.total_score}</span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

const COLUMNS = [{ key: "rank", name: "Rank" }, { key: "total", name: "Score" }, ...METRICS] as const;
type Column = (typeof COLUMNS)[number]["key"];

function Others({ placed, scored, onOpen }: { placed: RankedMove[]; scored: (move: string) => Scored | undefined; onOpen: (move: string) => void }) {
  const [by, setBy] = useState<{ column: Column; down: boolean }>({ column: "rank", down: false });
  const value = (one: RankedMove, column: Column): number => {
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
        <table className="w-full text-sm print:text-xs">
          <thead className="text-xs text-soft">
            <tr>
              <th scope="col" className="px-3 py-2 text-left font-normal print:w-2/5">
                Move
              </th>
              {COLUMNS.map(({ key, name }) => (
                <th key={key} scope="col" title={name} aria-sort={by.column === key ? (by.down ? "descending" : "ascending") : "none"} className="px-3 py-2 text-right font-normal">
                  <button
                    type="button"
                    className={cn("cursor-pointer whitespace-nowrap hover:text-ink print:whitespace-normal", by.column === key && "font-medium text-ink")}
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
              <tr key={one.move_id} className="break-inside-avoid hover:bg-sunken">
                <th scope="row" className="px-3 py-2 text-left font-normal print:py-1">
                  <button type="button" className="cursor-pointer text-left underline-offset-2 hover:underline" onClick={() => onOpen(one.move_id)} dir="auto">
                    <span className="font-mono text-xs text-soft">{one.move_id}</span> {one.title}
                  </button>
                </th>
                {COLUMNS.map(({ key }) => (
                  <td key={key} className="px-3 py-2 text-right tabular-nums print:py-1">
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
