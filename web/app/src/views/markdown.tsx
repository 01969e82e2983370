/**
 * Markdown as React elements: `marked` only splits the text into tokens, nothing becomes HTML by
 * itself. A block whose text stays the same is not drawn again while the rest streams.
 */
import { lexer, type Token, type Tokens } from "marked";
import { memo, type ReactNode, useEffect, useState } from "react";
import { CopyButton } from "./controls";

export const Markdown = memo(function Markdown({ text, live }: { text: string; live?: boolean }) {
  const blocks = lexer(text, { gfm: true });
  return (
    <div className="prose">
      {blocks.map((token, index) => {
        const growing = live === true && index === blocks.length - 1;
        return <Block key={index} raw={token.raw} token={token} growing={growing} />;
      })}
    </div>
  );
});

interface BlockProps {
  raw: string;
  token: Token;
  growing: boolean;
}

const Block = memo(
  function Block({ token, growing }: BlockProps) {
    return block(token, growing);
  },
  (before, after) => before.raw === after.raw && before.growing === after.growing,
);

function block(token: Token, growing = false): ReactNode {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      const { depth, tokens } = token as Tokens.Heading;
      const Tag = `h${Math.min(6, depth + 1)}` as "h2";
      return <Tag data-depth={depth}>{inline(tokens)}</Tag>;
    }
    case "paragraph":
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case "text": {
      const { tokens, text } = token as Tokens.Text;
      return tokens ? inline(tokens) : decode(text);
    }
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return <CodeBlock code={text} lang={lang ?? ""} growing={growing} />;
    }
    case "blockquote":
      return <blockquote>{blocksOf((token as Tokens.Blockquote).tokens)}</blockquote>;
    case "hr":
      return <hr />;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    default:
      // HTML is shown as what it is: text.
      return <p className="verbatim">{token.raw.trim()}</p>;
  }
}

function blocksOf(tokens: readonly Token[]): ReactNode {
  return tokens.map((token, index) => <Sub key={index} token={token} />);
}

function Sub({ token }: { token: Token }): ReactNode {
  return block(token);
}

function list({ items, ordered, start }: Tokens.List): ReactNode {
  const rows = items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined}>
      {item.task && (
        <input type="checkbox" checked={item.checked ?? false} readOnly aria-label="task state" />
      )}
      {blocksOf(item.tokens.filter((token) => token.type !== "checkbox"))}
    </li>
  ));
  if (!ordered) return <ul>{rows}</ul>;
  return <ol {...(typeof start === "number" ? { start } : {})}>{rows}</ol>;
}

function table({ header, rows }: Tokens.Table): ReactNode {
  const cell = (one: Tokens.TableCell, Tag: "th" | "td", key: number) => (
    <Tag key={key} data-align={one.align ?? undefined}>
      {inline(one.tokens)}
    </Tag>
  );
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>{header.map((one, key) => cell(one, "th", key))}</tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>{row.map((one, key) => cell(one, "td", key))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] | undefined): ReactNode {
  return tokens?.map((token, index) => <Inline key={index} token={token} />);
}

function Inline({ token }: { token: Token }): ReactNode {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token.tokens)}</strong>;
    case "em":
      return <em>{inline(token.tokens)}</em>;
    case "del":
      return <del>{inline(token.tokens)}</del>;
    case "codespan":
      return <code>{decode((token as Tokens.Codespan).text)}</code>;
    case "br":
      return <br />;
    case "link": {
      const { href, tokens } = token as Tokens.Link;
      return <SafeLink href={href}>{inline(tokens)}</SafeLink>;
    }
    case "image": {
      // Showing it would tell a foreign server that it is looked at.
      const { href, text } = token as Tokens.Image;
      return <SafeLink href={href}>{text || href}</SafeLink>;
    }
    case "text":
      return token.tokens ? inline(token.tokens) : decode((token as Tokens.Text).text);
    case "escape":
      return decode((token as Tokens.Escape).text);
    default:
      return token.raw;
  }
}

function SafeLink({ href, children }: { href: string; children: ReactNode }): ReactNode {
  if (!/^(https?:|mailto:)/i.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

/** The lexer leaves named entities alone; these are the ones that people write. */
function decode(text: string): string {
  if (!text.includes("&")) return text;
  const named: Record<string, string> = {
    amp: "&",
    lt: "<",
    gt: ">",
    quot: '"',
    "#39": "'",
    nbsp: " ",
  };
  return text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (whole, name) => named[name] ?? whole);
}

/** A fenced block; colours come when it is complete and the highlighter is there. */
export function CodeBlock(props: { code: string; lang: string; growing?: boolean }): ReactNode {
  const { code, lang, growing = false } = props;
  return (
    <div className="code-block">
      <div className="code-head">
        <span>{lang || "text"}</span>
        <CopyButton text={code} label="Copy code" />
      </div>
      <pre>
        <code>
          <Highlighted code={code} lang={lang} ready={!growing} />
        </code>
      </pre>
    </div>
  );
}

export function Highlighted(props: { code: string; lang: string; ready: boolean }): ReactNode {
  const { code, lang, ready } = props;
  const [coloured, setColoured] = useState<{ code: string; nodes: ReactNode } | null>(null);
  useEffect(() => {
    if (!ready || !lang || code.length > 40_000) return;
    let current = true;
    import("../lib/highlight").then(
      ({ highlight }) =>
        highlight(code, lang).then((nodes) => current && setColoured({ code, nodes })),
      // Without the highlighter the code stays plain.
      () => {},
    );
    return () => {
      current = false;
    };
  }, [code, lang, ready]);
  return coloured && coloured.code === code ? coloured.nodes : code;
}
