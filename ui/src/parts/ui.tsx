// Basic components that all pages use: buttons, cards, input fields, badges, notices and placeholders.

import { clsx, type ClassValue } from "clsx";
import { Slot } from "radix-ui";
import type { ButtonHTMLAttributes, HTMLAttributes, InputHTMLAttributes, ReactNode, TextareaHTMLAttributes } from "react";
import { twMerge } from "tailwind-merge";

import type { RunState } from "../model/schema";

/** Joins CSS class names. If two Tailwind classes conflict, the later class wins. */
export function cn(...all: ClassValue[]): string {
  return twMerge(clsx(all));
}

const VARIANTS = {
  primary: "bg-accent text-on-accent hover:opacity-90",
  plain: "border border-line bg-raised hover:bg-sunken",
  quiet: "hover:bg-sunken",
  danger: "border border-line bg-raised text-bad hover:bg-sunken",
} as const;

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: keyof typeof VARIANTS;
  /** Applies the button's style to the child element, such as a link. */
  asChild?: boolean;
}

export function Button({ variant = "plain", asChild = false, className, ...rest }: ButtonProps) {
  const Part = asChild ? Slot.Root : "button";
  return (
    <Part
      {...(asChild ? {} : { type: "button" as const })}
      className={cn(
        "inline-flex min-h-9 cursor-pointer items-center justify-center gap-2 rounded-md px-3 py-1.5 text-sm font-medium transition-colors disabled:cursor-not-allowed disabled:opacity-50",
        VARIANTS[variant],
        className,
      )}
      {...rest}
    />
  );
}

/** Pill-shaped button that puts an example into an input field. */
export function Chip({ className, ...rest }: ButtonHTMLAttributes<HTMLButtonElement>) {
  return <button type="button" className={cn("cursor-pointer rounded-full border border-line px-2.5 py-1 hover:bg-sunken hover:text-ink", className)} {...rest} />;
}

export function Card({ className, ...rest }: HTMLAttributes<HTMLElement>) {
  return <section className={cn("rounded-lg border border-line bg-raised p-4", className)} {...rest} />;
}

export function Heading({ className, ...rest }: HTMLAttributes<HTMLHeadingElement>) {
  return <h2 className={cn("text-sm font-semibold tracking-wide text-soft", className)} {...rest} />;
}

/** CSS class names of a tab in a list of tabs. */
export const TAB =
  "-mb-px cursor-pointer border-b-2 border-transparent px-3 py-2 text-sm text-soft hover:text-ink data-[state=active]:border-accent data-[state=active]:font-medium data-[state=active]:text-ink";

export const FIELD = "w-full rounded-md border border-line bg-raised px-3 py-2 text-base placeholder:text-soft disabled:opacity-50 sm:text-sm";

export function Input({ className, ...rest }: InputHTMLAttributes<HTMLInputElement>) {
  return <input className={cn(FIELD, "min-h-9", className)} {...rest} />;
}

export function Textarea({ className, ...rest }: TextareaHTMLAttributes<HTMLTextAreaElement>) {
  return <textarea className={cn(FIELD, "min-h-24 leading-relaxed", className)} {...rest} />;
}

const TONES = {
  plain: "border-line text-soft",
  accent: "border-accent/40 text-accent",
  good: "border-good/40 text-good",
  bad: "border-bad/40 text-bad",
  warning: "border-warning/50 text-warning",
} as const;

export type Tone = keyof typeof TONES;

export function Badge({ tone = "plain", className, ...rest }: HTMLAttributes<HTMLSpanElement> & { tone?: Tone }) {
  return (
    <span
      className={cn(
        "inline-flex items-center gap-1 rounded-full border px-2 py-0.5 text-xs font-medium whitespace-nowrap",
        TONES[tone],
        className,
      )}
      {...rest}
    />
  );
}

const STATUS: Record<RunState, { tone: Tone; label: string }> = {
  waiting: { tone: "plain", label: "waiting" },
  running: { tone: "accent", label: "running" },
  stopped: { tone: "warning", label: "stopped" },
  done: { tone: "good", label: "done" },
  failed: { tone: "bad", label: "failed" },
  cancelled: { tone: "warning", label: "cancelled" },
};

export function StatusBadge({ status }: { status: RunState }) {
  const { tone, label } = STATUS[status];
  return (
    <Badge tone={tone}>
      {status === "running" && <span aria-hidden className="size-1.5 animate-pulse rounded-full bg-current" />}
      {label}
    </Badge>
  );
}

/** Renders a text and shows its parts between backticks as code. */
export function InlineCode({ text }: { text: string }) {
  return text.split(/`([^`]+)`/).map((part, index) =>
    index % 2 === 1 ? (
      <code key={index} className="rounded bg-sunken px-1 font-mono text-[0.9em]">
        {part}
      </code>
    ) : (
      part
    ),
  );
}

/** Box with a message. With the tone `bad`, screen readers announce the message as an alert. */
export function Notice({ tone = "plain", title, children }: { tone?: Tone; title: string; children?: ReactNode }) {
  const urgent = tone === "bad";
  return (
    <div
      role={urgent ? "alert" : "note"}
      className={cn("rounded-lg border bg-raised px-4 py-3 text-sm", TONES[tone])}
    >
      <p className="font-medium" dir="auto">
        <InlineCode text={title} />
      </p>
      {children && <div className="mt-1 text-ink/80">{children}</div>}
    </div>
  );
}

/** Placeholder for an empty list or page. The children explain what the user can do next. */
export function EmptyState({ title, page = false, children }: { title: string; /** Whether the placeholder is the only content of the page: then its title is an `h1`. */ page?: boolean; children?: ReactNode }) {
  const Title = page ? "h1" : "p";
  return (
    <div className="rounded-lg border border-dashed border-line px-4 py-8 text-center text-sm text-soft">
      <Title className="font-medium text-ink">{title}</Title>
      {children && <div className="mt-1">{children}</div>}
    </div>
  );
}

/** Tailwind widths of the placeholder lines; the list repeats after its last entry. */
const LINE_WIDTHS = ["w-full", "w-11/12", "w-full", "w-4/5", "w-2/3"] as const;

/** Grey placeholder lines that are shown while a text loads. */
export function Skeleton({ lines = 10 }: { lines?: number }) {
  return (
    <div role="status" aria-label="Loading" className="grid max-w-[80ch] gap-3 py-2">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} className={cn("h-3 animate-pulse rounded-sm bg-sunken", LINE_WIDTHS[index % LINE_WIDTHS.length])} />
      ))}
    </div>
  );
}

/** Progress bar. `value` is the completed share, from 0 to 1. */
export function ProgressBar({ value, label }: { value: number; label: string }) {
  const percent = Math.round(Math.min(Math.max(value, 0), 1) * 100);
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      className="h-1.5 overflow-hidden rounded-full bg-sunken"
    >
      <div className="h-full rounded-full bg-accent transition-[width] duration-300" style={{ width: `${percent}%` }} />
    </div>
  );
}
