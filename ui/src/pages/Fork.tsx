// Asks again from some point of a debate on; what was answered before it is taken over, and costs nothing.

import { GitFork } from "lucide-react";
import { useId, useRef, useState, type FormEvent } from "react";

import { post } from "../model/api";
import { useDoing } from "../model/hooks";
import { Said } from "../parts/Said";
import { Button, FIELD, Textarea } from "../parts/ui";
import { go, useRoute } from "../route";

interface Props {
  run: string;
  rounds: number;
  /** Those of a consultation; a debate has one, which need not be named. */
  moves: { id: string; title: string }[];
}

/** Who can be told something else. */
const ROLES = ["critic", "D1", "D2", "D3"] as const;

export function Fork({ run, rounds, moves }: Props) {
  // The browser's own: it keeps the focus, and needs no style in line, which the policy of the server refuses.
  const dialog = useRef<HTMLDialogElement>(null);
  // Whoever reads a round means that one.
  const { query } = useRoute();
  const [round, setRound] = useState(query.get("round") ?? "");
  const [move, setMove] = useState(query.get("move") ?? "");
  const [role, setRole] = useState<string>(ROLES[0]);
  const [words, setWords] = useState("");
  const { doing, problem, perform } = useDoing();
  const id = useId();
  const begin = (event?: FormEvent, yes = false) => {
    event?.preventDefault();
    const at = round === "" ? null : move === "" ? `round-${round}` : `${move}/round-${round}`;
    const told = words.trim() === "" ? {} : { told: { [role]: words.trim() } };
    void perform(async () => {
      const fork = await post("/api/runs/{id}/fork", { id: run }, { ...(at === null ? {} : { at }), ...told, ...(yes ? { yes } : {}) });
      go(`/runs/${fork.id}`);
    });
  };
  return (
    <>
      <Button onClick={() => dialog.current?.showModal()}>
        <GitFork aria-hidden className="size-4" />
        Fork
      </Button>
      <dialog ref={dialog} aria-labelledby={`${id}-title`} className="m-auto max-h-[92dvh] w-[min(30rem,94vw)] overflow-y-auto rounded-lg border border-line bg-raised p-5 text-ink shadow-2xl backdrop:bg-black/40">
          <h2 id={`${id}-title`} className="font-medium">
            Fork this run
          </h2>
          <p className="mt-1 mb-4 text-sm text-soft">
            A new run that takes over what was answered here. From the round that you choose on everything is asked again, and what is asked again is paid for again.
          </p>
          <form onSubmit={begin} className="grid gap-3 text-sm">
            <label className="grid gap-1" htmlFor={`${id}-round`}>
              From
              <select id={`${id}-round`} className={FIELD} value={round} onChange={(event) => setRound(event.target.value)}>
                <option value="">nowhere: only what failed is asked again</option>
                {Array.from({ length: rounds }, (_, index) => (
                  <option key={index} value={index + 1}>
                    round {index + 1}
                  </option>
                ))}
              </select>
            </label>
            {moves.length > 0 && (
              <label className="grid gap-1" htmlFor={`${id}-move`}>
                Of
                <select id={`${id}-move`} className={FIELD} value={move} disabled={round === ""} onChange={(event) => setMove(event.target.value)}>
                  <option value="">all debates</option>
                  {moves.map(({ id: one, title }) => (
                    <option key={one} value={one}>
                      {one} {title}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <fieldset className="grid gap-2" disabled={round === ""}>
              <legend className="mb-1">From there on, tell (if anything)</legend>
              <select aria-label="Who is told" className={FIELD} value={role} onChange={(event) => setRole(event.target.value)}>
                {ROLES.map((one) => (
                  <option key={one} value={one}>
                    {one === "critic" ? "the critic" : `the judge ${one}`}
                  </option>
                ))}
              </select>
              <Textarea aria-label="What they are told to be" placeholder="What they are told to be, such as: You doubt every figure that has no source." value={words} onChange={(event) => setWords(event.target.value)} />
            </fieldset>
            {problem && <Said problem={problem} />}
            <div className="flex flex-wrap justify-end gap-2">
              <Button onClick={() => dialog.current?.close()}>Leave it</Button>
              {problem?.status === 402 ? (
                <Button look="primary" disabled={doing} onClick={() => begin(undefined, true)}>
                  Spend it, and fork
                </Button>
              ) : (
                <Button type="submit" look="primary" disabled={doing}>
                  {doing ? "Forking…" : "Fork"}
                </Button>
              )}
            </div>
          </form>
      </dialog>
    </>
  );
}
