// Every document of a consultation, to be read or kept.

import { Download } from "lucide-react";
import { useEffect, useRef } from "react";

import type { Run } from "../../model/api";
import { useAsked, useText } from "../../model/hooks";
import { Markdown } from "../../parts/Markdown";
import { Said } from "../../parts/Said";
import { Button, Card, cn, Empty } from "../../parts/ui";

interface Files {
  files: { name: string; bytes: number }[];
}

/** The address of a document, folder by folder. */
const at = (run: Run, name: string) =>
  `/api/runs/${encodeURIComponent(run.id)}/documents/${name.split("/").map(encodeURIComponent).join("/")}`;

interface Props {
  run: Run;
  /** How many were told of so far. */
  told: number;
  name: string | null;
  onOpen: (name: string) => void;
}

export function Documents({ run, told, name, onOpen }: Props) {
  const { value, problem, again } = useAsked<Files>(`/api/runs/${encodeURIComponent(run.id)}/documents`);
  const anew = useRef(again);
  anew.current = again;
  useEffect(() => anew.current(), [told, run.status]);
  if (problem && !value) return <Said problem={problem} />;
  if (!value) return <p className="text-sm text-soft">Looking…</p>;
  if (value.files.length === 0) return <Empty title="No documents yet">They are here as soon as they are written.</Empty>;
  const chosen = value.files.find((file) => file.name === name) ?? value.files[0];
  return (
    <div className="grid gap-4 md:grid-cols-[16rem_1fr]">
      <ul className="grid max-h-[70dvh] content-start gap-0.5 overflow-y-auto">
        {value.files.map((file) => (
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
      {chosen && <Document key={chosen.name} run={run} name={chosen.name} />}
    </div>
  );
}

function Document({ run, name }: { run: Run; name: string }) {
  const readable = name.endsWith(".md");
  const path = at(run, name);
  const text = useText(readable ? path : null);
  return (
    <Card className="min-w-0">
      <div className="mb-2 flex items-center gap-3">
        <h2 className="min-w-0 flex-1 truncate font-mono text-sm">{name}</h2>
        <Button asChild>
          <a href={path} download>
            <Download aria-hidden className="size-4" />
            Download
          </a>
        </Button>
      </div>
      {text != null ? <Markdown text={text} /> : <p className="text-sm text-soft">{readable ? "Looking…" : "This is to be downloaded."}</p>}
    </Card>
  );
}
