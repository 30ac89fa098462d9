// Documents of a consultation: the list of all documents, and the chosen document with a download link.

import { Download } from "lucide-react";
import { useEffect } from "react";

import { apiUrl } from "../../model/api";
import { useFetch, useText } from "../../model/hooks";
import type { RunView } from "../../model/schema";
import { Markdown } from "../../parts/Markdown";
import { ProblemNotice } from "../../parts/notices";
import { Button, Card, cn, EmptyState, Skeleton } from "../../parts/ui";

/** Layout: the list of documents beside the chosen document, or above the document on a phone. */
const COLUMNS = "grid gap-4 md:grid-cols-[16rem_1fr]";

/** Compares two document names: reports first, then by name. Numbers in names compare as numbers: m2 before m10. */
function order(one: string, other: string): number {
  const rank = (name: string) => (name === "report.md" ? 0 : name.startsWith("report.") ? 1 : 2);
  return rank(one) - rank(other) || one.localeCompare(other, "en", { numeric: true });
}

/** Names of files that are shown as text. Other files, such as the HTML report, can only be downloaded. */
const SHOWN = /\.(md|json|txt|toml)$/;

interface Props {
  run: RunView;
  /** Number of documents written so far, according to events. When it changes, the list is fetched again. */
  written: number;
  /** Name of the chosen document; `null` chooses the first document. */
  name: string | null;
  onOpen: (name: string) => void;
}

export function Documents({ run, written, name, onOpen }: Props) {
  const { value, problem, refetch } = useFetch(apiUrl("/api/runs/{id}/documents", { id: run.id }));
  useEffect(refetch, [refetch, written, run.status]);
  if (problem && !value) return <ProblemNotice problem={problem} />;
  if (!value) return <Loading />;
  if (value.files.length === 0) return <EmptyState title="No documents yet">Documents appear here as they are written.</EmptyState>;
  const files = [...value.files].sort((one, other) => order(one.name, other.name));
  // A link may contain the name of a document without its folder, such as `m1.md` for `moves/m1.md`.
  const named = files.find((file) => file.name === name) ?? files.find((file) => file.name.endsWith(`/${name}`));
  const chosen = name === null ? files[0] : named;
  return (
    <div className={COLUMNS}>
      <ul className="grid max-h-[70dvh] content-start gap-0.5 overflow-y-auto max-md:max-h-48 print:hidden" tabIndex={0} aria-label="Documents">
        {files.map((file) => (
          <li key={file.name}>
            <button
              type="button"
              aria-current={file === chosen}
              title={file.name}
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
      {chosen ? <Document key={chosen.name} run={run} name={chosen.name} /> : <EmptyState title={`Document ${name} not found`}>Choose a document from the list.</EmptyState>}
    </div>
  );
}

/** Placeholder while the list of documents loads: grey bars in the layout of the list and of a document. */
function Loading() {
  return (
    <div className={COLUMNS}>
      <div aria-hidden className="grid content-start gap-3 px-2 py-2 max-md:max-h-48 max-md:overflow-hidden">
        {Array.from({ length: 12 }, (_, index) => (
          <div key={index} className="h-3 w-3/4 animate-pulse rounded-sm bg-line" />
        ))}
      </div>
      <Card>
        <div aria-hidden className="mb-2 h-9 w-40 animate-pulse rounded-md bg-sunken" />
        <Skeleton />
      </Card>
    </div>
  );
}

function Document({ run, name }: { run: RunView; name: string }) {
  const readable = SHOWN.test(name);
  const path = apiUrl("/api/runs/{id}/documents/{document}", { id: run.id, document: name });
  const text = useText(readable ? path : null);
  return (
    <Card className="min-w-0">
      <div className="mb-2 flex flex-wrap items-center gap-3">
        <h2 className="flex-1 font-mono text-sm wrap-anywhere">{name}</h2>
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
      {readable && text === undefined && <Skeleton />}
      {readable && text === null && <p className="text-sm text-soft">Cannot load this document.</p>}
      {!readable && <p className="text-sm text-soft">This file is not shown here. Download the file and open it in a browser.</p>}
    </Card>
  );
}
