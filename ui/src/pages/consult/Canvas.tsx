// Zoomable diagram of the pipeline of a consultation. Zoomed out, it shows the layers; closer, the agents and debates;
// closest, the transcript of one debate.

import { Background, BackgroundVariant, MiniMap, Panel, ReactFlow, ReactFlowProvider, useOnViewportChange, useReactFlow, useStore } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { Crosshair, Maximize, Minus, Plus } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState, type CSSProperties } from "react";

import { isActive } from "../../model/api";
import { LAYERS, type ConversationId } from "../../model/consult";
import { Button, cn } from "../../parts/ui";
import { CanvasContext, CARDS, type CanvasView } from "./nodes";
import { useConsultation } from "./consultation";
import { focusOf, layout, levelOf, maxZoomOf, RANK, type CanvasNode } from "./layout";

/**
 * Minimum width of the diagram for showing transcripts inside it, in pixels. In a narrower diagram, a transcript opens
 * in the side panel.
 */
const MIN_TRANSCRIPT_WIDTH = 640;

/** Padding around the layer or debate that is fitted into the view. At the top it leaves space for the buttons. */
const PADDING = { top: "60px", x: "16px", bottom: "16px" } as const;

interface Props {
  /** Id of the layer or proposed move in view, from the URL; `null` for the whole diagram. */
  at: string | null;
  log: string | null;
  round: number | null;
  /** Whether the side panel covers the diagram: then key presses do not control the diagram. */
  covered: boolean;
  /**
   * Called when another layer or proposed move comes into view. If `step` is true, the browser history gets a new
   * entry; `step` is false after panning and zooming.
   */
  onAt: (at: string | null, step: boolean) => void;
  onOpenRound: (log: ConversationId, round: number | null) => void;
  /** Opens a debate in the side panel. */
  onOpenDebate: (move: string) => void;
  /** Opens a document in the documents tab. */
  onDocument: (name: string) => void;
}

/** Returns the id of the diagram node for a layer or a proposed move. */
const nodeOf = (at: string) => ([...LAYERS, RANK].some((layer) => layer.id === at) ? `layer-${at}` : at);

/** Selector of elements that receive typed text: key presses in them do not control the diagram. */
const TEXT_INPUTS = "input, textarea, select, [contenteditable], dialog";

function PipelineDiagram({ at, log, round, covered, onAt, onOpenRound, onOpenDebate, onDocument }: Props) {
  const { run, state } = useConsultation();
  const drawn = useMemo(() => layout(state), [state]);
  const zoom = useStore((store) => store.transform[2]);
  const focused = useStore(({ transform: [x, y, zoom], width, height }) => focusOf(drawn, { x, y, zoom, width, height }));
  const [width, height] = useStore((store) => [store.width, store.height] as const, (one, other) => one[0] === other[0] && one[1] === other[1]);
  const ready = useStore((store) => store.width > 0 && store.panZoom !== null);
  const wide = width >= MIN_TRANSCRIPT_WIDTH;
  const flow = useReactFlow();
  const [following, setFollowing] = useState(isActive(run.status) && at === null);
  const duration = window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 500;
  const fit = useCallback(
    (to: string | null) => {
      const nodes = to === null ? {} : { nodes: [{ id: nodeOf(to) }] };
      // Limit the zoom for a layer or the whole diagram, so that it stays below the zoom level at which transcripts
      // appear.
      void flow.fitView({ ...nodes, duration, padding: PADDING, maxZoom: to === null || to !== nodeOf(to) ? 1.2 : 8 });
    },
    [flow, duration],
  );
  // Whether the user has panned or zoomed since the diagram last moved by itself.
  const moved = useRef(false);
  // Last value of `at` that this component has written to the URL, or has read from the URL.
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
  // While the user follows the progress, keep the running layer in view. Following stops when the user pans or zooms.
  const active = LAYERS.findLast(({ id }) => state.layers[id] === "running")?.id ?? null;
  useEffect(() => {
    if (ready && following) fit(active);
  }, [ready, following, active, fit]);
  // After a link or the back button, show the layer or proposed move that the URL names as soon as its node exists.
  const target = at === null || drawn.nodes.some((node) => node.id === nodeOf(at)) ? at : undefined;
  useEffect(() => {
    if (at === own.current) return;
    own.current = at;
    moved.current = false;
    setFollowing(false);
  }, [at]);
  const size = drawn.nodes.length;
  useEffect(() => {
    if (ready && !moved.current && !following && target !== undefined) fit(target);
  }, [ready, target, size, width, height, following, fit]);
  const level = levelOf({ zoom, width, height });
  const whole = Math.min(width / Math.max(1, ...drawn.layers.map((box) => box.x + box.width)), 1);
  // When the user has panned or zoomed, write the id of the layer or proposed move in view to the URL.
  useOnViewportChange({
    onEnd: () => {
      if (!moved.current) return;
      // At the zoom level `near`, a debate shows its transcript: fit the card of the debate into the view.
      const reads = level === "near" && wide && focused !== null && focused === nodeOf(focused);
      if (reads) {
        moved.current = false;
        fit(focused);
      }
      if (focused === at) return;
      own.current = focused;
      onAt(focused, false);
    },
  });
  const keys: Record<string, () => void> = {
    "+": () => void flow.zoomIn({ duration }),
    "=": () => void flow.zoomIn({ duration }),
    "-": () => void flow.zoomOut({ duration }),
    "0": () => show(null),
    Escape: () => {
      // The transcript disappears when zooming out: move the keyboard focus from it to the card of its debate.
      if (level === "near" && focused !== null) document.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
      show(level === "near" ? "sandbox" : null);
    },
  };
  const step = (key: string): boolean => {
    const action = keys[key];
    if (!action) return false;
    moved.current = true;
    setFollowing(false);
    action();
    return true;
  };
  const choose = (node: CanvasNode) => {
    if (node.type === "layer") show(node.data.layer);
    else if (node.type === "debate" && !wide) onOpenDebate(node.id);
    // A click in the open transcript does not move the diagram.
    else if (node.type === "debate" && !(level === "near" && node.id === focused)) show(node.id);
    else if (node.type === "agent") {
      const document = state.agents.find((agent) => agent.id === node.id)?.output[0];
      if (document) onDocument(document);
    }
  };
  const handleKey = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (covered || !plain || event.defaultPrevented || target.closest(TEXT_INPUTS)) return;
    const node = drawn.nodes.find((one) => one.id === target.dataset.id);
    if (node && (event.key === "Enter" || event.key === " ")) choose(node);
    else if (!step(event.key)) return;
    event.preventDefault();
  };
  // Listen on the window, so that keys control the diagram even if another element of the page has the focus.
  const pressed = useRef(handleKey);
  pressed.current = handleKey;
  useEffect(() => {
    const listener = (event: KeyboardEvent) => pressed.current(event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
  const maxZoom = maxZoomOf(width, height);
  const transcriptFillsView = zoom >= maxZoom * 0.9;
  const view = useMemo<CanvasView>(
    () => ({ level: level === "near" && !wide ? "middle" : level, at: focused, transcriptFillsView, log, round, onOpenRound, onShow: (move) => (wide ? show(move) : onOpenDebate(move)) }),
    [level, wide, focused, transcriptFillsView, log, round, onOpenRound, onOpenDebate, show],
  );
  return (
    <CanvasContext.Provider value={view}>
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
        maxZoom={maxZoom}
        onNodeClick={(_, node) => choose(node)}
        onMoveStart={(event) => {
          if (!event) return;
          moved.current = true;
          setFollowing(false);
        }}
        aria-label="Diagram of the pipeline"
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
          ariaLabel="Overview map of the diagram"
          className={cn("overflow-hidden rounded-md border border-line shadow-md max-md:hidden", level === "near" && "hidden")}
          style={{ width: 160, height: 72 }}
          bgColor="var(--raised)"
          maskColor="color-mix(in srgb, var(--sunken) 70%, transparent)"
          nodeColor={(node) => (node.type === "layer" ? "var(--line)" : "var(--accent)")}
        />
        <Panel position="top-left">
          <Breadcrumbs at={focused} onShow={show} />
        </Panel>
        <Panel position="top-right" className="flex gap-1">
          {isActive(run.status) && (
            <Button
              aria-pressed={following}
              aria-label="Follow progress"
              className={cn(following && "border-accent text-accent")}
              onClick={() => setFollowing((before) => !before)}
              title="Keep the running part of the consultation in view"
            >
              <Crosshair aria-hidden className="size-4" />
              <span className="max-sm:hidden">Follow progress</span>
            </Button>
          )}
          <Button aria-label="Zoom in" title="Zoom in (+)" onClick={() => step("+")}>
            <Plus aria-hidden className="size-4" />
          </Button>
          <Button aria-label="Zoom out" title="Zoom out (−)" onClick={() => step("-")}>
            <Minus aria-hidden className="size-4" />
          </Button>
          <Button aria-label="Show the whole diagram" title="Show the whole diagram (0)" onClick={() => show(null)}>
            <Maximize aria-hidden className="size-4" />
          </Button>
        </Panel>
      </ReactFlow>
    </CanvasContext.Provider>
  );
}

/** Breadcrumb links from the whole consultation to the layer or proposed move in view. */
function Breadcrumbs({ at, onShow }: { at: string | null; onShow: (at: string | null) => void }) {
  const { run } = useConsultation();
  const layer = [...LAYERS, RANK].find((one) => one.id === at) ?? (at === null ? undefined : LAYERS.find((one) => one.id === "sandbox"));
  const steps: { to: string | null; name: string }[] = [{ to: null, name: run.title }];
  if (layer) steps.push({ to: layer.id, name: layer.name });
  if (at !== null && layer?.id !== at) steps.push({ to: at, name: at });
  return (
    <nav aria-label="Breadcrumbs" className="flex flex-wrap items-center gap-1 rounded-md border border-line bg-raised px-2 py-1.5 text-xs max-sm:max-w-36">
      {steps.map(({ to, name }, index) => (
        <span key={name} className="flex items-center gap-1">
          {index > 0 && <span aria-hidden>›</span>}
          <button type="button" aria-current={index === steps.length - 1 ? "location" : undefined} title={name} className="max-w-28 cursor-pointer truncate hover:underline sm:max-w-72" onClick={() => onShow(to)}>
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
        <PipelineDiagram {...props} />
      </ReactFlowProvider>
    </div>
  );
}
