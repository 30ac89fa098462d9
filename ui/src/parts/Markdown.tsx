// Text that a model or a stranger wrote, as Markdown: no markup of its own, no pictures, no scripts, and links that say
// where they lead.

import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

/** The longest text that is laid out; more is shown as it was written. */
const LONGEST = 200_000;

/** Where a link may lead. */
export function harmless(address: string): string {
  try {
    const { protocol } = new URL(address, "https://nowhere.invalid/");
    return ["http:", "https:", "mailto:"].includes(protocol) && /^[a-z]+:/i.test(address) ? address : "";
  } catch {
    return "";
  }
}

const PARTS: Components = {
  a: ({ href, children }) =>
    href ? (
      <a href={href} rel="noopener noreferrer nofollow" target="_blank" className="text-accent underline">
        {children} <span className="text-xs text-soft">({new URL(href).host || href})</span>
      </a>
    ) : (
      <span>{children}</span>
    ),
  // A picture would tell somebody that it was looked at.
  img: ({ alt }) => <span className="text-soft">[picture: {alt}]</span>,
  h1: ({ children }) => <h3 className="mt-4 mb-2 text-base font-semibold">{children}</h3>,
  h2: ({ children }) => <h4 className="mt-4 mb-1 text-sm font-semibold">{children}</h4>,
  h3: ({ children }) => <h5 className="mt-3 mb-1 text-sm font-medium">{children}</h5>,
  p: ({ children }) => <p className="my-2 leading-relaxed">{children}</p>,
  ul: ({ children }) => <ul className="my-2 list-disc pl-5">{children}</ul>,
  ol: ({ children }) => <ol className="my-2 list-decimal pl-5">{children}</ol>,
  blockquote: ({ children }) => <blockquote className="my-2 border-l-2 border-doubt pl-3 text-soft">{children}</blockquote>,
  code: ({ children }) => <code className="rounded bg-sunken px-1 font-mono text-[0.9em]">{children}</code>,
  pre: ({ children }) => <pre className="my-2 overflow-x-auto rounded-md bg-sunken p-3 text-xs">{children}</pre>,
  table: ({ children }) => (
    <div className="my-2 overflow-x-auto">
      <table className="text-xs">{children}</table>
    </div>
  ),
  th: ({ children }) => <th className="border-b border-line px-2 py-1 text-left font-medium">{children}</th>,
  td: ({ children }) => <td className="border-b border-line px-2 py-1 align-top">{children}</td>,
};

export function Markdown({ text }: { text: string }) {
  if (text.length > LONGEST) {
    return (
      <pre className="overflow-x-auto text-xs whitespace-pre-wrap" dir="auto">
        {text}
      </pre>
    );
  }
  return (
    <div className="max-w-[80ch] text-sm wrap-anywhere" dir="auto">
      <ReactMarkdown skipHtml remarkPlugins={[remarkGfm]} urlTransform={harmless} components={PARTS}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
