// Subscription to a server-sent event stream. Each event is delivered once and in order, across reconnections.

import { EVENT, EXECUTION_OUTPUT, SNAPSHOT } from "./events";

/** One stored event of a run or workspace. */
export interface ServerEvent {
  id: number;
  name: string;
  run?: string;
  at: number;
  data: Record<string, unknown>;
}

/** State of a stream; `over` means that the server has no more events for it. */
export type Connection = "connecting" | "open" | "lost" | "over";

/** Output of a program while it runs. It is not stored; after a reconnection the server sends it from the beginning. */
export interface OutputChunk {
  attempt: number;
  candidate: number | null;
  /** `null` marks the start, or a restart, of the output. */
  stream: "stdout" | "stderr" | null;
  text: string;
  /** Whether live output stops here; the rest comes with the result. */
  cut: boolean;
}

interface Listener {
  /** Called with the first message of each connection. */
  snapshot(data: Record<string, unknown>): void;
  output?(chunk: OutputChunk): void;
  /** Called with the events received since the last frame. */
  events(events: ServerEvent[]): void;
  connection(state: Connection): void;
}

/** First and maximum delay before reconnecting, in milliseconds; the delay doubles each time. */
const MIN_DELAY = 500;
const MAX_DELAY = 8000;

export interface Subscription {
  stop(): void;
  /** Reconnects to a stream that was over, as a resumed run has new events. */
  resume(): void;
}

/** Subscribes to a stream until `stop` is called; reconnects after a lost connection. */
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
    // Deliver a burst of events together, once per frame, so that the page renders once.
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
      listener.snapshot(JSON.parse((event as MessageEvent<string>).data) as Record<string, unknown>);
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

  /** Reconnects after a delay, unless the server answers that the stream is over. */
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
      // The server cannot be reached; try again below.
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
