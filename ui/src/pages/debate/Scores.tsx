// Scores of the judges of a debate, their reasons, and the objections that they consider unanswered.

import type { DebateVerdict } from "../../model/schema";
import { Badge, Heading } from "../../parts/ui";

/** Fields of a debate verdict that the score components show. */
export type ScoredDebate = Pick<DebateVerdict, "scores_by_agent" | "agents">;

/** Metrics that each judge scores. `short` is the label where space is narrow. */
export const METRICS = [
  { key: "impact", name: "Impact", short: "Impact" },
  { key: "feasibility", name: "Feasibility", short: "Feasibility" },
  { key: "risk_adjusted_return", name: "Risk-adjusted return", short: "Return" },
  { key: "strategic_alignment", name: "Strategic alignment", short: "Alignment" },
] as const;

/** Returns the sum of the scores of all judges for a metric. */
export function metricTotal(scored: ScoredDebate, metric: (typeof METRICS)[number]["key"]): number {
  return Object.values(scored.scores_by_agent).reduce((total, card) => total + card[metric], 0);
}

/** Table of the scores by metric and judge. A bar shows the total of each metric. */
export function ScoreTable({ scored }: { scored: ScoredDebate }) {
  const judges = Object.entries(scored.scores_by_agent);
  return (
    <table className="w-full text-xs">
      <caption className="sr-only">Scores by metric and judge</caption>
      <thead>
        <tr className="text-soft">
          <th scope="col" className="text-left font-normal">
            Scores out of 10
          </th>
          {judges.map(([id, card]) => (
            <th key={id} scope="col" className="px-1 text-right font-normal" title={card.failed == null ? scored.agents[id] : `The call of judge ${id} failed, so a neutral 5 counts for each metric: ${card.failed}`}>
              {id}
              {card.failed != null && <span className="text-warning"> failed: neutral scores</span>}
            </th>
          ))}
          <th scope="col" className="w-2/5 text-right font-normal">
            total
          </th>
        </tr>
      </thead>
      <tbody>
        {METRICS.map(({ key, name }) => {
          const total = metricTotal(scored, key);
          const max = judges.length * 10;
          return (
            <tr key={key}>
              <th scope="row" className="py-0.5 text-left font-normal">
                {name}
              </th>
              {judges.map(([id, card]) => (
                <td key={id} className="px-1 text-right tabular-nums">
                  {card[key]}
                </td>
              ))}
              <td className="pl-2">
                <span className="flex items-center gap-2">
                  <span aria-hidden className="h-2 flex-1 overflow-hidden rounded-full bg-sunken">
                    <span className="block h-full bg-accent" style={{ width: `${(total / max) * 100}%` }} />
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

/** List with one text of each judge: the reasoning, or the objections that the judge considers unanswered. */
export function JudgeTexts({ scored, of, title }: { scored: ScoredDebate; of: "reasoning" | "unanswered"; title: string }) {
  const texts = Object.entries(scored.scores_by_agent).filter(([, card]) => card[of]);
  if (texts.length === 0) return null;
  return (
    <div>
      <Heading>{title}</Heading>
      <ul className="mt-1 grid gap-1 text-xs text-soft">
        {texts.map(([id, card]) => (
          <li key={id} dir="auto">
            <Badge className="mr-1" title={scored.agents[id]}>
              {id}
            </Badge>
            {card[of]}
          </li>
        ))}
      </ul>
    </div>
  );
}
