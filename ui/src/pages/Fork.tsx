// Dialog that forks a run. The fork is a new run: it reuses the answers of the rounds before the chosen round and
// repeats all model calls from that round on.

import { GitFork } from "lucide-react";
import { useId, useRef, useState, type FormEvent } from "react";

import { post } from "../model/api";
import { useAction } from "../model/hooks";
import { ProblemNotice } from "../parts/notices";
import { Button, FIELD, Textarea } from "../parts/ui";
import { navigate, useRoute } from "../route";

interface Props {
  run: string;
  rounds: number;
  /** Proposed business moves of a consultation; empty for a debate, which is about a single move. */
  moves: { id: string; title: string }[];
}

/** Roles whose persona a fork can replace. */
const ROLES = ["critic", "D1", "D2", "D3"] as const;

export function Fork({ run, rounds, moves }: Props) {
  // The native dialog element keeps the focus inside the dialog. Dialog libraries use inline styles for this, which the
  // server's content security policy blocks.
  const dialog = useRef<HTMLDialogElement>(null);
  // Preselect the round and the business move that the user is viewing; the URL contains both.
  const { query } = useRoute();
  const [round, setRound] = useState(query.get("round") ?? "");
  const [move, setMove] = useState(query.get("move") ?? "");
  const [role, setRole] = useState<string>(ROLES[0]);
  const [persona, setPersona] = useState("");
  const { pending, problem, perform } = useAction();
  const id = useId();
  const submit = (event?: FormEvent, yes = false) => {
    event?.preventDefault();
    const at = round === "" ? null : move === "" ? `round-${round}` : `${move}/round-${round}`;
    const personas = round === "" || persona.trim() === "" ? {} : { personas: { [role]: persona.trim() } };
    void perform(async () => {
      const fork = await post("/api/runs/{id}/fork", { id: run }, { ...(at === null ? {} : { at }), ...personas, ...(yes ? { yes } : {}) });
      navigate(`/runs/${fork.id}`);
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
            A fork is a new run that reuses this run’s answers from the rounds before the chosen round. All model calls from the chosen round on are repeated, and cost money again.
          </p>
          <form onSubmit={submit} className="grid gap-3 text-sm">
            <label className="grid gap-1" htmlFor={`${id}-round`}>
              Repeat all model calls from
              <select id={`${id}-round`} className={FIELD} value={round} onChange={(event) => setRound(event.target.value)}>
                <option value="">no round: repeat only failed model calls</option>
                {Array.from({ length: rounds }, (_, index) => (
                  <option key={index} value={index + 1}>
                    round {index + 1}
                  </option>
                ))}
              </select>
            </label>
            {moves.length > 0 && (
              <label className="grid gap-1" htmlFor={`${id}-move`}>
                Proposed move whose debate is repeated
                <select id={`${id}-move`} className={FIELD} value={move} disabled={round === ""} onChange={(event) => setMove(event.target.value)}>
                  <option value="">all moves</option>
                  {moves.map(({ id: one, title }) => (
                    <option key={one} value={one}>
                      {one} {title}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <fieldset className="grid gap-2" disabled={round === ""}>
              <legend className="mb-1">New persona (instructions of a role) from that round on, optional</legend>
              <select aria-label="Role whose persona is replaced" className={FIELD} value={role} onChange={(event) => setRole(event.target.value)}>
                {ROLES.map((one) => (
                  <option key={one} value={one}>
                    {one === "critic" ? "critic" : `judge ${one}`}
                  </option>
                ))}
              </select>
              <Textarea aria-label="New persona" placeholder="For example: You doubt every figure that has no source." value={persona} onChange={(event) => setPersona(event.target.value)} />
            </fieldset>
            {problem && <ProblemNotice problem={problem} />}
            <div className="flex flex-wrap justify-end gap-2">
              <Button onClick={() => dialog.current?.close()}>Cancel</Button>
              {problem?.status === 402 ? (
                <Button variant="primary" disabled={pending} onClick={() => submit(undefined, true)}>
                  Confirm cost and fork
                </Button>
              ) : (
                <Button type="submit" variant="primary" disabled={pending}>
                  {pending ? "Forking…" : "Fork"}
                </Button>
              )}
            </div>
          </form>
      </dialog>
    </>
  );
}
