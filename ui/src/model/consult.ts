// State of a consultation, computed only from its events. A page that is opened later receives the same events and
// therefore shows the same state.

import { EVENT } from "./events";
import type { ServerEvent } from "./stream";

export type Progress = "waiting" | "running" | "stopped" | "done";

export type LayerId = "0" | "1" | "2" | "sandbox";

export const LAYERS: readonly { id: LayerId; name: string; about: string }[] = [
  { id: "0", name: "Gather", about: "collect data about the company" },
  { id: "1", name: "Infer", about: "draw findings from figures and news" },
  { id: "2", name: "Propose", about: "five analysts propose business moves" },
  { id: "sandbox", name: "Debate", about: "a critic challenges each proposed move, three judges score it" },
];

export interface Agent {
  id: string;
  layer: LayerId;
  persona: string;
  progress: Progress;
  /** File names of the documents that the agent wrote. */
  output: string[];
}

/** Ids of the three conversations of a debate: the critic has one conversation with each judge. */
export const CONVERSATION_IDS = ["i1", "i2", "i3"] as const;
export type ConversationId = (typeof CONVERSATION_IDS)[number];

export interface Conversation {
  /** Number of the last round that the critic has answered; 0 before the first answer. */
  critic: number;
  /** Number of the last round that the judge has answered; 0 before the first answer. */
  judge: number;
  /**
   * Which answer is expected next: the critic's, the judge's, or the judge's scores. `null` if no answer is expected.
   */
  next: "critic" | "judge" | "scoring" | null;
  /** Error that ended the conversation early; `null` without an error. */
  failed: string | null;
}

export interface Debate {
  move: string;
  conversations: Record<ConversationId, Conversation>;
  score: number | null;
  breakdown: Record<string, Record<string, unknown>>;
  warnings: string[];
}

export interface ConsultState {
  layers: Record<LayerId, Progress>;
  agents: Agent[];
  documents: string[];
  /** Titles of the proposed moves, by move id. */
  titles: Record<string, string>;
  debates: Record<string, Debate>;
  warnings: string[];
  /** Ids of the recommended business moves, best first; empty until all moves are ranked. */
  recommended: string[];
  /** Ids of the business moves that are not recommended, best first; empty until all moves are ranked. */
  other: string[];
}

export function initialState(): ConsultState {
  return {
    layers: { "0": "waiting", "1": "waiting", "2": "waiting", sandbox: "waiting" },
    agents: [],
    documents: [],
    titles: {},
    debates: {},
    warnings: [],
    recommended: [],
    other: [],
  };
}

const strings = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : [];

const layerOf = (value: unknown): LayerId | null => {
  const id = String(value);
  return LAYERS.some((layer) => layer.id === id) ? (id as LayerId) : null;
};

const emptyConversation = (): Conversation => ({ critic: 0, judge: 0, next: null, failed: null });

function debateOf(state: ConsultState, move: string): Debate {
  return (
    state.debates[move] ?? {
      move,
      conversations: { i1: emptyConversation(), i2: emptyConversation(), i3: emptyConversation() },
      score: null,
      breakdown: {},
      warnings: [],
    }
  );
}

const NEXT: Record<string, Conversation["next"]> = {
  critic_responding: "critic",
  dm_responding: "judge",
  scoring: "scoring",
};

/** Returns the debate after a `sandbox_round` event with this data. */
function applyRound(debate: Debate, data: Record<string, unknown>): Debate {
  const round = Number(data.round) || 0;
  const named = CONVERSATION_IDS.find((log) => log === data.log);
  const conversations = { ...debate.conversations };
  // An event without a conversation id is the critic's opening message, which all three conversations share.
  for (const log of named ? [named] : CONVERSATION_IDS) {
    const before = conversations[log];
    // A resumed run repeats a failed model call, so each new event clears the failure of its conversation.
    const after: Conversation = { ...before, next: NEXT[String(data.next)] ?? null, failed: null };
    if (data.status === "critic_responded") after.critic = Math.max(before.critic, round);
    if (data.status === "dm_responded") after.judge = Math.max(before.judge, round);
    if (data.status === "failed") {
      after.failed = String(data.error ?? "unknown error");
      after.next = null;
    }
    conversations[log] = after;
  }
  return { ...debate, conversations };
}

/** Returns the state after one more event. Unknown events do not change the state. */
export function reduce(state: ConsultState, { name, data }: ServerEvent): ConsultState {
  const layer = layerOf(data.layer);
  const move = typeof data.move === "string" ? data.move : null;
  switch (name) {
    case EVENT.layerStart:
      if (!layer) return state;
      return { ...state, layers: { ...state.layers, [layer]: "running" } };
    case EVENT.layerComplete: {
      if (!layer) return state;
      const written = layer === "sandbox" ? [] : strings(data.artifacts);
      const documents = [...new Set([...state.documents, ...written])];
      return { ...state, layers: { ...state.layers, [layer]: "done" }, documents };
    }
    case EVENT.agentStart: {
      if (!layer) return state;
      const id = String(data.agent_id);
      const agent: Agent = { id, layer, persona: String(data.persona ?? id), progress: "running", output: [] };
      return { ...state, agents: [...state.agents.filter((one) => one.id !== id), agent] };
    }
    case EVENT.agentComplete: {
      const id = String(data.agent_id);
      const output = strings(data.output);
      const agents = state.agents.map((one): Agent => (one.id === id ? { ...one, progress: "done", output } : one));
      const titles = strings(data.titles);
      const titled = output.map((name, index) => [name.replace(/\.md$/, ""), titles[index] ?? ""] as const);
      return {
        ...state,
        agents,
        documents: [...new Set([...state.documents, ...output])],
        titles: { ...state.titles, ...Object.fromEntries(titled.filter(([, title]) => title !== "")) },
      };
    }
    case EVENT.sandboxRound:
      return move ? { ...state, debates: { ...state.debates, [move]: applyRound(debateOf(state, move), data) } } : state;
    case EVENT.sandboxScored: {
      if (!move) return state;
      const breakdown = (data.breakdown ?? {}) as Debate["breakdown"];
      const debate: Debate = { ...debateOf(state, move), score: Number(data.score), breakdown };
      return { ...state, debates: { ...state.debates, [move]: debate } };
    }
    case EVENT.warning: {
      const message = String(data.message);
      if (!move) return { ...state, warnings: [...state.warnings, message] };
      const debate = debateOf(state, move);
      const warned: Debate = { ...debate, warnings: [...debate.warnings, message] };
      return { ...state, debates: { ...state.debates, [move]: warned } };
    }
    case EVENT.pipelineComplete:
      return { ...state, recommended: strings(data.recommended), other: strings(data.other) };
    default:
      return state;
  }
}

/** Returns the state of a run that is not active: running layers and agents are stopped, and no answer is expected. */
export function stoppedState(state: ConsultState): ConsultState {
  const stop = (progress: Progress): Progress => (progress === "running" ? "stopped" : progress);
  const stopDebate = (debate: Debate): Debate => {
    const { i1, i2, i3 } = debate.conversations;
    const [one, two, three] = [i1, i2, i3].map((each) => ({ ...each, next: null })) as [Conversation, Conversation, Conversation];
    return { ...debate, conversations: { i1: one, i2: two, i3: three } };
  };
  return {
    ...state,
    layers: { "0": stop(state.layers["0"]), "1": stop(state.layers["1"]), "2": stop(state.layers["2"]), sandbox: stop(state.layers.sandbox) },
    agents: state.agents.map((agent) => ({ ...agent, progress: stop(agent.progress) })),
    debates: Object.fromEntries(Object.entries(state.debates).map(([move, debate]) => [move, stopDebate(debate)])),
  };
}

/** Returns the ids of all proposed moves, ordered by number. */
export function moveIds(state: ConsultState): string[] {
  const written = state.documents.filter((name) => /^m\d+\.md$/.test(name)).map((name) => name.slice(0, -3));
  const all = new Set([...written, ...Object.keys(state.debates)]);
  return [...all].sort((one, other) => Number(one.slice(1)) - Number(other.slice(1)));
}

/**
 * Returns the ids of all proposed moves in their final order. Before the final ranking, returns only the moves that
 * have a score, best first.
 */
export function ranking(state: ConsultState): string[] {
  if (state.recommended.length > 0) return [...state.recommended, ...state.other];
  const scored = Object.values(state.debates).filter((debate) => debate.score !== null);
  return scored.sort((one, other) => (other.score ?? 0) - (one.score ?? 0)).map((debate) => debate.move);
}

/** Returns the number of answers that the critic and the judges have given in a debate. */
export function answerCount(debate: Debate): number {
  return CONVERSATION_IDS.reduce((sum, log) => sum + debate.conversations[log].critic + debate.conversations[log].judge, 0);
}

/** Returns the completed share of a debate, from 0 to 1. */
export function debateProgress(debate: Debate | undefined, rounds: number): number {
  if (!debate) return 0;
  // All rounds together count as 95 %; the scores at the end count as the last 5 %.
  return debate.score !== null ? 1 : (answerCount(debate) / (CONVERSATION_IDS.length * 2 * Math.max(rounds, 1))) * 0.95;
}

/** Returns the completed share of a layer, from 0 to 1. */
export function layerProgress(state: ConsultState, layer: LayerId, rounds: number): number {
  const progress = state.layers[layer];
  if (progress === "done") return 1;
  if (progress === "waiting") return 0;
  if (layer !== "sandbox") {
    const own = state.agents.filter((agent) => agent.layer === layer);
    return own.length === 0 ? 0 : own.filter((agent) => agent.progress === "done").length / own.length;
  }
  const each = moveIds(state).map((move) => debateProgress(state.debates[move], rounds));
  return each.length === 0 ? 0 : each.reduce((sum, one) => sum + one, 0) / each.length;
}
