// Pipeline of a consultation as a list, with the same content as the diagram.

import * as m from "motion/react-m";

import { layerProgress, LAYERS, moveIds, ranking } from "../../model/consult";
import { Badge, Card, EmptyState, ProgressBar } from "../../parts/ui";
import { RoundStrip } from "../debate/RoundStrip";
import { TONES, useConsultation } from "./consultation";

interface Props {
  onOpen: (move: string) => void;
  onDocument: (name: string) => void;
}

export function ProgressList({ onOpen, onDocument }: Props) {
  const { state, rounds, titleOf } = useConsultation();
  return (
    <ol className="grid gap-4">
      {LAYERS.map(({ id, name, about }) => (
        <li key={id}>
          <Card>
            <div className="mb-2 flex flex-wrap items-center gap-2">
              <h2 className="font-medium">{name}</h2>
              <Badge tone={TONES[state.layers[id]]}>{state.layers[id]}</Badge>
              <span className="text-sm text-soft">{about}</span>
            </div>
            <ProgressBar value={layerProgress(state, id, rounds)} label={`${name}: progress`} />
            <ul className="mt-3 grid gap-2 text-sm empty:hidden sm:grid-cols-2 lg:grid-cols-3">
              {state.agents
                .filter((agent) => agent.layer === id)
                .map((agent) => (
                  <li key={agent.id} className="flex flex-wrap items-center gap-2">
                    <Badge tone={TONES[agent.progress]}>{agent.progress}</Badge>
                    <span className="truncate" dir="auto">
                      {agent.persona}
                    </span>
                    {agent.output.map((document) => (
                      <button key={document} type="button" className="cursor-pointer text-xs text-accent underline" onClick={() => onDocument(document)}>
                        {document}
                      </button>
                    ))}
                  </li>
                ))}
            </ul>
            {id === "sandbox" && (
              <ul className="mt-3 grid gap-3 empty:hidden md:grid-cols-2 xl:grid-cols-3">
                {moveIds(state).map((move) => {
                  const debate = state.debates[move] ?? null;
                  return (
                    <li key={move}>
                      <button
                        type="button"
                        onClick={() => onOpen(move)}
                        className="grid w-full cursor-pointer grid-cols-1 gap-2 rounded-md border border-line p-3 text-left hover:bg-sunken"
                      >
                        <span className="flex items-baseline gap-2 text-sm">
                          <span className="font-mono text-xs text-soft">{move}</span>
                          <span className="flex-1 truncate font-medium" dir="auto">
                            {titleOf(move) ?? "Read the debate"}
                          </span>
                          {debate?.score != null && <span className="tabular-nums">{debate.score}</span>}
                        </span>
                        <RoundStrip debate={debate} rounds={rounds} />
                        {debate?.warnings.map((warning) => (
                          <span key={warning} className="text-xs text-warning" dir="auto">
                            {warning}
                          </span>
                        ))}
                      </button>
                    </li>
                  );
                })}
              </ul>
            )}
          </Card>
        </li>
      ))}
      <li>
        <Card>
          <h2 className="mb-2 font-medium">{state.recommended.length > 0 ? "Ranking" : "Ranking so far"}</h2>
          {ranking(state).length === 0 && <p className="text-sm text-soft">Moves appear here in the order of their scores.</p>}
          <ol className="grid gap-1 text-sm empty:hidden">
            {ranking(state).map((move, index) => (
              <m.li key={move} layout="position" className="flex gap-3">
                <span className="w-6 shrink-0 text-right text-soft tabular-nums">{index + 1}</span>
                <span className="flex-1 truncate" dir="auto">
                  {titleOf(move) ?? move}
                </span>
                <span className="tabular-nums">{state.debates[move]?.score}</span>
              </m.li>
            ))}
          </ol>
        </Card>
      </li>
      {state.agents.length === 0 && state.layers["0"] === "waiting" && (
        <li>
          <EmptyState title="The consultation has just started">The progress of its agents and debates appears here.</EmptyState>
        </li>
      )}
    </ol>
  );
}
