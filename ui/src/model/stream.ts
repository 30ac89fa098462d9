// Subscription to an event stream of the server (server-sent events). Each event is delivered once and in order, even
// if the page must reconnect.

import { EVENT, EXECUTION_OUTPUT, SNAPSHOT } from "./events";

/** One stored event of a run or of a workspace. */
export interface ServerEvent {
  /** Number of the event in its stream; it increases with each event. */
  id: number;
  name: string;
  /** Id of the run, if the data of the event contains an id. */
  run?: string;
  /** Time of the event, in milliseconds since 1970. */
  at: number;
  data: Record<string, unknown>;
}

/** State of the connection to an event stream. `over` means that the stream has ended: the server sends no more events. */
export type Connection = "connecting" | "open" | "lost" | "over";

/**
 * Part of the live output of a running program. Live output is not stored; after a reconnection the server sends all of
 * the output again.
 */
export interface OutputChunk {
  attempt: number;
  candidate: number | null;
  /** Stream that the program wrote to; `null` if the output starts again and earlier parts must be discarded. */
  stream: "stdout" | "stderr" | null;
  text: string;
  /** Whether no more live output follows. The complete output is then in the result of the execution. */
  cut: boolean;
}

interface Listener {
  /** Called after each connection or reconnection, with the state that the server sends first. */
  snapshot(data: Record<string, unknown>): void;
  output?(chunk: OutputChunk): void;
  /** Called at most once per animation frame, with all events received since the last call. */
  events(events: ServerEvent[]): void;
  connection(state: Connection): void;
}

/** Delay before the first attempt to reconnect, in milliseconds. The delay doubles with each further attempt. */
const MIN_DELAY = 500;
/** Maximum delay between two attempts to reconnect, in milliseconds. */
const MAX_DELAY = 8000;

export interface Subscription {
  stop(): void;
  /** Reconnects to a stream that had ended. A run that is resumed has new events. */
  resume(): void;
}

/** Subscribes to the event stream at `path` until `stop` is called. Reconnects if the connection is lost. */
export function subscribe(path: string, listener: Listener): Subscription {
  let source: EventSource | null = null;
  let last = 0;
  let delay = MIN_DELAY;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let buffered: ServerEvent[] = [];
  let frame = 0;
  let stopped = false;
  let over = false;

  const flush = () => {
    frame = 0;
    const events = buffered;
    buffered = [];
    if (events.length > 0 && !stopped) listener.events(events);
  };

  const receive = (name: string) => (event: MessageEvent<string>) => {
    const id = Number(event.lastEventId);
    // Ignore events that the server sends again after a reconnection.
    if (!(id > last)) return;
    last = id;
    const data = JSON.parse(event.data) as Record<string, unknown>;
    const received: ServerEvent = { id, name, at: Number(data.at), data };
    if (typeof data.run === "string") received.run = data.run;
    buffered.push(received);
    // Deliver all events of one animation frame together, so that many events cause only one render.
    frame ||= requestAnimationFrame(flush);
  };

  const connect = () => {
    listener.connection("connecting");
    const separator = path.includes("?") ? "&" : "?";
    source = new EventSource(last > 0 ? `${path}${separator}after=${last}` : path);
    source.onopen = () => {
      delay = MIN_DELAY;
      listener.connection("open");
    };
    source.addEventListener(SNAPSHOT, (event) => {
      const data = JSON.parse((event as MessageEvent<string>).data) as Record<string, unknown>;
      // The server has a new store, which counts its events from 1 again.
      if (Number(data.last_event_id) < last) last = 0;
      listener.snapshot(data);
    });
    for (const name of Object.values(EVENT)) source.addEventListener(name, receive(name) as EventListener);
    source.addEventListener(EXECUTION_OUTPUT, (event) => {
      listener.output?.(JSON.parse((event as MessageEvent<string>).data) as OutputChunk);
    });
    source.onerror = () => {
      source?.close();
      if (stopped) return;
      flush();
      void retry();
    };
  };

  /** Reconnects after a delay, unless the server reports that the stream has ended (204) or does not exist (404). */
  const retry = async () => {
    try {
      const separator = path.includes("?") ? "&" : "?";
      const abort = new AbortController();
      const response = await fetch(`${path}${separator}after=${last}`, { signal: abort.signal });
      abort.abort();
      if (response.status === 204 || response.status === 404) {
        over = true;
        if (!stopped) listener.connection("over");
        return;
      }
    } catch {
      // The server cannot be reached: reconnect after the delay below.
    }
    if (stopped) return;
    listener.connection("lost");
    timer = setTimeout(connect, delay);
    delay = Math.min(delay * 2, MAX_DELAY);
  };

  connect();
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      source?.close();
    },
    resume() {
      if (!over || stopped) return;
      over = false;
      connect();
    },
  };
}
