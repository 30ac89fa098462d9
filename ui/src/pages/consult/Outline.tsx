// The pipeline as a list: the same as the drawing, for those who would rather read.

import { LAYERS, moves, share, type Consult, type Progress } from "../../model/consult";
import type { Run } from "../../model/api";
import { Badge, Card, Empty, Meter, type Tone } from "../../parts/ui";
import { report } from "./report";
import { Strip } from "./Strip";

const TONES: Record<Progress, Tone> = { waiting: "plain", running: "accent", done: "good", failed: "bad" };

export function Outline({ run, state, rounds, onOpen }: { run: Run; state: Consult; rounds: number; onOpen: (move: string) => void }) {
  const came = report(run.result);
  const title = (move: string) => came?.move_suggestions.find((one) => one.move_id === move)?.title;
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
            <Meter value={share(state, id, rounds)} label={`${name}: how far it is`} />
            <ul className="mt-3 grid gap-2 text-sm sm:grid-cols-2 lg:grid-cols-3">
              {state.agents
                .filter((agent) => agent.layer === id)
                .map((agent) => (
                  <li key={agent.id} className="flex items-center gap-2">
                    <Badge tone={TONES[agent.progress]}>{agent.progress}</Badge>
                    <span className="truncate" dir="auto">
                      {agent.persona}
                    </span>
                    <span className="truncate text-xs text-soft">{agent.output.join(", ")}</span>
                  </li>
                ))}
            </ul>
            {id === "sandbox" && (
              <ul className="mt-3 grid gap-3 md:grid-cols-2 xl:grid-cols-3">
                {moves(state).map((move) => {
                  const debate = state.debates[move] ?? null;
                  return (
                    <li key={move}>
                      <button
                        type="button"
                        onClick={() => onOpen(move)}
                        className="grid w-full cursor-pointer gap-2 rounded-md border border-line p-3 text-left hover:bg-sunken"
                      >
                        <span className="flex items-baseline gap-2 text-sm">
                          <span className="font-mono text-xs text-soft">{move}</span>
                          <span className="min-w-0 flex-1 truncate font-medium" dir="auto">
                            {title(move) ?? "Read the debate"}
                          </span>
                          {debate?.score != null && <span className="tabular-nums">{debate.score}</span>}
                        </span>
                        <Strip debate={debate} rounds={rounds} />
                      </button>
                    </li>
                  );
                })}
              </ul>
            )}
          </Card>
        </li>
      ))}
      {state.agents.length === 0 && state.layers["0"] === "waiting" && (
        <Empty title="It has just begun">What happens is shown as it does.</Empty>
      )}
    </ol>
  );
}
