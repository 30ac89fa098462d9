// Renders untrusted Markdown without HTML, images or scripts. Each link shows the host of its target.

import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";

/** Maximum length of a text that is rendered as Markdown, in characters. A longer text is shown as plain text. */
const MAX_LENGTH = 200_000;

/** Returns an absolute web or mail address unchanged, and the empty string for any other address. */
export function safeUrl(address: string): string {
  try {
    const { protocol } = new URL(address, "https://nowhere.invalid/");
    return ["http:", "https:", "mailto:"].includes(protocol) && /^[a-z]+:/i.test(address) ? address : "";
  } catch {
    return "";
  }
}

const COMPONENTS: Components = {
  a: ({ href, children }) =>
    href ? (
      <a href={href} rel="noopener noreferrer nofollow" target="_blank" className="text-accent underline">
        {children} <span className="text-xs text-soft">({new URL(href).host || href})</span>
      </a>
    ) : (
      <span>{children}</span>
    ),
  // Images are not fetched: the request would reveal to the host of the image that a user views the text.
  img: ({ alt }) => <span className="text-soft">[image not loaded: {alt}]</span>,
  h1: ({ children }) => <h3 className="mt-4 mb-2 text-base font-semibold">{children}</h3>,
  h2: ({ children }) => <h4 className="mt-4 mb-1 text-sm font-semibold">{children}</h4>,
  h3: ({ children }) => <h5 className="mt-3 mb-1 text-sm font-medium">{children}</h5>,
  p: ({ children }) => <p className="my-2 leading-relaxed">{children}</p>,
  ul: ({ children }) => <ul className="my-2 list-disc pl-5">{children}</ul>,
  ol: ({ children }) => <ol className="my-2 list-decimal pl-5">{children}</ol>,
  blockquote: ({ children }) => <blockquote className="my-2 border-l-2 border-warning pl-3 text-soft">{children}</blockquote>,
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
  if (text.length > MAX_LENGTH) {
    return (
      <pre className="overflow-x-auto text-xs whitespace-pre-wrap" dir="auto">
        {text}
      </pre>
    );
  }
  return (
    <div className="max-w-[80ch] text-sm wrap-anywhere" dir="auto">
      <ReactMarkdown skipHtml remarkPlugins={[remarkGfm]} urlTransform={safeUrl} components={COMPONENTS}>
        {text}
      </ReactMarkdown>
    </div>
  );
}
