// Progress of a debate as a strip of cells: one row for each judge, and one cell for each round, from left to right.
// The upper half of a cell is the critic's answer, the lower half the judge's answer.

import { CONVERSATION_IDS, type Debate, type ConversationId } from "../../model/consult";
import { formatCount } from "../../model/format";
import { cn } from "../../parts/ui";

/** Id of the judge of each conversation. */
export const JUDGES: Record<ConversationId, string> = { i1: "D1", i2: "D2", i3: "D3" };

interface Props {
  debate: Debate | null;
  rounds: number;
  /**
   * Called when the user clicks a round that the critic has answered. If it is `undefined`, rounds cannot be clicked.
   */
  onRound?: (log: ConversationId, round: number) => void;
  tall?: boolean;
}

export function RoundStrip({ debate, rounds, onRound, tall = false }: Props) {
  const all = Array.from({ length: rounds }, (_, index) => index + 1);
  return (
    <div className="grid gap-1">
      {CONVERSATION_IDS.map((log) => {
        const conversation = debate?.conversations[log];
        const completed = Math.min(conversation?.critic ?? 0, conversation?.judge ?? 0);
        return (
          <div key={log} className="flex items-center gap-1.5">
            <span className="w-5 shrink-0 font-mono text-[10px] text-soft">{JUDGES[log]}</span>
            <div
              role="img"
              aria-label={`Judge ${JUDGES[log]}: ${completed} of ${formatCount(rounds, "round")} completed${conversation?.failed ? `, ended early: ${conversation.failed}` : ""}`}
              className="flex flex-1 gap-0.5"
            >
              {all.map((round) => {
                const critic = (conversation?.critic ?? 0) >= round;
                const judge = (conversation?.judge ?? 0) >= round;
                const criticNext = conversation?.next === "critic" && conversation.critic + 1 === round;
                const judgeNext = conversation?.next === "judge" && conversation.judge + 1 === round;
                return (
                  <span
                    key={round}
                    onClick={onRound && critic ? () => onRound(log, round) : undefined}
                    className={cn("grid flex-1 gap-px", tall ? "h-5" : "h-4", onRound && critic && "cursor-pointer")}
                  >
                    <span className={cn("rounded-t-xs bg-sunken", critic && "bg-warning/70", criticNext && "animate-pulse bg-warning/40")} />
                    <span className={cn("rounded-b-xs bg-sunken", judge && "bg-accent/80", judgeNext && "animate-pulse bg-accent/40")} />
                  </span>
                );
              })}
            </div>
          </div>
        );
      })}
    </div>
  );
}
