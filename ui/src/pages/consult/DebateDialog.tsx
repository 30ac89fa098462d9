// Side panel with the transcript of one debate of a consultation.

import { X } from "lucide-react";
import { Dialog } from "radix-ui";
import { useState } from "react";

import { isActive } from "../../model/api";
import { moveIds, type ConversationId } from "../../model/consult";
import { Badge, Button, EmptyState } from "../../parts/ui";
import { Transcript } from "../debate/Transcript";
import { useConsultation } from "./consultation";

interface Props {
  move: string;
  log: string | null;
  round: number | null;
  onOpenRound: (log: ConversationId, round: number | null) => void;
  onClose: () => void;
}

export function DebateDialog({ move, log, round, onOpenRound, onClose }: Props) {
  const { run, state, rounds, agents, titleOf, sourceOf } = useConsultation();
  const debate = state.debates[move] ?? null;
  const unknown = !isActive(run.status) && !moveIds(state).includes(move) && moveIds(state).length > 0;
  // When the panel closes, the focus returns to the element that had it before the panel opened.
  const [opener] = useState(() => document.activeElement);
  return (
    <Dialog.Root open modal={false} onOpenChange={(open) => !open && onClose()}>
      <Dialog.Content
        aria-describedby={undefined}
        onInteractOutside={(event) => event.preventDefault()}
        onCloseAutoFocus={(event) => {
          event.preventDefault();
          if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
        }}
        className="fixed inset-y-0 right-0 z-40 flex w-full animate-arrive flex-col border-l border-line bg-raised shadow-2xl md:w-[min(48rem,92vw)]"
      >
        <div className="flex items-center gap-3 border-b border-line px-4 py-3">
          <Dialog.Title className="line-clamp-2 flex-1 font-medium" dir="auto">
            <span className="font-mono text-soft">{move}</span> {titleOf(move) ?? "Debate"}
          </Dialog.Title>
          {debate?.score != null && <Badge tone="accent">score {debate.score} of 120</Badge>}
          <Dialog.Close asChild>
            <Button variant="quiet" aria-label="Close">
              <X aria-hidden className="size-4" />
            </Button>
          </Dialog.Close>
        </div>
        {unknown ? (
          <div className="p-4">
            <EmptyState title={`Move ${move} not found`}>The move may belong to a different consultation than this one.</EmptyState>
          </div>
        ) : (
          <Transcript source={sourceOf(move)} debate={debate} rounds={rounds} agents={agents} log={log} round={round} onOpenRound={onOpenRound} />
        )}
      </Dialog.Content>
    </Dialog.Root>
  );
}
