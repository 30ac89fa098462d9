// React hooks that load data from the server, perform actions of the user and subscribe to events.

import { useCallback, useEffect, useReducer, useRef, useState } from "react";

import { apiUrl, get, getText, isActive, localProblem, RequestError, type Address } from "./api";
import { EVENT } from "./events";
import type { Problem, RunPage, RunView } from "./schema";
import { subscribe, type Connection, type OutputChunk, type ServerEvent, type Subscription } from "./stream";

interface Fetched<T> {
  value: T | null;
  problem: Problem | null;
  /** Fetches the value again. The function stays the same object across renders. */
  refetch: () => void;
}

const asProblem = (error: unknown): Problem =>
  error instanceof RequestError ? error.problem : localProblem("internal error of the page", String(error));

/** Delay between two requests to an unreachable server, in milliseconds. */
const RETRY_INTERVAL = 2000;

/** Fetches a value from an API URL, and fetches again when the URL changes. */
export function useFetch<T>(path: Address<T> | null): Fetched<T> {
  return useLoaded<T, Address<T>>(path, get);
}

/** Fetches a text. Returns `undefined` while it loads or the server is unreachable, and `null` if the server failed. */
export function useText(path: string | null): string | null | undefined {
  const { value, problem } = useLoaded(path, getText);
  const failed = problem !== null && problem.status !== 0;
  return value ?? (failed ? null : undefined);
}

/** Loads the value at a URL with `load`, which must be the same function at every render. */
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
    // Responses can arrive out of order. Ignore a response to a request that is older than the last one answered.
    const receive = (value: T | null, problem: Problem | null) => {
      if (latest.current !== path || turn < newest.current) return;
      newest.current = turn;
      // If the request failed, keep the last value that was fetched from this URL.
      setState((before) => ({ path, value: value ?? (before.path === path ? before.value : null), problem }));
    };
    load(path).then(
      (value) => receive(value, null),
      (error: unknown) => receive(null, asProblem(error)),
    );
  }, [path, turn, load]);
  // Status 0 means that the server was unreachable: repeat the request until the server answers.
  const unreachable = state.problem?.status === 0;
  useEffect(() => {
    if (!unreachable) return;
    const timer = setInterval(refetch, RETRY_INTERVAL);
    return () => clearInterval(timer);
  }, [unreachable]);
  // Do not return the value or the problem of a previous URL.
  const own = state.path === path;
  return { value: own ? state.value : null, problem: own ? state.problem : null, refetch };
}

interface Action {
  /** Whether the action has been started and has not ended. */
  pending: boolean;
  /** Why the last action failed; `null` if it did not fail. */
  problem: Problem | null;
  perform: (work: () => Promise<void>) => Promise<void>;
  /** Sets `problem` to `null`. */
  clear: () => void;
}

/** Performs actions of the user, such as a click on a button, and returns the problem if an action fails. */
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

/** Live output of the programs that a run is executing, by the key that `outputKey` returns. */
type LiveOutput = Record<string, OutputChunk[]>;

/**
 * Returns the key of a program in the live output: the program of this attempt and candidate. `candidate` is `null` if
 * the attempt has only one program.
 */
export const outputKey = (attempt: number, candidate: number | null): string => `${attempt}/${candidate ?? ""}`;

function append(before: LiveOutput, chunk: OutputChunk): LiveOutput {
  const key = outputKey(chunk.attempt, chunk.candidate);
  if (chunk.stream === null) return { ...before, [key]: [] };
  return { ...before, [key]: [...(before[key] ?? []), chunk] };
}

/** Properties of a run view: the run, and the function that fetches the run again. */
export interface RunProps<R extends RunView = RunView> {
  run: R;
  refetch: () => void;
}

/** Model calls that were in flight when a worker died. The next worker of the run repeats these calls. */
export interface LostCalls {
  /** Number of lost calls. */
  calls: number;
  /** Maximum cost of all lost calls, in US dollars. */
  maxCostUsd: number;
}

/** Returns the lost calls of a run after more events. Each `calls_lost` event carries the total of the run so far. */
export function lostCalls(before: LostCalls | null, events: ServerEvent[]): LostCalls | null {
  const last = events.findLast((one) => one.name === EVENT.callsLost);
  if (!last) return before;
  return { calls: Number(last.data.calls) || 0, maxCostUsd: Number(last.data.at_most_usd) || 0 };
}

interface RunStream<S> {
  /** State of the run, computed from its events. */
  state: S;
  connection: Connection;
  lost: LostCalls | null;
  live: LiveOutput;
}

/** Subscribes to the events of a run. `start` returns the first state, and `reduce` the state after one more event. */
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
        // When a run ends, its status changes and it may have a result: fetch the run again.
        if (events.some((one) => one.name === EVENT.runEnded)) refetch();
      },
    });
    return () => subscription.current?.stop();
  }, [run.id, refetch]);
  // Poll the run: the cost of an active run grows, and another client may resume a stopped run.
  const { status } = run;
  useEffect(() => {
    if (isActive(status)) subscription.current?.resume();
    if (status === "done") return;
    const timer = setInterval(refetch, isActive(status) ? 3000 : 10_000);
    return () => clearInterval(timer);
  }, [status, refetch]);
  return { state, connection, lost, live };
}

/**
 * Fetches the latest runs. Fetches them again when a run ends, or when an event arrives for a run that is not listed as
 * active.
 */
export function useRuns(limit: number): Fetched<RunPage> & { connection: Connection } {
  const fetched = useFetch(apiUrl("/api/runs", {}, { limit }));
  const [connection, setConnection] = useState<Connection>("connecting");
  // Ids of the runs that are listed as active. Only the end of such a run changes the list; its other events do not.
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
