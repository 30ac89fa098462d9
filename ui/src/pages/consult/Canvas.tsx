// The pipeline, drawn: layers from afar, agents and debates from nearer, what is said from near.

import { Background, BackgroundVariant, MiniMap, Panel, ReactFlow, ReactFlowProvider, useOnViewportChange, useReactFlow, useStore } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { Crosshair, Maximize, Minus, Plus } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState, type CSSProperties } from "react";

import { isUnderWay } from "../../model/api";
import { LAYERS, type Log } from "../../model/consult";
import { Button, cn } from "../../parts/ui";
import { CARDS, Seen, type View } from "./cards";
import { useConsultation } from "./consultation";
import { layout, levelOf, lookedAt, nearest, RANK, type Drawn } from "./layout";

/** The narrowest window in which words fit into the drawing, in pixels. */
const ROOM = 640;

/** The buttons above hide nothing. */
const ROOM_AROUND = { top: "60px", x: "16px", bottom: "16px" } as const;

interface Props {
  /** What is looked at: a layer or a move. */
  at: string | null;
  log: string | null;
  round: number | null;
  /** Whether something else is read over it, which has the keys. */
  covered: boolean;
  /** Somebody went elsewhere: by a step, which can be gone back, or by moving the drawing. */
  onAt: (at: string | null, step: boolean) => void;
  onPlace: (log: Log, round: number | null) => void;
  /** Reads a debate, or a document. */
  onRead: (move: string) => void;
  onDocument: (name: string) => void;
}

/** The name of a layer or a move in the drawing. */
const nodeOf = (at: string) => ([...LAYERS, RANK].some((layer) => layer.id === at) ? `layer-${at}` : at);

/** Where keys mean something else. */
const TYPED = "input, textarea, select, [contenteditable], dialog";

function Drawing({ at, log, round, covered, onAt, onPlace, onRead, onDocument }: Props) {
  const { run, state } = useConsultation();
  const drawn = useMemo(() => layout(state), [state]);
  const zoom = useStore((store) => store.transform[2]);
  const seen = useStore(({ transform: [x, y, zoom], width, height }) => lookedAt(drawn, { x, y, zoom, width, height }));
  const [width, height] = useStore((store) => [store.width, store.height] as const, (one, other) => one[0] === other[0] && one[1] === other[1]);
  const ready = useStore((store) => store.width > 0 && store.panZoom !== null);
  const wide = width >= ROOM;
  const flow = useReactFlow();
  const [following, setFollowing] = useState(isUnderWay(run.status) && at === null);
  const duration = window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 500;
  const fit = useCallback(
    (to: string | null) => {
      const nodes = to === null ? {} : { nodes: [{ id: nodeOf(to) }] };
      // A layer is never as near as what is said.
      void flow.fitView({ ...nodes, duration, padding: ROOM_AROUND, maxZoom: to === null || to !== nodeOf(to) ? 1.2 : 8 });
    },
    [flow, duration],
  );
  // Whether somebody has moved the drawing with their hands, and what the address says by our own doing.
  const moved = useRef(false);
  const own = useRef(at);
  const show = useCallback(
    (to: string | null) => {
      moved.current = false;
      own.current = to;
      setFollowing(false);
      onAt(to, true);
      fit(to);
    },
    [fit, onAt],
  );
  // The camera goes where something happens, until somebody moves it.
  const active = LAYERS.findLast(({ id }) => state.layers[id] === "running")?.id ?? null;
  useEffect(() => {
    if (ready && following) fit(active);
  }, [ready, following, active, fit]);
  // Whoever comes by a link, or goes back, is taken to what the address names, as soon as that is there.
  const wanted = at === null || drawn.nodes.some((node) => node.id === nodeOf(at)) ? at : undefined;
  useEffect(() => {
    if (at === own.current) return;
    own.current = at;
    moved.current = false;
    setFollowing(false);
  }, [at]);
  const size = drawn.nodes.length;
  useEffect(() => {
    if (ready && !moved.current && !following && wanted !== undefined) fit(wanted);
  }, [ready, wanted, size, width, height, following, fit]);
  const level = levelOf({ zoom, width, height });
  const whole = Math.min(width / Math.max(1, ...drawn.layers.map((box) => box.x + box.width)), 1);
  // The address says what is looked at, wherever somebody has gone.
  useOnViewportChange({
    onEnd: () => {
      if (!moved.current) return;
      // Whoever has come so near reads: all of it is in view.
      const reads = level === "near" && wide && seen !== null && seen === nodeOf(seen);
      if (reads) {
        moved.current = false;
        fit(seen);
      }
      if (seen === at) return;
      own.current = seen;
      onAt(seen, false);
    },
  });
  const keys: Record<string, () => void> = {
    "+": () => void flow.zoomIn({ duration }),
    "=": () => void flow.zoomIn({ duration }),
    "-": () => void flow.zoomOut({ duration }),
    "0": () => show(null),
    Escape: () => {
      // What is read goes away, and with it the focus, if that is in it.
      if (level === "near" && seen !== null) document.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(seen)}"]`)?.focus({ preventScroll: true });
      show(level === "near" ? "sandbox" : null);
    },
  };
  const step = (key: string): boolean => {
    const work = keys[key];
    if (!work) return false;
    moved.current = true;
    setFollowing(false);
    work();
    return true;
  };
  const choose = (node: Drawn) => {
    if (node.type === "layer") show(node.data.layer);
    else if (node.type === "debate" && !wide) onRead(node.id);
    // Whoever reads is left alone.
    else if (node.type === "debate" && !(level === "near" && node.id === seen)) show(node.id);
    else if (node.type === "agent") {
      const document = state.agents.find((agent) => agent.id === node.id)?.output[0];
      if (document) onDocument(document);
    }
  };
  const press = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (covered || !plain || event.defaultPrevented || target.closest(TYPED)) return;
    const node = drawn.nodes.find((one) => one.id === target.dataset.id);
    if (node && (event.key === "Enter" || event.key === " ")) choose(node);
    else if (!step(event.key)) return;
    event.preventDefault();
  };
  // Wherever on the page the focus is.
  const pressed = useRef(press);
  pressed.current = press;
  useEffect(() => {
    const listener = (event: KeyboardEvent) => pressed.current(event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
  const near = nearest(width, height);
  const filled = zoom >= near * 0.9;
  const view = useMemo<View>(
    () => ({ level: level === "near" && !wide ? "middle" : level, at: seen, filled, log, round, onPlace, onShow: (move) => (wide ? show(move) : onRead(move)) }),
    [level, wide, seen, filled, log, round, onPlace, onRead, show],
  );
  return (
    <Seen.Provider value={view}>
      <ReactFlow
        nodes={drawn.nodes}
        edges={drawn.edges}
        nodeTypes={CARDS}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        nodesFocusable
        minZoom={whole * 0.6}
        maxZoom={near}
        onNodeClick={(_, node) => choose(node)}
        onMoveStart={(event) => {
          if (!event) return;
          moved.current = true;
          setFollowing(false);
        }}
        aria-label="The pipeline"
        style={{ "--zoom": zoom } as CSSProperties}
        className="rounded-lg border border-line bg-sunken!"
      >
        <Background variant={BackgroundVariant.Dots} gap={32} color="var(--line)" />
        <MiniMap
          pannable
          zoomable
          onClick={(_, { x, y }) => {
            moved.current = true;
            setFollowing(false);
            void flow.setCenter(x, y, { zoom, duration });
          }}
          ariaLabel="Where in the drawing you are"
          className={cn("overflow-hidden rounded-md border border-line shadow-md max-md:hidden", level === "near" && "hidden")}
          style={{ width: 160, height: 72 }}
          bgColor="var(--raised)"
          maskColor="color-mix(in srgb, var(--sunken) 70%, transparent)"
          nodeColor={(node) => (node.type === "layer" ? "var(--line)" : "var(--accent)")}
        />
        <Panel position="top-left">
          <Crumbs at={seen} onShow={show} />
        </Panel>
        <Panel position="top-right" className="flex gap-1">
          {isUnderWay(run.status) && (
            <Button aria-pressed={following} onClick={() => setFollowing((before) => !before)} title="The view goes where something happens">
              <Crosshair aria-hidden className={cn("size-4", following && "text-accent")} />
              {following ? "Following" : "Follow"}
            </Button>
          )}
          <Button aria-label="Nearer" title="Nearer (+)" onClick={() => step("+")}>
            <Plus aria-hidden className="size-4" />
          </Button>
          <Button aria-label="Farther" title="Farther (−)" onClick={() => step("-")}>
            <Minus aria-hidden className="size-4" />
          </Button>
          <Button aria-label="All of it" title="All of it (0)" onClick={() => show(null)}>
            <Maximize aria-hidden className="size-4" />
          </Button>
        </Panel>
      </ReactFlow>
    </Seen.Provider>
  );
}

/** From all of it down to what is looked at. */
function Crumbs({ at, onShow }: { at: string | null; onShow: (at: string | null) => void }) {
  const { run } = useConsultation();
  const layer = [...LAYERS, RANK].find((one) => one.id === at) ?? (at === null ? undefined : LAYERS.find((one) => one.id === "sandbox"));
  const steps: { to: string | null; name: string }[] = [{ to: null, name: run.title }];
  if (layer) steps.push({ to: layer.id, name: layer.name });
  if (at !== null && layer?.id !== at) steps.push({ to: at, name: at });
  return (
    <nav aria-label="Where you are" className="flex items-center gap-1 rounded-md border border-line bg-raised px-2 py-1.5 text-xs">
      {steps.map(({ to, name }, index) => (
        <span key={name} className="flex items-center gap-1">
          {index > 0 && <span aria-hidden>›</span>}
          <button type="button" aria-current={index === steps.length - 1 ? "location" : undefined} className="cursor-pointer hover:underline" onClick={() => onShow(to)}>
            {name}
          </button>
        </span>
      ))}
    </nav>
  );
}

export default function Canvas(props: Props) {
  return (
    <div className="relative w-full flex-1 print:hidden">
      <ReactFlowProvider>
        <Drawing {...props} />
      </ReactFlowProvider>
    </div>
  );
}
