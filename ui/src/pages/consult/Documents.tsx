// Every document of a consultation, to be read or kept.

import { Download } from "lucide-react";
import { useEffect } from "react";

import { at } from "../../model/api";
import { useAsked, useText } from "../../model/hooks";
import type { RunView } from "../../model/schema";
import { Markdown } from "../../parts/Markdown";
import { Said } from "../../parts/Said";
import { Button, Card, cn, Empty } from "../../parts/ui";

/** What it came to first, then as people count: m2 before m10. */
function order(one: string, other: string): number {
  const rank = (name: string) => (name === "report.md" ? 0 : name.startsWith("report.") ? 1 : 2);
  return rank(one) - rank(other) || one.localeCompare(other, "en", { numeric: true });
}

/** What can be shown as it is; a page is only there to be kept. */
const SHOWN = /\.(md|json|txt|toml)$/;

interface Props {
  run: RunView;
  /** How many were told of so far. */
  told: number;
  name: string | null;
  onOpen: (name: string) => void;
}

export function Documents({ run, told, name, onOpen }: Props) {
  const { value, problem, again } = useAsked(at("/api/runs/{id}/documents", { id: run.id }));
  useEffect(again, [again, told, run.status]);
  if (problem && !value) return <Said problem={problem} />;
  if (!value) return <p className="text-sm text-soft">Looking…</p>;
  if (value.files.length === 0) return <Empty title="No documents yet">They are here as soon as they are written.</Empty>;
  const files = [...value.files].sort((one, other) => order(one.name, other.name));
  // Whoever names a move means its document, in whatever folder that is.
  const named = files.find((file) => file.name === name) ?? files.find((file) => file.name.endsWith(`/${name}`));
  const chosen = name === null ? files[0] : named;
  return (
    <div className="grid gap-4 md:grid-cols-[16rem_1fr]">
      <ul className="grid max-h-[70dvh] content-start gap-0.5 overflow-y-auto max-md:max-h-48 print:hidden" tabIndex={0} aria-label="Documents">
        {files.map((file) => (
          <li key={file.name}>
            <button
              type="button"
              aria-current={file === chosen}
              onClick={() => onOpen(file.name)}
              className={cn(
                "w-full cursor-pointer truncate rounded-md px-2 py-1.5 text-left font-mono text-xs hover:bg-sunken",
                file === chosen && "bg-sunken font-medium",
              )}
            >
              {file.name}
            </button>
          </li>
        ))}
      </ul>
      {chosen ? <Document key={chosen.name} run={run} name={chosen.name} /> : <Empty title={`There is no document called ${name}`}>Choose one from the list.</Empty>}
    </div>
  );
}

function Document({ run, name }: { run: RunView; name: string }) {
  const readable = SHOWN.test(name);
  const path = at("/api/runs/{id}/documents/{document}", { id: run.id, document: name });
  const text = useText(readable ? path : null);
  return (
    <Card className="min-w-0">
      <div className="mb-2 flex flex-wrap items-center gap-3">
        <h2 className="min-w-0 flex-1 truncate font-mono text-sm">{name}</h2>
        <Button asChild>
          <a href={path} download>
            <Download aria-hidden className="size-4" />
            Download
          </a>
        </Button>
      </div>
      {text != null && name.endsWith(".md") && <Markdown text={text} />}
      {text != null && !name.endsWith(".md") && (
        <pre className="max-h-[70dvh] overflow-auto rounded-md bg-sunken p-3 text-xs whitespace-pre-wrap print:max-h-none" tabIndex={0} aria-label={name} dir="auto">
          {text}
        </pre>
      )}
      {text == null && <p className="text-sm text-soft">{!readable ? "A page for itself, to be downloaded and opened in a browser." : text === null ? "It cannot be read." : "Looking…"}</p>}
    </Card>
  );
}
