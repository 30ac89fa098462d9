// Scoped tokens of workers: listed, and revoked one by one.

import { Trash2 } from "lucide-react";

import { at, remove } from "../model/api";
import { useAsked, useDoing } from "../model/hooks";
import { ago } from "../model/words";
import { Said } from "../parts/Said";
import { Badge, Button, Empty, Heading } from "../parts/ui";

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** List of the tokens that are valid, each with a button that revokes it. */
export function Tokens() {
  const { value, problem, again } = useAsked(at("/api/tokens", {}));
  const { doing, problem: refused, perform } = useDoing();
  return (
    <section aria-labelledby="tokens" className="grid gap-3">
      <Heading id="tokens">Tokens of workers</Heading>
      {(problem ?? refused) && <Said problem={(problem ?? refused)!} />}
      {value?.tokens.length === 0 && (
        <Empty title="No tokens">
          <code className="font-mono">assize tokens create SCOPE</code> creates one that opens the tools of one workspace, or the tool that runs code.
        </Empty>
      )}
      <ul className="divide-y divide-line rounded-lg border border-line bg-raised empty:hidden">
        {value?.tokens.map(({ id, scope, created, expires }) => (
          <li key={id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm">
            <span className="font-mono">{id}</span>
            <Badge>{scope}</Badge>
            <span className="text-xs text-soft">
              created {ago(created)}, expires {DATE.format(expires)}
            </span>
            <span className="flex-1" />
            <Button
              look="danger"
              disabled={doing}
              aria-label={`Revoke ${id}`}
              onClick={() =>
                void perform(async () => {
                  await remove("/api/tokens/{token_id}", { token_id: id });
                  again();
                })
              }
            >
              <Trash2 aria-hidden className="size-4" />
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
