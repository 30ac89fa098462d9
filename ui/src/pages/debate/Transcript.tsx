// Transcript of a debate, round by round, with the text of the move beside it. The transcript grows while the debate
// runs.

import { ArrowDown } from "lucide-react";
import { Tabs } from "radix-ui";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

import type { Address } from "../../model/api";
import { CONVERSATION_IDS, answerCount, type Debate, type ConversationId } from "../../model/consult";
import { useFetch, useText } from "../../model/hooks";
import type { ConversationEntry, Transcripts } from "../../model/schema";
import { Markdown } from "../../parts/Markdown";
import { ProblemNotice } from "../../parts/notices";
import { Button, cn, EmptyState, Skeleton, TAB } from "../../parts/ui";
import { JUDGES, RoundStrip } from "./RoundStrip";

/** URLs from which a transcript and the text of its move are loaded. */
export interface Source {
  transcripts: Address<Transcripts>;
  /** Returns the conversations of the debate from the response of the server, by conversation id. */
  logs: (response: Transcripts) => Record<string, ConversationEntry[]> | undefined;
  /** URL of the document with the text of the move. */
  move: string;
}

interface Props {
  source: Source;
  debate: Debate | null;
  rounds: number;
  /** Names of the judges, by judge id such as `D1`; empty until the run has a result. */
  agents: Record<string, string>;
  /** Id of the open conversation; `null` opens the first conversation. */
  log: string | null;
  /** Number of the round that the transcript scrolls to; `null` for none. */
  round: number | null;
  /** Called when the user chooses a conversation or a round. */
  onOpenRound: (log: ConversationId, round: number | null) => void;
  /** Whether the mouse wheel scrolls the transcript. If false, it zooms the diagram that contains the transcript. */
  scrolls?: boolean;
}

/**
 * Distance from the end of the transcript, in pixels. If the scroll position is closer to the end, the transcript
 * scrolls to new messages.
 */
const END_DISTANCE = 48;

export function Transcript({ source, debate, rounds, agents, log, round, onOpenRound, scrolls = true }: Props) {
  const chosen = CONVERSATION_IDS.find((one) => one === log) ?? "i1";
  const { value, problem, refetch } = useFetch(source.transcripts);
  // Fetch the transcript again after each new message.
  const messages = debate ? answerCount(debate) : 0;
  useEffect(() => {
    const timer = setTimeout(refetch, 150);
    return () => clearTimeout(timer);
  }, [refetch, messages, debate?.score]);
  const entries = (value === null ? undefined : source.logs(value))?.[chosen] ?? [];
  const area = useRef<HTMLDivElement>(null);
  const show = (to: number, behavior: ScrollBehavior) =>
    area.current?.querySelector(`[data-round="${to}"]`)?.scrollIntoView({ block: "start", behavior });
  // Scroll once to the round that the URL names.
  const shownRound = useRef<string | null>(null);
  const target = round === null ? null : `${chosen} ${round}`;
  useEffect(() => {
    if (target === null || round === null || shownRound.current === target || entries.length === 0) return;
    shownRound.current = target;
    show(round, "auto");
  }, [target, round, entries.length]);
  const [atEnd, setAtEnd] = useState(true);
  const growing = debate !== null && debate.score === null;
  useLayoutEffect(() => {
    if (growing && atEnd && round === null && area.current) area.current.scrollTop = area.current.scrollHeight;
  }, [growing, atEnd, round, entries.length, chosen]);
  return (
    <Tabs.Root value={chosen} onValueChange={(next) => onOpenRound(next as ConversationId, null)} className="flex min-h-0 flex-1 flex-col">
      <div className="border-b border-line px-4 py-3">
        <RoundStrip debate={debate} rounds={rounds} onRound={(to, at) => onOpenRound(to, at)} />
      </div>
      <Tabs.List aria-label="Conversations of the critic with each judge" className="flex gap-1 border-b border-line px-3 print:hidden">
        {CONVERSATION_IDS.map((one) => (
          <Tabs.Trigger key={one} value={one} className={cn(TAB, "px-2")}>
            Judge {JUDGES[one]} <span className="max-sm:hidden">{agents[JUDGES[one]]}</span>
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      <Tabs.Content value={chosen} className="relative flex min-h-0 flex-1 flex-col [container-type:size] print:block print:[container-type:normal]">
        <div
          ref={area}
          tabIndex={0}
          aria-label="Transcript"
          onWheelCapture={({ currentTarget, deltaY, ctrlKey }) => {
            const { scrollTop, clientHeight, scrollHeight } = currentTarget;
            const more = deltaY < 0 ? scrollTop > 0 : scrollTop + clientHeight < scrollHeight - 1;
            // The browser reports a pinch gesture as a wheel event with `ctrlKey`. A pinch always zooms the diagram.
            currentTarget.classList.toggle("nowheel", scrolls && more && !ctrlKey);
          }}
          onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => setAtEnd(scrollTop + clientHeight >= scrollHeight - END_DISTANCE)}
          className="nodrag nopan grid min-h-0 flex-1 cursor-auto grid-cols-1 content-start gap-4 overflow-y-auto p-4 select-text md:grid-cols-[minmax(0,80ch)_minmax(14rem,1fr)]"
        >
          <div>
            <Rounds
              entries={entries}
              current={round}
              onRound={(to) => {
                shownRound.current = `${chosen} ${to}`;
                onOpenRound(chosen, to);
                show(to, "smooth");
              }}
            />
            {problem && <ProblemNotice problem={problem} />}
            {value === null && !problem && <Skeleton />}
            {value !== null && entries.length === 0 && !problem && <EmptyState title="No messages yet">Messages appear here as they are written.</EmptyState>}
            <ol className="grid gap-3">
              {entries.map((entry, index) => (
                <li key={index} data-round={entry.role === "critic" ? entry.round : undefined} className="scroll-mt-14">
                  <p className={cn("text-xs font-medium", entry.role === "critic" ? "text-warning" : "text-accent")}>
                    {entry.role === "critic" ? "Critic" : `Judge ${entry.role} ${agents[entry.role] ?? ""}`} · round {entry.round}
                  </p>
                  <Markdown text={entry.content} />
                </li>
              ))}
            </ol>
            <NextAnswer debate={debate} log={chosen} />
          </div>
          <aside aria-label="Text of the move" tabIndex={0} className="text-soft md:sticky md:top-0 md:max-h-[calc(100cqh-2rem)] md:overflow-y-auto md:border-l md:border-line md:pl-4">
            <Move path={source.move} />
          </aside>
        </div>
        {growing && !atEnd && (
          <Button
            className="absolute bottom-3 left-4 shadow-lg"
            onClick={() => {
              onOpenRound(chosen, null);
              area.current?.scrollTo({ top: area.current.scrollHeight, behavior: "smooth" });
            }}
          >
            <ArrowDown aria-hidden className="size-4" />
            Jump to the latest message
          </Button>
        )}
      </Tabs.Content>
    </Tabs.Root>
  );
}

/** Line below the transcript that names the critic or judge whose answer is expected next. */
function NextAnswer({ debate, log }: { debate: Debate | null; log: ConversationId }) {
  const next = debate?.score === null ? debate.conversations[log].next : null;
  if (!next) return null;
  const texts = { critic: "Waiting for the critic…", judge: `Waiting for judge ${JUDGES[log]}…`, scoring: `Waiting for the scores of judge ${JUDGES[log]}…` };
  return <p className="mt-3 animate-pulse text-xs text-soft">{texts[next]}</p>;
}

/** Buttons that scroll the transcript to a round. */
function Rounds({ entries, current, onRound }: { entries: ConversationEntry[]; current: number | null; onRound: (round: number) => void }) {
  const rounds = [...new Set(entries.map((entry) => entry.round))];
  if (rounds.length < 2) return null;
  return (
    <nav aria-label="Rounds" className="sticky -top-4 z-10 -mx-1 mb-2 flex flex-wrap items-center gap-1 bg-raised px-1 py-2 print:hidden">
      <span className="text-xs text-soft">Go to round</span>
      {rounds.map((round) => (
        <Button
          key={round}
          variant={round === current ? "plain" : "quiet"}
          aria-label={`Round ${round}`}
          aria-current={round === current ? "true" : undefined}
          className="min-h-7 min-w-7 px-2 py-0.5 text-xs"
          onClick={() => onRound(round)}
        >
          {round}
        </Button>
      ))}
    </nav>
  );
}

/** Text of the move under debate. */
function Move({ path }: { path: string }) {
  const text = useText(path);
  if (text === undefined) return <Skeleton />;
  return text === null ? <p className="text-xs">The text of this move is not available.</p> : <Markdown text={text} />;
}
