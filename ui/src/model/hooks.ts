// React hooks that load data from the server, send actions and subscribe to events.

import { useCallback, useEffect, useReducer, useRef, useState } from "react";

import { apiUrl, get, getText, isActive, localProblem, RequestError, type Address } from "./api";
import { EVENT } from "./events";
import type { Problem, RunPage, RunView } from "./schema";
import { subscribe, type Connection, type OutputChunk, type ServerEvent, type Subscription } from "./stream";

interface Fetched<T> {
  value: T | null;
  problem: Problem | null;
  /** Fetches the value again; stable across renders. */
  refetch: () => void;
}

const asProblem = (error: unknown): Problem =>
  error instanceof RequestError ? error.problem : localProblem("internal error of the page", String(error));

/** Interval at which an unreachable server is tried again, in milliseconds. */
const RETRY_INTERVAL = 2000;

/** Fetches a value, and fetches again when the address changes. */
export function useFetch<T>(path: Address<T> | null): Fetched<T> {
  return useLoaded<T, Address<T>>(path, get);
}

/** Fetches a text: `undefined` while it loads, `null` if the request failed. */
export function useText(path: string | null): string | null | undefined {
  const { value, problem } = useLoaded(path, getText);
  const failed = problem !== null && problem.status !== 0;
  return value ?? (failed ? null : undefined);
}

/** Loads the value at an address with `load`, which must be the same function at every render. */
function useLoaded<T, P extends string>(path: P | null, load: (path: P) => Promise<T>): Fetched<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; problem: Problem | null }>({
    path: null,
    value: null,
    problem: null,
  });
  const [turn, refetch] = useReducer((count: number) => count + 1, 0);
  const latest = useRef(path);
  latest.current = path;
  const newest = useRef(0);
  useEffect(() => {
    if (path === null) return;
    // Responses can arrive out of order: a response to an older request never replaces a newer one.
    const receive = (value: T | null, problem: Problem | null) => {
      if (latest.current !== path || turn < newest.current) return;
      newest.current = turn;
      // After a failed request the last value of this address stays.
      setState((before) => ({ path, value: value ?? (before.path === path ? before.value : null), problem }));
    };
    load(path).then(
      (value) => receive(value, null),
      (error: unknown) => receive(null, asProblem(error)),
    );
  }, [path, turn, load]);
  // Status 0: the server was unreachable. Try again until it answers.
  const unreachable = state.problem?.status === 0;
  useEffect(() => {
    if (!unreachable) return;
    const timer = setInterval(refetch, RETRY_INTERVAL);
    return () => clearInterval(timer);
  }, [unreachable]);
  // Never return the value of a previous address.
  const own = state.path === path;
  return { value: own ? state.value : null, problem: own ? state.problem : null, refetch };
}

interface Action {
  /** Whether the action is running. */
  pending: boolean;
  problem: Problem | null;
  perform: (work: () => Promise<void>) => Promise<void>;
  /** Discards the problem. */
  clear: () => void;
}

/** Performs an action of the user, and reports the problem if it fails. */
export function useAction(): Action {
  const [pending, setPending] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const perform = useCallback(async (work: () => Promise<void>) => {
    setPending(true);
    setProblem(null);
    try {
      await work();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setPending(false);
    }
  }, []);
  const clear = useCallback(() => setProblem(null), []);
  return { pending, problem, perform, clear };
}

/** Output of the programs that a run is executing, by `liveKey`. */
type LiveOutput = Record<string, OutputChunk[]>;

export const liveKey = (attempt: number, candidate: number | null): string => `${attempt}/${candidate ?? ""}`;

function append(before: LiveOutput, chunk: OutputChunk): LiveOutput {
  const key = liveKey(chunk.attempt, chunk.candidate);
  if (chunk.stream === null) return { ...before, [key]: [] };
  return { ...before, [key]: [...(before[key] ?? []), chunk] };
}

/** A run, and the function that fetches it again. */
export interface RunProps<R extends RunView = RunView> {
  run: R;
  refetch: () => void;
}

/** Model calls that were in flight when a worker died; the next worker repeats them. */
export interface LostCalls {
  calls: number;
  /** Upper bound of their cost. */
  dollars: number;
}

/** The lost calls after these events: each `calls_lost` carries the total so far. */
export function lostCalls(before: LostCalls | null, events: ServerEvent[]): LostCalls | null {
  const last = events.findLast((one) => one.name === EVENT.callsLost);
  if (!last) return before;
  return { calls: Number(last.data.calls) || 0, dollars: Number(last.data.at_most_usd) || 0 };
}

interface RunStream<S> {
  state: S;
  connection: Connection;
  lost: LostCalls | null;
  live: LiveOutput;
}

/** Subscribes to the events of a run; `reduce` applies them to the state one by one. */
export function useRunEvents<S>({ run, refetch }: RunProps, start: () => S, reduce: (state: S, event: ServerEvent) => S): RunStream<S> {
  const [state, apply] = useReducer((before: S, events: ServerEvent[]) => events.reduce(reduce, before), null, start);
  const [live, addOutput] = useReducer((before: LiveOutput, chunk: OutputChunk | null) => (chunk ? append(before, chunk) : {}), {});
  const [lost, addLost] = useReducer(lostCalls, null);
  const [connection, setConnection] = useState<Connection>("connecting");
  const subscription = useRef<Subscription | null>(null);
  useEffect(() => {
    subscription.current = subscribe(apiUrl("/api/runs/{id}/events", { id: run.id }), {
      snapshot: () => addOutput(null),
      output: addOutput,
      connection: setConnection,
      events: (events) => {
        apply(events);
        addLost(events);
        // The run has a new status and possibly a result.
        if (events.some((one) => one.name === EVENT.runEnded)) refetch();
      },
    });
    return () => subscription.current?.stop();
  }, [run.id, refetch]);
  // Poll the run: its cost grows while it is active, and another client may resume it when it is not.
  const { status } = run;
  useEffect(() => {
    if (isActive(status)) subscription.current?.resume();
    if (status === "done") return;
    const timer = setInterval(refetch, isActive(status) ? 3000 : 10_000);
    return () => clearInterval(timer);
  }, [status, refetch]);
  return { state, connection, lost, live };
}

/** The latest runs; fetched again when a run ends or an event names a run that is not listed as active. */
export function useRuns(limit: number): Fetched<RunPage> & { connection: Connection } {
  const fetched = useFetch(apiUrl("/api/runs", {}, { limit }));
  const [connection, setConnection] = useState<Connection>("connecting");
  // Other events of an active run do not change its row.
  const known = useRef(new Set<string>());
  known.current = new Set(fetched.value?.runs.filter((run) => isActive(run.status)).map((run) => run.id));
  const { refetch } = fetched;
  useEffect(
    () =>
      subscribe(apiUrl("/api/events", {}), {
        snapshot: refetch,
        connection: setConnection,
        events: (events) => {
          const changesList = (one: ServerEvent) => one.name === EVENT.runEnded || (one.run !== undefined && !known.current.has(one.run));
          if (events.some(changesList)) refetch();
        },
      }).stop,
    [refetch],
  );
  return { ...fetched, connection };
}
