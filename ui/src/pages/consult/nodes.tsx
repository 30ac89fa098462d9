// React components for the nodes of the pipeline diagram: layers, agents, debates and the ranking.

import { Handle, Position, type NodeProps } from "@xyflow/react";
import { createContext, useContext } from "react";

import { debateProgress, layerProgress, CONVERSATION_IDS, moveIds, ranking, type Conversation, type Debate, type LayerId, type ConversationId } from "../../model/consult";
import { formatCount } from "../../model/format";
import { Badge, cn } from "../../parts/ui";
import { METRICS } from "../debate/Scores";
import { RoundStrip } from "../debate/RoundStrip";
import { Transcript } from "../debate/Transcript";
import { TONES, useConsultation } from "./consultation";
import { DEBATE_SIZE, RANK_ROW, type AgentNode, type DebateNode, type LayerNode, type Level } from "./layout";

/** Zoom level of the diagram, the layer or proposed move in view, and callbacks for the nodes. */
export interface CanvasView {
  level: Level;
  /** Id of the layer or proposed move in view; `null` for the whole diagram. */
  at: string | null;
  /** Whether the open transcript fills the view: then the mouse wheel scrolls the transcript instead of zooming. */
  transcriptFillsView: boolean;
  log: string | null;
  round: number | null;
  onOpenRound: (log: ConversationId, round: number | null) => void;
  onShow: (move: string) => void;
}

export const CanvasContext = createContext<CanvasView>({ level: "far", at: null, transcriptFillsView: false, log: null, round: null, onOpenRound: () => {}, onShow: () => {} });

function LayerBox({ data: { layer, name, about } }: NodeProps<LayerNode>) {
  const { state, rounds } = useConsultation();
  const far = useContext(CanvasContext).level === "far";
  const summaryOf = useLayerSummary();
  const progress = layer === "rank" ? (state.recommended.length > 0 ? "done" : "waiting") : state.layers[layer];
  const share = layer === "rank" ? (progress === "done" ? 1 : 0) : layerProgress(state, layer, rounds);
  return (
    <div className={cn("relative size-full rounded-2xl border-2 border-line bg-raised/60 transition-colors", progress === "running" && "border-accent")}>
      <Handle type="target" position={Position.Left} className="opacity-0!" isConnectable={false} />
      <Handle type="source" position={Position.Right} className="opacity-0!" isConnectable={false} />
      <div className={cn("absolute inset-x-0 top-0 px-9 py-2.5 transition-opacity", far && "opacity-0")}>
        <h2 className="text-2xl font-semibold">{name}</h2>
        <p className="truncate text-sm text-soft">{about}</p>
      </div>
      {/* Shown when zoomed out: name, progress and summary of the layer, with a constant text size on the screen. */}
      <div
        className={cn("absolute inset-0 flex flex-col justify-center gap-[0.2em] rounded-2xl bg-raised text-center text-[min(calc(14px/var(--zoom)),68px)] opacity-0 transition-opacity", far && "opacity-100")}
        aria-hidden={!far}
      >
        <span className="text-[1.3em] font-semibold whitespace-nowrap">{name}</span>
        <span className={cn("text-[1em]", progress === "running" ? "text-accent" : progress === "done" ? "text-good" : "text-soft")}>
          {progress === "running" ? `${Math.round(share * 100)} %` : progress}
        </span>
        <span className="truncate px-[0.5em] text-[0.85em] text-soft" dir="auto">
          {summaryOf(layer)}
        </span>
        {far && layer === "sandbox" && <DebateCells />}
      </div>
      <div className="absolute inset-x-9 bottom-3 h-1.5 overflow-hidden rounded-full bg-sunken">
        <div className="h-full bg-accent transition-[width] duration-300" style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  );
}

/** Grid with one cell per debate. A cell fills up as its debate progresses, and turns green when the move is scored. */
function DebateCells() {
  const { state, rounds } = useConsultation();
  return (
    <span aria-hidden className="mx-auto mt-[0.6em] grid w-3/5 grid-cols-5 gap-[0.4em]">
      {moveIds(state).map((move) => {
        const debate = state.debates[move];
        const scored = debate?.score != null;
        return (
          <span key={move} className="relative flex h-[2em] items-center justify-center overflow-hidden rounded-[0.3em] bg-sunken text-[0.8em]">
            <span className={cn("absolute inset-y-0 left-0 transition-[width] duration-300", scored ? "bg-good/25" : "bg-accent/30")} style={{ width: `${debateProgress(debate, rounds) * 100}%` }} />
            <span className="relative text-ink tabular-nums">{scored ? debate.score : move}</span>
          </span>
        );
      })}
    </span>
  );
}

/** Returns a function that describes the results of a layer in a few words, such as `5 documents`. */
function useLayerSummary(): (layer: LayerId | "rank") => string {
  const { state, titleOf } = useConsultation();
  return (layer) => {
    if (layer === "rank") {
      const [first] = ranking(state);
      return first === undefined ? "" : `1. ${titleOf(first) ?? first}`;
    }
    if (layer === "sandbox") {
      const all = moveIds(state);
      return all.length === 0 ? "" : `${all.filter((move) => state.debates[move]?.score != null).length} of ${formatCount(all.length, "move")} scored`;
    }
    const written = state.agents.filter((agent) => agent.layer === layer).flatMap((agent) => agent.output);
    return written.length === 0 ? "" : formatCount(written.length, layer === "2" ? "move" : "document");
  };
}

function AgentCard({ data }: NodeProps<AgentNode>) {
  const { state } = useConsultation();
  const agent = state.agents.find((one) => one.id === data.agent);
  const { level } = useContext(CanvasContext);
  if (!agent || level === "far") return null;
  return (
    <div className={cn("grid size-full animate-arrive content-center gap-1 rounded-xl border border-line bg-raised px-4 transition-colors", agent.progress === "running" && "border-accent")}>
      <p className="truncate text-lg font-medium" dir="auto">
        {agent.persona}
      </p>
      <p className="flex items-center gap-2 text-sm text-soft">
        <Badge tone={TONES[agent.progress]}>
          {agent.progress === "running" && <span aria-hidden className="size-1.5 animate-pulse rounded-full bg-current" />}
          {agent.progress}
        </Badge>
        <span className="truncate">{agent.output.join(", ")}</span>
      </p>
    </div>
  );
}

function DebateCard({ data: { move } }: NodeProps<DebateNode>) {
  const { state, rounds, titleOf, sourceOf, agents } = useConsultation();
  const { level, at, transcriptFillsView, log, round, onOpenRound } = useContext(CanvasContext);
  const debate = state.debates[move] ?? null;
  if (level === "far") return null;
  const answerExpected = debate !== null && debate.score === null && CONVERSATION_IDS.some((one) => debate.conversations[one].next);
  const head = (
    <p className="flex items-baseline gap-2">
      <span className="font-mono text-soft">{move}</span>
      <span className="flex-1 truncate font-medium" dir="auto">
        {titleOf(move) ?? (debate ? "debate running" : "debate not started")}
      </span>
      {debate?.score != null && <span className="animate-arrive text-xl font-semibold tabular-nums">{debate.score}</span>}
    </p>
  );
  const look = cn("rounded-xl border border-line bg-raised transition-colors", answerExpected && "border-accent");
  if (at === move && level === "near") {
    // Scale the transcript by the inverse of the zoom, so that its text has the usual size on the screen.
    return (
      <div
        className={cn(look, "flex origin-top-left flex-col overflow-hidden")}
        style={{ width: `calc(${DEBATE_SIZE.width}px * var(--zoom))`, height: `calc(${DEBATE_SIZE.height}px * var(--zoom))`, transform: "scale(calc(1 / var(--zoom)))" }}
      >
        <div className="px-4 pt-3">{head}</div>
        <Transcript source={sourceOf(move)} debate={debate} rounds={rounds} agents={agents} log={log} round={round} onOpenRound={onOpenRound} scrolls={transcriptFillsView} />
      </div>
    );
  }
  return (
    <div className={cn(look, "flex size-full animate-arrive flex-col gap-3 p-4")}>
      {head}
      <RoundStrip tall debate={debate} rounds={rounds} />
      {debate?.score != null ? <MetricBars debate={debate} /> : <p className="text-sm text-soft">{debate ? debateStatus(debate, rounds) : "debate not started"}</p>}
      {debate?.warnings.length ? (
        <p className="mt-auto truncate text-sm text-warning" dir="auto">
          {debate.warnings.at(-1)}
        </p>
      ) : null}
    </div>
  );
}

/** Describes the current round of a debate and the expected answers, such as `round 2 of 10, waiting for 1 judge`. */
function debateStatus(debate: Debate, rounds: number): string {
  const all = CONVERSATION_IDS.map((log) => debate.conversations[log]);
  const round = Math.max(1, ...all.map((one) => one.critic));
  const next = (role: Conversation["next"]) => all.filter((one) => one.next === role).length;
  const words = [next("critic") > 0 && "critic", next("judge") > 0 && formatCount(next("judge"), "judge"), next("scoring") > 0 && "scores"].filter(Boolean);
  return `round ${round} of ${rounds}${words.length > 0 ? `, waiting for ${words.join(", ")}` : ""}`;
}

/** One bar per metric: the sum of the scores of all judges, as a share of the maximum. */
function MetricBars({ debate }: { debate: Debate }) {
  const cards = Object.values(debate.breakdown);
  return (
    <div className="mt-auto grid animate-arrive grid-cols-4 gap-2">
      {METRICS.map(({ key, name, short }) => {
        const total = cards.reduce((sum, card) => sum + (Number(card[key]) || 0), 0);
        return (
          <div key={key} className="text-xs text-soft">
            <p className="truncate" title={name}>
              {short}
            </p>
            <div className="mt-0.5 h-1.5 overflow-hidden rounded-full bg-sunken">
              <div className="h-full bg-accent" style={{ width: `${(total / Math.max(cards.length * 10, 1)) * 100}%` }} />
            </div>
          </div>
        );
      })}
    </div>
  );
}

function RankCard() {
  const { state, titleOf } = useConsultation();
  const { level, onShow } = useContext(CanvasContext);
  if (level === "far") return null;
  const order = ranking(state);
  const final = state.recommended.length > 0;
  if (order.length === 0) return <p className="text-sm text-soft">Moves appear here in the order of their scores.</p>;
  return (
    <>
      <p className="mb-2 text-sm text-soft">{final ? "Final ranking" : "Ranking so far"}</p>
      <ol className="relative w-full text-sm">
        {/* The order of the elements stays fixed, so that a row with a new rank slides to its new position. */}
        {[...order].sort().map((move) => {
          const index = order.indexOf(move);
          return (
            <li key={move} className="absolute inset-x-0 animate-arrive transition-transform duration-500" style={{ transform: `translateY(${index * RANK_ROW}px)` }}>
              <button
                type="button"
                onClick={() => onShow(move)}
                className={cn("nodrag nopan flex w-full cursor-pointer gap-2 rounded-lg border border-line bg-raised px-3 py-2 text-left", index < 3 && "border-accent")}
              >
                <span className="w-5 text-soft tabular-nums">{index + 1}</span>
                <span className="flex-1 truncate" dir="auto">
                  {titleOf(move) ?? move}
                </span>
                <span className="tabular-nums">{state.debates[move]?.score}</span>
              </button>
            </li>
          );
        })}
      </ol>
    </>
  );
}

export const CARDS = { layer: LayerBox, agent: AgentCard, debate: DebateCard, rank: RankCard };
