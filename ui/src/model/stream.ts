// Events as they happen: told once each, in order, however often the line breaks.

import { EVENT, EXECUTION_OUTPUT, SNAPSHOT } from "./events";

/** One event. */
export interface Told {
  id: number;
  name: string;
  run?: string;
  at: number;
  data: Record<string, unknown>;
}

/** How the line to the server is. */
export type Line = "connecting" | "open" | "lost" | "over";

/** What a program writes while it runs; it is not kept, and told anew to whoever calls again. */
export interface Wrote {
  attempt: number;
  candidate: number | null;
  /** Nowhere yet: it begins, or begins anew. */
  stream: "stdout" | "stderr" | null;
  text: string;
  /** Whether the rest of it is told only when it is over. */
  cut: boolean;
}

interface Listener {
  /** The first thing that is told, whenever the line is opened. */
  snapshot(data: Record<string, unknown>): void;
  wrote?(wrote: Wrote): void;
  /** Those that came together. */
  told(events: Told[]): void;
  line(line: Line): void;
}

/** How long it is waited before the server is called again, at first and at most, in milliseconds. */
const WAIT = 500;
const LONGEST_WAIT = 8000;

export interface Following {
  stop(): void;
  /** Goes on with a stream that was over: there may be more by now. */
  goOn(): void;
}

/** Follows a stream until it is told to stop; its end, or a lost line, is told, too. */
export function follow(path: string, listener: Listener): Following {
  let source: EventSource | null = null;
  let last = 0;
  let wait = WAIT;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let waiting: Told[] = [];
  let frame = 0;
  let stopped = false;
  let over = false;

  const flush = () => {
    frame = 0;
    const events = waiting;
    waiting = [];
    if (events.length > 0 && !stopped) listener.told(events);
  };

  const hear = (name: string) => (event: MessageEvent<string>) => {
    const id = Number(event.lastEventId);
    // Whatever is told twice is heard once.
    if (!(id > last)) return;
    last = id;
    const data = JSON.parse(event.data) as Record<string, unknown>;
    const told: Told = { id, name, at: Number(data.at), data };
    if (typeof data.run === "string") told.run = data.run;
    waiting.push(told);
    // Many at once are shown at once.
    frame ||= requestAnimationFrame(flush);
  };

  const connect = () => {
    listener.line("connecting");
    const mark = path.includes("?") ? "&" : "?";
    source = new EventSource(last > 0 ? `${path}${mark}after=${last}` : path);
    source.onopen = () => {
      wait = WAIT;
      listener.line("open");
    };
    source.addEventListener(SNAPSHOT, (event) => {
      listener.snapshot(JSON.parse((event as MessageEvent<string>).data) as Record<string, unknown>);
    });
    for (const name of Object.values(EVENT)) source.addEventListener(name, hear(name) as EventListener);
    source.addEventListener(EXECUTION_OUTPUT, (event) => {
      listener.wrote?.(JSON.parse((event as MessageEvent<string>).data) as Wrote);
    });
    source.onerror = () => {
      source?.close();
      if (stopped) return;
      flush();
      void again();
    };
  };

  /** A line that ended may be over: the server then has nothing more to tell. */
  const again = async () => {
    try {
      const mark = path.includes("?") ? "&" : "?";
      const abort = new AbortController();
      const response = await fetch(`${path}${mark}after=${last}`, { signal: abort.signal });
      abort.abort();
      if (response.status === 204 || response.status === 404) {
        over = true;
        if (!stopped) listener.line("over");
        return;
      }
    } catch {
      // Nobody is there: it is tried again.
    }
    if (stopped) return;
    listener.line("lost");
    timer = setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  };

  connect();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      source?.close();
    },
    goOn() {
      if (!over || stopped) return;
      over = false;
      connect();
    },
  };
}
