// Requests of the start form.

import type { StartBody } from "../../model/schema";

export type StartKind = "consult" | "run" | "debate";

/** A file that is sent with a request. */
export interface Upload {
  name: string;
  bytes: number;
  base64: string;
}

/** Maximum number of files (limit of the server) and of bytes: a request has at most 32 MB by default, and base64 adds a third. */
export const MAX_FILES = 200;
export const MAX_BYTES = 20 * 1024 * 1024;

/** Default and maximum number of debate rounds. */
export const ROUNDS = 10;
export const MAX_ROUNDS = 50;

export interface Options {
  rounds: number;
  blindScores: boolean;
  /** The text is the name of a private company, not a ticker. */
  privateCompany: boolean;
  files: Upload[];
}

/** Whether the server accepts the text as a ticker. */
export const isTicker = (text: string) => /^[A-Za-z0-9][A-Za-z0-9.-]{0,9}$/.test(text.trim());

/** Guesses the kind of trial from the text; used only as a suggestion. */
export function looksLike(text: string): StartKind {
  const plain = text.trim();
  if (plain === "" || isTicker(plain)) return "consult";
  return plain.startsWith("#") || plain.endsWith("?") || plain.split("\n").length > 3 ? "debate" : "run";
}

/** Body of the request that starts a run; options with their default value are omitted. */
export function startBody(kind: StartKind, text: string, { rounds, blindScores, privateCompany, files }: Options): StartBody {
  const plain = text.trim();
  const uploads = files.length === 0 || kind === "debate" ? {} : { files: files.map(({ name, base64 }) => ({ name, base64 })) };
  if (kind === "run") return { kind, task: plain, ...uploads };
  const more = rounds === ROUNDS ? {} : { rounds };
  if (kind === "debate") return { kind, document: plain, ...more };
  const company = privateCompany ? { name: plain } : { ticker: plain.toUpperCase() };
  return { kind, ...company, ...more, ...(blindScores ? { blind_scores: true } : {}), ...uploads };
}

/** Why more files cannot be added, or `null` if they can. */
export function refusal(before: readonly { name: string; bytes: number }[], more: readonly { name: string; size: number }[]): string | null {
  if (before.length + more.length > MAX_FILES) return `At most ${MAX_FILES} files can be sent.`;
  const names = new Set(before.map((file) => file.name));
  for (const file of more) {
    if (names.has(file.name)) return `A file named ${file.name} was already added.`;
    names.add(file.name);
  }
  const bytes = before.reduce((sum, file) => sum + file.bytes, 0) + more.reduce((sum, file) => sum + file.size, 0);
  return bytes > MAX_BYTES ? `At most ${MAX_BYTES / (1024 * 1024)} MB can be sent from this page; the command line takes more.` : null;
}

/** Reads a file and encodes it in base64. */
export async function upload(file: File): Promise<Upload> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`Cannot read ${file.name}.`));
    reader.readAsDataURL(file);
  });
  return { name: file.name, bytes: file.size, base64: url.slice(url.indexOf(",") + 1) };
}
