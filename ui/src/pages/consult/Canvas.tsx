// The pipeline, drawn: layers from afar, agents and debates from nearer, what was said from near.

import { Background, BackgroundVariant, Handle, MiniMap, Panel, Position, ReactFlow, ReactFlowProvider, useReactFlow, useStore, type Edge, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { Crosshair, Maximize, Minus, Plus } from "lucide-react";
import { createContext, useCallback, useContext, useEffect, useMemo, useRef, useState } from "react";

import type { Run } from "../../model/api";
import { LAYERS, LOGS, moves, share, type Consult, type LayerId } from "../../model/consult";
import { Badge, Button, cn } from "../../parts/ui";
import { report } from "./report";
import { Strip } from "./Strip";

/** From how near agents and debates are shown, and from how near what they say. */
const MIDDLE = 0.34;
const NEAR = 1.15;

type Level = "far" | "middle" | "near";

const level = (zoom: number): Level => (zoom < MIDDLE ? "far" : zoom < NEAR ? "middle" : "near");

/** Sizes, in the units of the drawing. */
const CARD = { width: 260, height: 96 };
const DEBATE = { width: 360, height: 168 };
const GAP = 36;
const HEAD = 72;

interface Shared {
  state: Consult;
  run: Run;
  rounds: number;
  level: Level;
  zoom: number;
  open: (move: string) => void;
}

const Drawn = createContext<Shared | null>(null);

function useDrawn(): Shared {
  const shared = useContext(Drawn);
  if (!shared) throw new Error("drawn outside of the canvas");
  return shared;
}

type LayerNode = Node<{ layer: LayerId | "rank"; name: string; about: string }, "layer">;
type AgentNode = Node<{ agent: string }, "agent">;
type DebateNode = Node<{ move: string }, "debate">;
type RankNode = Node<Record<string, never>, "rank">;

/** Where everything is: by what there is, and not by how far it is. */
function layout(state: Consult): { nodes: Node[]; edges: Edge[] } {
  const all = moves(state);
  const columns = Math.max(1, Math.min(3, Math.ceil(all.length / 5)));
  const rows = Math.max(5, Math.ceil(all.length / columns));
  const height = HEAD + rows * (DEBATE.height + GAP) + GAP;
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  let x = 0;
  const column = (id: LayerId | "rank", name: string, about: string, width: number): string => {
    const own = `layer-${id}`;
    nodes.push({
      id: own,
      type: "layer",
      position: { x, y: 0 },
      data: { layer: id, name, about },
      style: { width, height },
      selectable: false,
      focusable: false,
      zIndex: 0,
    } satisfies LayerNode);
    const before = nodes.findLast((node) => node.type === "layer" && node.id !== own);
    if (before) edges.push({ id: `${before.id}-${own}`, source: before.id, target: own, animated: id !== "rank" && state.layers[id] === "running" });
    x += width + 2 * GAP;
    return own;
  };
  for (const { id, name, about } of LAYERS) {
    const debates = id === "sandbox";
    const width = debates ? columns * (DEBATE.width + GAP) + GAP : CARD.width + 2 * GAP;
    const parent = column(id, name, about, width);
    if (debates) {
      all.forEach((move, index) => {
        const position = { x: GAP + (index % columns) * (DEBATE.width + GAP), y: HEAD + Math.floor(index / columns) * (DEBATE.height + GAP) };
        nodes.push({ id: move, type: "debate", parentId: parent, position, data: { move }, style: DEBATE, zIndex: 1 } satisfies DebateNode);
      });
      continue;
    }
    const own = state.agents.filter((agent) => agent.layer === id);
    const step = (height - HEAD) / Math.max(own.length, 1);
    own.forEach((agent, index) => {
      const position = { x: GAP, y: HEAD + step * index + (step - CARD.height) / 2 };
      nodes.push({ id: agent.id, type: "agent", parentId: parent, position, data: { agent: agent.id }, style: CARD, zIndex: 1 } satisfies AgentNode);
    });
  }
  const parent = column("rank", "Rank", "what is recommended", CARD.width + 2 * GAP);
  nodes.push({ id: "rank", type: "rank", parentId: parent, position: { x: GAP, y: HEAD }, data: {}, style: { width: CARD.width, height: height - HEAD - GAP }, zIndex: 1, focusable: false } satisfies RankNode);
  return { nodes, edges };
}

function LayerBox({ data }: NodeProps<LayerNode>) {
  const { state, rounds, level: now, zoom } = useDrawn();
  const { layer, name, about } = data;
  const progress = layer === "rank" ? (state.recommended.length > 0 ? "done" : "waiting") : state.layers[layer];
  const part = layer === "rank" ? (progress === "done" ? 1 : 0) : share(state, layer, rounds);
  const far = now === "far";
  return (
    <div className={cn("relative size-full rounded-2xl border-2 border-line bg-raised/60", progress === "running" && "border-accent")}>
      <Handle type="target" position={Position.Left} className="opacity-0!" isConnectable={false} />
      <Handle type="source" position={Position.Right} className="opacity-0!" isConnectable={false} />
      <div className={cn("absolute inset-x-0 top-0 flex items-center gap-3 px-9 py-5 transition-opacity", far && "opacity-0")}>
        <h3 className="text-xl font-semibold">{name}</h3>
        <span className="truncate text-sm text-soft">{about}</span>
      </div>
      <div className={cn("absolute inset-0 grid place-content-center gap-[0.6em] rounded-2xl bg-raised text-center opacity-0 transition-opacity", far && "opacity-100")} style={{ fontSize: `${14 / zoom}px` }} aria-hidden={!far}>
        <span className="font-semibold">{name}</span>
        <span className={cn("text-[0.8em]", progress === "running" ? "text-accent" : progress === "done" ? "text-good" : "text-soft")}>
          {progress === "running" ? `${Math.round(part * 100)} %` : progress}
        </span>
      </div>
      <div className="absolute inset-x-9 bottom-3 h-1.5 overflow-hidden rounded-full bg-sunken">
        <div className="h-full bg-accent transition-[width] duration-300" style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}

function AgentCard({ data }: NodeProps<AgentNode>) {
  const { state, level: now } = useDrawn();
  const agent = state.agents.find((one) => one.id === data.agent);
  if (!agent || now === "far") return null;
  return (
    <div className={cn("grid size-full content-center gap-1 rounded-xl border border-line bg-raised px-4", agent.progress === "running" && "border-accent")}>
      <p className="truncate font-medium" dir="auto">
        {agent.persona}
      </p>
      <p className="flex items-center gap-2 text-xs text-soft">
        <Badge tone={agent.progress === "done" ? "good" : "accent"}>{agent.progress}</Badge>
        <span className="truncate">{agent.output.join(", ")}</span>
      </p>
    </div>
  );
}

function DebateCard({ data }: NodeProps<DebateNode>) {
  const { state, run, rounds, level: now, open } = useDrawn();
  const debate = state.debates[data.move] ?? null;
  const came = report(run.result);
  const title = came?.move_suggestions.find((one) => one.move_id === data.move)?.title;
  if (now === "far") return null;
  const speaking = debate && LOGS.some((log) => debate.conversations[log].next);
  return (
    <div className={cn("flex size-full flex-col gap-2 rounded-xl border border-line bg-raised p-4", speaking && debate.score === null && "border-accent")}>
      <p className="flex items-baseline gap-2">
        <span className="font-mono text-xs text-soft">{data.move}</span>
        <span className="min-w-0 flex-1 truncate text-sm font-medium" dir="auto">
          {title ?? (debate ? "being debated" : "waiting")}
        </span>
        {debate?.score != null && <span className="text-lg font-semibold tabular-nums">{debate.score}</span>}
      </p>
      <Strip debate={debate} rounds={rounds} />
      {debate?.warnings.length ? <p className="truncate text-xs text-doubt">{debate.warnings.at(-1)}</p> : null}
      {now === "near" && (
        <button type="button" className="nodrag nopan mt-auto cursor-pointer self-start text-xs text-accent underline" onClick={() => open(data.move)}>
          Read what is said
        </button>
      )}
    </div>
  );
}

function RankCard() {
  const { state, run, level: now, open } = useDrawn();
  const came = report(run.result);
  if (now === "far") return null;
  const order = [...state.recommended, ...state.other];
  return (
    <ol className="grid w-full grid-cols-1 gap-1.5 text-sm">
      {order.map((move, index) => (
        <li key={move}>
          <button type="button" onClick={() => open(move)} className={cn("nodrag nopan flex w-full cursor-pointer gap-2 rounded-lg border border-line bg-raised px-3 py-2 text-left", index < 3 && "border-accent")}>
            <span className="w-5 tabular-nums">{index + 1}</span>
            <span className="min-w-0 flex-1 truncate" dir="auto">
              {came?.move_suggestions.find((one) => one.move_id === move)?.title ?? move}
            </span>
            <span className="tabular-nums">{state.debates[move]?.score}</span>
          </button>
        </li>
      ))}
      {order.length === 0 && <li className="text-soft">Once every move is scored.</li>}
    </ol>
  );
}

const TYPES = { layer: LayerBox, agent: AgentCard, debate: DebateCard, rank: RankCard };

interface Props {
  run: Run;
  state: Consult;
  rounds: number;
  open: string | null;
  onOpen: (move: string) => void;
}

function Drawing({ run, state, rounds, open, onOpen }: Props) {
  const { nodes, edges } = useMemo(() => layout(state), [state]);
  const zoom = useStore((store) => store.transform[2]);
  const flow = useReactFlow();
  const [following, setFollowing] = useState(run.status === "running" && open === null);
  const quick = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const duration = quick ? 0 : 500;
  const fit = useCallback((id?: string) => void flow.fitView({ ...(id ? { nodes: [{ id }] } : {}), duration, padding: 0.08, maxZoom: 1.4 }), [flow, duration]);
  const active = LAYERS.findLast(({ id }) => state.layers[id] === "running")?.id;
  // The camera goes where something happens, until somebody moves it.
  useEffect(() => {
    if (following) fit(active ? `layer-${active}` : undefined);
  }, [following, active, fit]);
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (open && open !== shown.current && nodes.some((node) => node.id === open)) {
      shown.current = open;
      fit(open);
    }
  }, [open, nodes, fit]);
  const now = level(zoom);
  const shared = useMemo<Shared>(() => ({ state, run, rounds, level: now, zoom, open: onOpen }), [state, run, rounds, now, zoom, onOpen]);
  return (
    <Drawn.Provider value={shared}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        minZoom={0.08}
        maxZoom={2.5}
        fitView
        fitViewOptions={{ padding: 0.08 }}
        onNodeClick={(_, node) => {
          setFollowing(false);
          if (node.type === "layer") fit(node.id);
          else if (node.type === "debate") now === "near" ? onOpen(node.id) : fit(node.id);
        }}
        onNodeDoubleClick={(_, node) => node.type === "debate" && onOpen(node.id)}
        onMoveStart={(event) => event && setFollowing(false)}
        onKeyDown={(event) => {
          const steps: Record<string, () => void> = {
            "+": () => void flow.zoomIn({ duration }),
            "=": () => void flow.zoomIn({ duration }),
            "-": () => void flow.zoomOut({ duration }),
            "0": () => fit(),
          };
          const step = steps[event.key];
          if (!step) return;
          setFollowing(false);
          step();
        }}
        aria-label="The pipeline"
        className="rounded-lg border border-line bg-sunken!"
      >
        <Background variant={BackgroundVariant.Dots} gap={32} color="var(--line)" />
        <MiniMap pannable zoomable ariaLabel="Where in the drawing you are" className="max-md:hidden" bgColor="var(--raised)" maskColor="color-mix(in srgb, var(--sunken) 70%, transparent)" nodeColor={(node) => (node.type === "layer" ? "var(--line)" : "var(--accent)")} />
        <Panel position="top-left">
          <Crumbs run={run} open={open} active={active} onFit={fit} />
        </Panel>
        <Panel position="top-right" className="flex gap-1">
          <Button aria-pressed={following} onClick={() => setFollowing((before) => !before)} title="The view goes where something happens">
            <Crosshair aria-hidden className="size-4" />
            {following ? "Following" : "Follow"}
          </Button>
          <Button aria-label="Nearer" onClick={() => void flow.zoomIn({ duration })}>
            <Plus aria-hidden className="size-4" />
          </Button>
          <Button aria-label="Farther" onClick={() => void flow.zoomOut({ duration })}>
            <Minus aria-hidden className="size-4" />
          </Button>
          <Button aria-label="All of it" onClick={() => fit()}>
            <Maximize aria-hidden className="size-4" />
          </Button>
        </Panel>
      </ReactFlow>
    </Drawn.Provider>
  );
}

function Crumbs({ run, open, active, onFit }: { run: Run; open: string | null; active: LayerId | undefined; onFit: (id?: string) => void }) {
  const layer = open ? "sandbox" : active;
  const name = LAYERS.find((one) => one.id === layer)?.name;
  return (
    <nav aria-label="Where you are" className="flex items-center gap-1 rounded-md border border-line bg-raised px-2 py-1 text-xs">
      <button type="button" className="cursor-pointer hover:underline" onClick={() => onFit()}>
        {run.title}
      </button>
      {layer && (
        <>
          <span aria-hidden>›</span>
          <button type="button" className="cursor-pointer hover:underline" onClick={() => onFit(`layer-${layer}`)}>
            {name}
          </button>
        </>
      )}
      {open && (
        <>
          <span aria-hidden>›</span>
          <button type="button" className="cursor-pointer hover:underline" onClick={() => onFit(open)}>
            {open}
          </button>
        </>
      )}
    </nav>
  );
}

export default function Canvas(props: Props) {
  return (
    <div className="relative w-full flex-1">
      <ReactFlowProvider>
        <Drawing {...props} />
      </ReactFlowProvider>
    </div>
  );
}
