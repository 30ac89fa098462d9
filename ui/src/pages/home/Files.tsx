// File picker of the start form. The chosen files are sent with the request that starts the run.

import { Paperclip, X } from "lucide-react";
import { useId, useRef, useState } from "react";

import { formatBytes } from "../../model/format";
import { Button } from "../../parts/ui";
import { uploadError, upload, type Upload } from "./request";

export function Files({ label, hint, files, onChange }: { label: string; hint: string; files: Upload[]; onChange: (files: Upload[]) => void }) {
  const [problem, setProblem] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const about = useId();
  const add = async (chosen: File[]) => {
    const refused = uploadError(files, chosen);
    setProblem(refused);
    if (refused !== null || chosen.length === 0) return;
    try {
      onChange([...files, ...(await Promise.all(chosen.map(upload)))]);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <div className="grid gap-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label={label}
          onChange={(event) => {
            const chosen = [...(event.target.files ?? [])];
            // Reset the input. Otherwise choosing a file that was removed from the list causes no change event.
            event.target.value = "";
            void add(chosen);
          }}
        />
        <Button aria-describedby={about} onClick={() => input.current?.click()}>
          <Paperclip aria-hidden className="size-4" />
          {label}
        </Button>
        <span id={about} className="min-w-0 flex-1 basis-48 text-xs text-soft">
          {hint}
        </span>
      </div>
      {files.length > 0 && (
        <ul aria-label="Files to send" className="flex flex-wrap gap-1.5">
          {files.map((file) => (
            <li key={file.name} className="inline-flex max-w-full items-center gap-1 rounded-md border border-line bg-sunken py-0.5 pr-0.5 pl-2 text-xs">
              <span className="truncate font-mono" dir="auto">
                {file.name}
              </span>
              <span className="shrink-0 text-soft">{formatBytes(file.bytes)}</span>
              <Button variant="quiet" aria-label={`Remove ${file.name}`} className="min-h-7 px-1.5 py-0" onClick={() => onChange(files.filter((one) => one !== file))}>
                <X aria-hidden className="size-3.5" />
              </Button>
            </li>
          ))}
        </ul>
      )}
      {problem && (
        <p role="alert" className="text-sm text-bad">
          {problem}
        </p>
      )}
    </div>
  );
}
