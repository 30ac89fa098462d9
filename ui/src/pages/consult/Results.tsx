// Results of a consultation: the three recommended moves, a chart of all moves, and a table of the other moves.

import { Download, Printer } from "lucide-react";
import { useState } from "react";

import { apiUrl, isActive } from "../../model/api";
import { formatCount } from "../../model/format";
import type { ConsultReport, RankedMove } from "../../model/schema";
import { Button, Card, cn, EmptyState, Heading, InlineCode, Notice } from "../../parts/ui";
import { JudgeTexts, METRICS, metricTotal, ScoreTable, type ScoredDebate } from "../debate/Scores";
import { useConsultation } from "./consultation";

interface Props {
  onOpen: (move: string) => void;
  onDocument: (name: string) => void;
}

export function Results({ onOpen, onDocument }: Props) {
  const { run, report, agents } = useConsultation();
  if (!report) {
    return (
      <EmptyState title={isActive(run.status) ? "No results yet" : "The consultation did not finish"}>
        {isActive(run.status) ? "Recommendations appear here when the judges have scored every move." : "Resume the run to get its recommendations."}
      </EmptyState>
    );
  }
  const scored = (move: string) => report.policy_scores.find((one) => one.move_id === move);
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap gap-2 print:hidden">
        {["report.md", "report.html", "report.json"].map((name) => (
          <Button key={name} asChild>
            <a href={apiUrl("/api/runs/{id}/documents/{document}", { id: run.id, document: name })} download>
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
      <Notes report={report} />
      <section aria-labelledby="recommended" className="grid gap-2">
        <div className="flex flex-wrap items-baseline gap-x-4">
          <Heading id="recommended">Recommended moves</Heading>
          <p className="text-xs text-soft">
            Judges:{" "}
            {Object.entries(agents)
              .map(([id, name]) => `${id} ${name}`)
              .join(", ")}
          </p>
        </div>
        <ol className="grid gap-4 lg:grid-cols-3 print:block">
          {report.recommended_moves.map((ranked) => (
            <li key={ranked.move_id} className="break-inside-avoid print:mb-3">
              <Recommended ranked={ranked} report={report} onOpen={onOpen} onDocument={onDocument} />
            </li>
          ))}
        </ol>
      </section>
      <ScoreChart report={report} scored={scored} />
      <OtherMovesTable moves={report.other_moves} scored={scored} onOpen={onOpen} />
      {!report.flags.some((flag) => flag.kind === "tie") && <p className="text-xs text-soft">Order of moves with the same total score: {report.tie_rule}.</p>}
    </div>
  );
}

/** Notice with the flags (caveats) of the whole report, and of the moves that are not recommended. */
function Notes({ report }: { report: ConsultReport }) {
  // The flags of a recommended move are shown in the card of that move instead.
  const shown = new Set(report.recommended_moves.map((ranked) => ranked.move_id));
  const flags = report.flags.filter((flag) => flag.move_id == null || !shown.has(flag.move_id));
  if (flags.length === 0) return null;
  return (
    <Notice tone="warning" title={`${formatCount(flags.length, "note")} on these results`}>
      <ul className="list-disc pl-5">
        {flags.map((flag) => (
          <li key={`${flag.kind} ${flag.move_id ?? ""} ${flag.message}`} dir="auto">
            {flag.move_id && <span className="font-mono">{flag.move_id} </span>}
            <InlineCode text={flag.message} />
          </li>
        ))}
      </ul>
    </Notice>
  );
}

function Recommended({ ranked, report, onOpen, onDocument }: Props & { ranked: RankedMove; report: ConsultReport }) {
  const id = ranked.move_id;
  const scored = report.policy_scores.find((one) => one.move_id === id);
  const suggested = report.move_suggestions.find((one) => one.move_id === id);
  const flags = report.flags.filter((flag) => flag.move_id === id);
  const cited = suggested?.cited ?? [];
  return (
    <Card className="flex h-full flex-col gap-3 print:h-auto print:gap-1 print:p-3 print:text-xs">
      <div className="flex items-start gap-3">
        <span className="text-2xl font-semibold text-accent tabular-nums">{ranked.rank}</span>
        <div className="flex-1">
          <h3 className="font-medium text-balance" dir="auto">
            {ranked.title}
          </h3>
          <p className="text-xs text-soft">
            {id}
            {suggested && <> · {suggested.persona}</>}
          </p>
        </div>
        <p className="shrink-0 text-right tabular-nums">
          <span className="text-lg font-semibold">{ranked.total_score}</span>
          <span className="text-xs text-soft"> of {ranked.out_of} points</span>
        </p>
      </div>
      {flags.map((flag) => (
        <p key={flag.message} className="border-l-2 border-warning pl-2 text-xs text-warning" dir="auto">
          <InlineCode text={flag.message} />
        </p>
      ))}
      {suggested && (
        <p className="text-sm" dir="auto">
          {suggested.thesis}
        </p>
      )}
      {scored && <ScoreTable scored={scored} />}
      {scored && <JudgeTexts scored={scored} of="reasoning" title="Reasoning" />}
      {scored && <JudgeTexts scored={scored} of="unanswered" title="Unanswered objections" />}
      {cited.length > 0 && (
        <p className="text-xs text-soft" dir="auto">
          Based on {cited.length === 1 ? "finding" : "findings"}{" "}
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

/** Tailwind background colours of the four metrics in the chart. */
const SHADES = ["bg-accent", "bg-accent/75", "bg-accent/50", "bg-accent/30"] as const;

/** Chart of the scores of all moves. Each move has one bar, which is divided by metric. */
function ScoreChart({ report, scored }: { report: ConsultReport; scored: (move: string) => ScoredDebate | undefined }) {
  const moves = [...report.recommended_moves, ...report.other_moves];
  const max = moves[0]?.out_of ?? 120;
  return (
    <section aria-labelledby="all" className="break-inside-avoid">
      <div className="mb-2 flex flex-wrap items-baseline gap-x-4 gap-y-1">
        <Heading id="all">Scores of all moves by metric ({moves.length})</Heading>
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
        {moves.map((one) => {
          const own = scored(one.move_id);
          const text = own ? METRICS.map(({ key, name }) => `${name} ${metricTotal(own, key)}`).join(", ") : "not scored";
          return (
            <li key={one.move_id} className="flex flex-wrap items-center gap-x-2 text-xs">
              <span className="flex w-full gap-2 sm:w-66">
                <span className="w-8 shrink-0 font-mono text-soft">{one.move_id}</span>
                <span className="flex-1 truncate max-sm:whitespace-normal" title={one.title} dir="auto">
                  {one.title}
                </span>
              </span>
              <span role="img" aria-label={`${one.title}: ${text}, total ${one.total_score} of ${max}`} title={text} className="flex h-3 flex-1 overflow-hidden rounded-xs bg-sunken">
                {own && METRICS.map(({ key }, index) => <span key={key} className={cn("border-r border-raised", SHADES[index])} style={{ width: `${(metricTotal(own, key) / max) * 100}%` }} />)}
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

function OtherMovesTable({ moves, scored, onOpen }: { moves: RankedMove[]; scored: (move: string) => ScoredDebate | undefined; onOpen: (move: string) => void }) {
  const [by, setBy] = useState<{ column: Column; down: boolean }>({ column: "rank", down: false });
  const value = (one: RankedMove, column: Column): number => {
    if (column === "rank") return one.rank;
    if (column === "total") return one.total_score;
    const own = scored(one.move_id);
    return own ? metricTotal(own, column) : 0;
  };
  const rows = [...moves].sort((one, other) => (value(one, by.column) - value(other, by.column)) * (by.down ? -1 : 1));
  if (rows.length === 0) return null;
  return (
    <section aria-labelledby="others">
      <Heading id="others" className="mb-2">
        Other moves ({moves.length})
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
