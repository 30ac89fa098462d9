// What is asked of the server, as parts of the page use it.

import { useCallback, useEffect, useReducer, useRef, useState } from "react";

import { at, get, getText, isUnderWay, ownProblem, Refused, type Address } from "./api";
import { EVENT } from "./events";
import type { Problem, RunPage, RunView } from "./schema";
import { follow, type Following, type Line, type Told, type Wrote } from "./stream";

interface Asked<T> {
  value: T | null;
  problem: Problem | null;
  /** Asks once more; the same function always. */
  again: () => void;
}

const asProblem = (error: unknown): Problem =>
  error instanceof Refused ? error.problem : ownProblem("something is wrong in the page", String(error));

/** How often a server is called that is not there, in milliseconds. */
const AWAY = 2000;

/** Asks for something, and once more whenever its address changes. */
export function useAsked<T>(path: Address<T> | null): Asked<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; problem: Problem | null }>({
    path: null,
    value: null,
    problem: null,
  });
  const [turn, again] = useReducer((count: number) => count + 1, 0);
  const latest = useRef(path);
  latest.current = path;
  const newest = useRef(0);
  useEffect(() => {
    if (path === null) return;
    // Of several answers the one counts that was asked for last; none is waited for in vain.
    const take = (value: T | null, problem: Problem | null) => {
      if (latest.current !== path || turn < newest.current) return;
      newest.current = turn;
      // What was known stays, where nothing better came.
      setState((before) => ({ path, value: value ?? (before.path === path ? before.value : null), problem }));
    };
    get(path).then(
      (value) => take(value, null),
      (error: unknown) => take(null, asProblem(error)),
    );
  }, [path, turn]);
  // Nobody was there: they may be by now.
  const away = state.problem?.status === 0;
  useEffect(() => {
    if (!away) return;
    const timer = setInterval(again, AWAY);
    return () => clearInterval(timer);
  }, [away]);
  // What was asked for under another address is not shown under this one.
  const own = state.path === path;
  return { value: own ? state.value : null, problem: own ? state.problem : null, again };
}

/** The text at an address: not known yet, or not there. */
export function useText(path: string | null): string | null | undefined {
  const [state, setState] = useState<{ path: string | null; text: string | null | undefined }>({ path, text: undefined });
  useEffect(() => {
    if (path === null) return;
    let wanted = true;
    getText(path).then(
      (text) => wanted && setState({ path, text }),
      () => wanted && setState({ path, text: null }),
    );
    return () => {
      wanted = false;
    };
  }, [path]);
  return state.path === path ? state.text : undefined;
}

/** Does something that somebody asked for; what goes wrong is shown. */
interface Doing {
  doing: boolean;
  problem: Problem | null;
  perform: (work: () => Promise<void>) => Promise<void>;
  /** What went wrong is of no interest any more. */
  forget: () => void;
}

export function useDoing(): Doing {
  const [doing, setDoing] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const perform = useCallback(async (work: () => Promise<void>) => {
    setDoing(true);
    setProblem(null);
    try {
      await work();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setDoing(false);
    }
  }, []);
  const forget = useCallback(() => setProblem(null), []);
  return { doing, problem, perform, forget };
}

/** What programs of a run write at the moment, by attempt and candidate. */
type Live = Record<string, Wrote[]>;

export const liveKey = (attempt: number, candidate: number | null): string => `${attempt}/${candidate ?? ""}`;

function heard(before: Live, wrote: Wrote): Live {
  const key = liveKey(wrote.attempt, wrote.candidate);
  if (wrote.stream === null) return { ...before, [key]: [] };
  return { ...before, [key]: [...(before[key] ?? []), wrote] };
}

/** A run, and what asks for it anew. */
export interface Watched<R extends RunView = RunView> {
  run: R;
  again: () => void;
}

/** Model calls that were in flight when a worker died; the next worker repeats them. */
export interface LostCalls {
  calls: number;
  /** What they cost at most. */
  dollars: number;
}

/** The lost calls after these events: each `calls_lost` carries the total so far. */
export function lostCalls(before: LostCalls | null, told: Told[]): LostCalls | null {
  const last = told.findLast((one) => one.name === EVENT.callsLost);
  if (!last) return before;
  return { calls: Number(last.data.calls) || 0, dollars: Number(last.data.at_most_usd) || 0 };
}

interface Followed<S> {
  state: S;
  line: Line;
  lost: LostCalls | null;
  live: Live;
}

/** Follows a run; its events are taken in one by one. */
export function useFollowed<S>({ run, again }: Watched, start: () => S, reduce: (state: S, told: Told) => S): Followed<S> {
  const [state, take] = useReducer((before: S, told: Told[]) => told.reduce(reduce, before), null, start);
  const [live, write] = useReducer((before: Live, wrote: Wrote | null) => (wrote ? heard(before, wrote) : {}), {});
  const [lost, lose] = useReducer(lostCalls, null);
  const [line, setLine] = useState<Line>("connecting");
  const following = useRef<Following | null>(null);
  useEffect(() => {
    following.current = follow(at("/api/runs/{id}/events", { id: run.id }), {
      snapshot: () => write(null),
      wrote: write,
      line: setLine,
      told: (told) => {
        take(told);
        lose(told);
        // How it stands has changed.
        if (told.some((one) => one.name === EVENT.runEnded)) again();
      },
    });
    return () => following.current?.stop();
  }, [run.id, again]);
  // What it took is asked for now and then, as long as it takes more; and whether somebody has it go on.
  const { status } = run;
  useEffect(() => {
    if (isUnderWay(status)) following.current?.goOn();
    if (status === "done") return;
    const timer = setInterval(again, isUnderWay(status) ? 3000 : 10_000);
    return () => clearInterval(timer);
  }, [status, again]);
  return { state, line, lost, live };
}

/** The latest runs; asked for anew whenever one begins, ends or is told of for the first time. */
export function useRuns(limit: number): Asked<RunPage> & { line: Line } {
  const asked = useAsked(at("/api/runs", {}, { limit }));
  const [line, setLine] = useState<Line>("connecting");
  // Of those that are under way nothing but the end changes how they are shown.
  const known = useRef(new Set<string>());
  known.current = new Set(asked.value?.runs.filter((run) => isUnderWay(run.status)).map((run) => run.id));
  const { again } = asked;
  useEffect(
    () =>
      follow(at("/api/events", {}), {
        snapshot: again,
        line: setLine,
        told: (told) => {
          const news = (one: Told) => one.name === EVENT.runEnded || (one.run !== undefined && !known.current.has(one.run));
          if (told.some(news)) again();
        },
      }).stop,
    [again],
  );
  return { ...asked, line };
}
