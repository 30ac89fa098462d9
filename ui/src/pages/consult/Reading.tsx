// One debate, to be read: what was said, round by round, with the move beside it.

import { X } from "lucide-react";
import { Dialog, Tabs } from "radix-ui";
import { useEffect, useRef } from "react";

import type { Run } from "../../model/api";
import { LOGS, type Debate, type Log } from "../../model/consult";
import { useAsked, useText } from "../../model/hooks";
import { Markdown } from "../../parts/Markdown";
import { Said } from "../../parts/Said";
import { Badge, Button, cn, Empty } from "../../parts/ui";
import { Strip } from "./Strip";

interface Entry {
  role: string;
  content: string;
  round: number;
}

interface Spoken {
  moves: Record<string, Partial<Record<Log, Entry[]>>>;
}

const JUDGES: Record<Log, string> = { i1: "D1 Growth", i2: "D2 Operations", i3: "D3 Stakeholders" };

interface Props {
  run: Run;
  move: string;
  debate: Debate | null;
  rounds: number;
  log: string | null;
  round: number | null;
  onPlace: (log: Log, round: number | null) => void;
  onClose: () => void;
}

export function Reading({ run, move, debate, rounds, log, round, onPlace, onClose }: Props) {
  const chosen = LOGS.find((one) => one === log) ?? "i1";
  const path = `/api/runs/${encodeURIComponent(run.id)}`;
  const spoken = useAsked<Spoken>(`${path}/transcripts?move=${encodeURIComponent(move)}`);
  // Whenever somebody has spoken, the words are fetched.
  const turns = debate ? LOGS.reduce((sum, one) => sum + debate.conversations[one].critic + debate.conversations[one].judge, 0) : 0;
  const again = useRef(spoken.again);
  again.current = spoken.again;
  useEffect(() => {
    const timer = setTimeout(() => again.current(), 150);
    return () => clearTimeout(timer);
  }, [turns, debate?.score]);
  const entries = spoken.value?.moves[move]?.[chosen] ?? [];
  const goTo = (to: number) => {
    onPlace(chosen, to);
    document.getElementById(`round-${to}`)?.scrollIntoView({ block: "start", behavior: "smooth" });
  };
  // Whoever comes by a link is taken to the round it names.
  const arrived = useRef(false);
  useEffect(() => {
    if (arrived.current || round === null || entries.length === 0) return;
    arrived.current = true;
    document.getElementById(`round-${round}`)?.scrollIntoView({ block: "start" });
  }, [round, entries.length]);
  return (
    <Dialog.Root open modal={false} onOpenChange={(open) => !open && onClose()}>
      <Dialog.Content
        aria-describedby={undefined}
        onInteractOutside={(event) => event.preventDefault()}
        className="fixed inset-y-0 right-0 z-40 flex w-full flex-col border-l border-line bg-raised shadow-2xl md:w-[min(48rem,92vw)]"
      >
        <div className="flex items-center gap-3 border-b border-line px-4 py-3">
          <Dialog.Title className="min-w-0 flex-1 truncate font-medium">
            <span className="font-mono text-soft">{move}</span> the debate
          </Dialog.Title>
          {debate?.score != null && <Badge tone="accent">{debate.score} of 120</Badge>}
          <Dialog.Close asChild>
            <Button look="quiet" aria-label="Close">
              <X aria-hidden className="size-4" />
            </Button>
          </Dialog.Close>
        </div>
        <div className="border-b border-line px-4 py-3">
          <Strip debate={debate} rounds={rounds} onRound={(to, at) => onPlace(to, at)} />
        </div>
        <Tabs.Root value={chosen} onValueChange={(next) => onPlace(next as Log, null)} className="flex min-h-0 flex-1 flex-col">
          <Tabs.List aria-label="Conversations" className="flex gap-1 border-b border-line px-3">
            {LOGS.map((one) => (
              <Tabs.Trigger
                key={one}
                value={one}
                className="-mb-px cursor-pointer border-b-2 border-transparent px-2 py-2 text-sm text-soft data-[state=active]:border-accent data-[state=active]:text-ink"
              >
                {JUDGES[one]}
              </Tabs.Trigger>
            ))}
          </Tabs.List>
          <Tabs.Content value={chosen} className="grid min-h-0 flex-1 gap-4 overflow-y-auto p-4 outline-none md:grid-cols-[1fr_16rem]">
            <div className="min-w-0">
              <Rounds entries={entries} current={round} onRound={goTo} />
              {spoken.problem && <Said problem={spoken.problem} />}
              {entries.length === 0 && !spoken.problem && <Empty title="Nobody has spoken yet" />}
              <ol className="grid gap-3">
                {entries.map((entry, index) => (
                  <li key={index} id={entry.role === "critic" ? `round-${entry.round}` : undefined} className="scroll-mt-4">
                    <p className={cn("text-xs font-medium", entry.role === "critic" ? "text-doubt" : "text-accent")}>
                      {entry.role} · round {entry.round}
                    </p>
                    <Markdown text={entry.content} />
                  </li>
                ))}
              </ol>
            </div>
            <aside aria-label="The move" className="min-w-0 text-soft md:border-l md:border-line md:pl-4">
              <Move path={path} move={move} />
            </aside>
          </Tabs.Content>
        </Tabs.Root>
      </Dialog.Content>
    </Dialog.Root>
  );
}

function Rounds({ entries, current, onRound }: { entries: Entry[]; current: number | null; onRound: (round: number) => void }) {
  const rounds = [...new Set(entries.map((entry) => entry.round))];
  if (rounds.length < 2) return null;
  return (
    <nav aria-label="Rounds" className="mb-3 flex flex-wrap gap-1">
      {rounds.map((round) => (
        <Button key={round} look={round === current ? "plain" : "quiet"} className="min-h-7 px-2 py-0.5 text-xs" onClick={() => onRound(round)}>
          {round}
        </Button>
      ))}
    </nav>
  );
}

/** The document of a move. */
function Move({ path, move }: { path: string; move: string }) {
  const text = useText(`${path}/documents/${encodeURIComponent(move)}.md`);
  if (text === undefined) return <p className="text-xs">Looking…</p>;
  return text === null ? <p className="text-xs">The move is not written yet.</p> : <Markdown text={text} />;
}
