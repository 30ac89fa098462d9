// What the server can be asked for, and what goes wrong.

/** Problem details, as the server answers them (RFC 9457). */
export interface Problem {
  title: string;
  status: number;
  detail: string;
  hint?: string;
}

/** The server has said no, or could not be reached. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

const GONE: Problem = {
  title: "the server does not answer",
  status: 0,
  detail: "The server does not answer.",
  hint: "Is `assize serve` still running? What it was working on goes on when it is started again.",
};

async function send(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Refused(GONE);
  }
  if (response.ok) return response;
  const text = await response.text();
  let problem: Problem;
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    problem = { title: response.statusText, status: response.status, detail: text || response.statusText };
  }
  throw new Refused(problem);
}

export async function get<T>(path: string): Promise<T> {
  return (await send(path)).json() as Promise<T>;
}

export async function getText(path: string): Promise<string> {
  return (await send(path)).text();
}

export async function post<T>(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<T> {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
  return (await send(path, init)).json() as Promise<T>;
}

export async function remove(path: string): Promise<void> {
  await send(path, { method: "DELETE" });
}

/** Why a draft was not simply accepted. */
export interface Reason {
  effect: "escalate" | "reject";
  rule: string;
  file: string;
  line?: number;
  message: string;
  what_to_do: string;
}

/** Of which kind a run is. */
export type Kind = "run" | "consult" | "debate" | "work" | "eval";

export type Status = "waiting" | "running" | "stopped" | "done" | "failed" | "cancelled";

/** Whether somebody works on it, or is about to. */
export const isUnderWay = (status: Status | undefined) => status === "running" || status === "waiting";

/** A run in a list. */
export interface RunSummary {
  id: string;
  kind: Kind;
  title: string;
  status: Status;
  parent: string | null;
  created: number;
  updated: number;
  error: string | null;
  /** What must be known of it, such as that no model was asked. */
  label: string | null;
}

export interface Spent {
  calls: number;
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
  cost_usd: number | null;
  cost_note?: string;
}

export interface Run extends RunSummary {
  input: Record<string, unknown>;
  result: unknown;
  held_here: boolean;
  spent?: Spent;
}

/** What a trial is likely to take. */
export interface Estimate {
  calls: number;
  calls_in_a_row: number;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number | null;
  cost_cached_usd: number | null;
  cost_note?: string;
  rehearsal: boolean;
}

/** What a trial would be held with that began now. */
export interface About {
  version: string;
  provider: string;
  model: string | null;
  why: string;
  isolation: string | null;
  isolation_why: string;
  /** The name of the cluster that does the work, if there is one. */
  cluster: string | null;
  store: string;
  trials: { running: number; most: number };
  /** Idle sandboxes of each backend. */
  warm_pools: WarmPool[];
  /** The tasks for programs that the rehearsal model knows. */
  rehearsed: string[];
  /** And the changes of files. */
  rehearsed_changes: string[];
}

/** The warm pools of one backend. */
export interface WarmPool {
  isolation: string;
  size: number;
  idle: number;
  hits: number;
  misses: number;
  /** Mean time to make an idle sandbox, if one was made. */
  refill_ms: number | null;
  low_memory: boolean;
}

/** How a cluster is. */
export interface Cluster {
  nodes: ClusterNode[];
  slots: number;
  busy: number;
  running: number;
  waiting: number;
  stuck: { what: string; why: string }[];
  /** Messages that no worker can run, the newest first. */
  dead_letters: { subject: string; reason: string; payload: string; deliveries: number; time: number }[];
}

export interface ClusterNode {
  id: string;
  role: "server" | "worker";
  version: string;
  host: string;
  pid: number;
  since: number;
  slots: number;
  busy: number;
  holds: string[];
  abilities: { isolations: string[]; memory: number; labels: Record<string, string>; region: string | null };
}

/** How an attack on one kind of sandbox went. */
export interface Attack {
  isolation: string;
  version: string;
  at: number;
  seconds: number;
  groups: { title: string; blocked: number; escaped: number; not_applicable: number; broke: number }[];
  escaped: { name: string; what: string; detail: string }[];
}

/** What the machine offers. */
export interface Doctor {
  version: string;
  used: string;
  why: string;
  providers: Provider[];
  sandboxes: {
    used: string | null;
    why: string;
    used_for_debates: string | null;
    why_for_debates: string;
    backends: Backend[];
    interpreters: Record<string, string | null>;
  };
}

export interface Provider {
  provider: string;
  model: string;
  base_url: string;
  key: { masked: string; from: string } | null;
  state: "answers" | "fails" | "no_key" | "not_tried";
  detail: string | null;
}

export interface Backend {
  isolation: string;
  available: boolean;
  made_in_ms: number | null;
  why_not: string | null;
  hint: string | null;
  /** How it is run, where that makes a difference. */
  how: string | null;
  enforcement: Record<string, string> | null;
}
