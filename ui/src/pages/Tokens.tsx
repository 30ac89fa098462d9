// Section of the System page with the scoped tokens, each of which grants access to one MCP endpoint.

import { Trash2 } from "lucide-react";

import { apiUrl, remove } from "../model/api";
import { useFetch, useAction } from "../model/hooks";
import { formatAgo } from "../model/format";
import { ProblemNotice } from "../parts/notices";
import { Badge, Button, EmptyState, Heading } from "../parts/ui";

const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** List of the valid scoped tokens. Each row has a button that revokes the token. */
export function Tokens() {
  const { value, problem, refetch } = useFetch(apiUrl("/api/tokens", {}));
  const { pending, problem: refused, perform } = useAction();
  return (
    <section aria-labelledby="tokens" className="grid gap-3">
      <Heading id="tokens">Scoped tokens</Heading>
      {(problem ?? refused) && <ProblemNotice problem={(problem ?? refused)!} />}
      {value?.tokens.length === 0 && (
        <EmptyState title="No scoped tokens">
          <code className="font-mono">assize tokens create SCOPE</code> creates an access token that is valid only for the draft tools of one workspace, or only for the code tool.
        </EmptyState>
      )}
      <ul className="divide-y divide-line rounded-lg border border-line bg-raised empty:hidden">
        {value?.tokens.map(({ id, scope, created, expires }) => (
          <li key={id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm">
            <span className="font-mono">{id}</span>
            <Badge>{scope}</Badge>
            <span className="text-xs text-soft">
              created {formatAgo(created)}, expires {DATE.format(expires)}
            </span>
            <span className="flex-1" />
            <Button
              variant="danger"
              disabled={pending}
              aria-label={`Revoke token ${id}`}
              onClick={() =>
                void perform(async () => {
                  await remove("/api/tokens/{token_id}", { token_id: id });
                  refetch();
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
