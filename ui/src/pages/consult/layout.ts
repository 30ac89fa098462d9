// Positions of the nodes in the pipeline diagram. The positions depend on the agents and proposed moves, but not on the
// progress of the run.

import type { Edge, Node } from "@xyflow/react";

import { LAYERS, moveIds, type ConsultState, type LayerId } from "../../model/consult";

/** Size of the card of an agent, in pixels at zoom 1. */
const AGENT_SIZE = { width: 260, height: 96 };
/** Size of the card of a debate, in pixels at zoom 1. */
export const DEBATE_SIZE = { width: 360, height: 216 };
/** Height of one row of the ranking, in pixels at zoom 1. */
export const RANK_ROW = 46;
/** Distance between two cards, in pixels at zoom 1. */
const GAP = 36;
/** Height of the heading of a layer, in pixels at zoom 1. */
const HEADING_HEIGHT = 72;

export type LayerNode = Node<{ layer: LayerId | "rank"; name: string; about: string }, "layer">;
export type AgentNode = Node<{ agent: string }, "agent">;
export type DebateNode = Node<{ move: string }, "debate">;
export type RankNode = Node<Record<string, never>, "rank">;
export type CanvasNode = LayerNode | AgentNode | DebateNode | RankNode;

/** Last layer of the diagram, which ranks the moves. It needs no model calls. */
export const RANK = { id: "rank", name: "Rank", about: "order the proposed moves by total score" } as const;

interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Layout {
  nodes: CanvasNode[];
  edges: Edge[];
  layers: Box[];
  debates: Box[];
}

export function layout(state: ConsultState): Layout {
  const all = moveIds(state);
  // Arrange the debates in a grid with about the proportions of a window.
  const columns = Math.max(1, Math.min(5, Math.ceil(all.length / 3)));
  const rows = Math.max(3, Math.ceil(all.length / columns));
  const tallest = HEADING_HEIGHT + rows * (DEBATE_SIZE.height + GAP) + GAP;
  const drawn: Layout = { nodes: [], edges: [], layers: [], debates: [] };
  let x = 0;
  for (const { id, name, about } of [...LAYERS, RANK]) {
    const width = id === "sandbox" ? columns * (DEBATE_SIZE.width + GAP) + GAP : AGENT_SIZE.width + 2 * GAP;
    const agents = state.agents.filter((agent) => agent.layer === id);
    const cards = HEADING_HEIGHT + Math.max(agents.length, 1) * (AGENT_SIZE.height + GAP) + GAP;
    const height = id === "sandbox" ? tallest : id === "rank" ? HEADING_HEIGHT + Math.max(all.length, 5) * RANK_ROW + 2 * GAP : cards;
    const y = (tallest - height) / 2;
    const own = `layer-${id}`;
    const before = drawn.layers.at(-1);
    const label = { ariaLabel: `${name}: ${about}` };
    drawn.nodes.push({ id: own, type: "layer", position: { x, y }, data: { layer: id, name, about }, width, height, selectable: false, zIndex: 0, ...label });
    drawn.layers.push({ id, x, y, width, height });
    if (before) {
      const animated = id !== "rank" && state.layers[id] === "running";
      drawn.edges.push({ id: `${before.id}-${id}`, source: `layer-${before.id}`, target: own, animated });
    }
    const within = { parentId: own, zIndex: 1, selectable: false } as const;
    if (id === "sandbox") {
      all.forEach((move, index) => {
        const position = { x: GAP + (index % columns) * (DEBATE_SIZE.width + GAP), y: HEADING_HEIGHT + Math.floor(index / columns) * (DEBATE_SIZE.height + GAP) };
        const ariaLabel = `${move}: ${state.titles[move] ?? "debate"}`;
        drawn.nodes.push({ ...within, id: move, type: "debate", position, data: { move }, ...DEBATE_SIZE, ariaLabel });
        drawn.debates.push({ id: move, x: x + position.x, y: position.y, ...DEBATE_SIZE });
      });
    } else if (id === "rank") {
      const position = { x: GAP, y: HEADING_HEIGHT };
      drawn.nodes.push({ ...within, id: "rank", type: "rank", position, data: {}, width: AGENT_SIZE.width, height: height - HEADING_HEIGHT - GAP, focusable: false });
    } else {
      agents.forEach((agent, index) => {
        const position = { x: GAP, y: HEADING_HEIGHT + index * (AGENT_SIZE.height + GAP) };
        drawn.nodes.push({ ...within, id: agent.id, type: "agent", position, data: { agent: agent.id }, ...AGENT_SIZE, ariaLabel: `${agent.persona}: ${agent.progress}` });
      });
    }
    x += width + 2 * GAP;
  }
  return drawn;
}

/** Zoom level: `far` shows only layers, `middle` also agents and debates, `near` the transcript of one debate. */
export type Level = "far" | "middle" | "near";

/** Position and zoom of the diagram, and the size of the visible area, in pixels. */
interface Viewport {
  x: number;
  y: number;
  zoom: number;
  width: number;
  height: number;
}

/** Minimum zoom at which agents and debates are shown. */
const MIN_MIDDLE_ZOOM = 0.42;

/** Returns the maximum zoom: at this zoom the card of one debate fills the visible area, except for a margin. */
export const maxZoomOf = (width: number, height: number): number => Math.max(1.6, Math.min((width - 32) / DEBATE_SIZE.width, (height - 76) / DEBATE_SIZE.height));

export function levelOf({ zoom, width, height }: Pick<Viewport, "zoom" | "width" | "height">): Level {
  if (zoom < MIN_MIDDLE_ZOOM) return "far";
  return zoom < Math.min(2, maxZoomOf(width, height) * 0.9) ? "middle" : "near";
}

/**
 * Returns the id of the layer that covers most of the visible area. At the zoom level `near`, returns the id of the
 * debate that covers most of it. Returns `null` if all layers are in view.
 */
export function focusOf({ layers, debates }: Layout, camera: Viewport): string | null {
  const { x, y, zoom, width, height } = camera;
  const level = levelOf(camera);
  const whole = Math.max(...layers.map((box) => box.x + box.width)) * zoom <= width && Math.max(...layers.map((box) => box.height)) * zoom <= height;
  if (level === "far" || whole) return null;
  const [left, top, right, bottom] = [-x / zoom, -y / zoom, (width - x) / zoom, (height - y) / zoom];
  const visibleArea = (box: Box) =>
    Math.max(0, Math.min(right, box.x + box.width) - Math.max(left, box.x)) * Math.max(0, Math.min(bottom, box.y + box.height) - Math.max(top, box.y));
  const largest = (boxes: Box[]) => boxes.reduce<Box | null>((best, box) => (visibleArea(box) > (best ? visibleArea(best) : 0) ? box : best), null);
  return (level === "near" ? largest(debates)?.id : undefined) ?? largest(layers)?.id ?? null;
}
