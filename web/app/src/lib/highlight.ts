/** Colours for code: the highlighter and each language are loaded when they are first wanted. */
import type { LanguageFn } from "highlight.js";
import hljs from "highlight.js/lib/core";
import { createElement, type ReactNode } from "react";

const LANGUAGES: Record<string, () => Promise<{ default: LanguageFn }>> = {
  bash: () => import("highlight.js/lib/languages/bash"),
  c: () => import("highlight.js/lib/languages/c"),
  cpp: () => import("highlight.js/lib/languages/cpp"),
  css: () => import("highlight.js/lib/languages/css"),
  go: () => import("highlight.js/lib/languages/go"),
  ini: () => import("highlight.js/lib/languages/ini"),
  java: () => import("highlight.js/lib/languages/java"),
  javascript: () => import("highlight.js/lib/languages/javascript"),
  json: () => import("highlight.js/lib/languages/json"),
  markdown: () => import("highlight.js/lib/languages/markdown"),
  python: () => import("highlight.js/lib/languages/python"),
  rust: () => import("highlight.js/lib/languages/rust"),
  sql: () => import("highlight.js/lib/languages/sql"),
  typescript: () => import("highlight.js/lib/languages/typescript"),
  xml: () => import("highlight.js/lib/languages/xml"),
  yaml: () => import("highlight.js/lib/languages/yaml"),
};

const ALIASES: Record<string, string> = {
  console: "bash",
  h: "c",
  html: "xml",
  js: "javascript",
  jsx: "javascript",
  md: "markdown",
  mjs: "javascript",
  py: "python",
  rs: "rust",
  sh: "bash",
  shell: "bash",
  svg: "xml",
  toml: "ini",
  ts: "typescript",
  tsx: "typescript",
  yml: "yaml",
  zsh: "bash",
};

interface Scope {
  scope?: string;
  children: Array<Scope | string>;
}

/** The code as elements; plain text for a language that is not known. */
export async function highlight(code: string, lang: string): Promise<ReactNode> {
  const word = lang.trim().split(/\s/)[0]?.toLowerCase() ?? "";
  const name = ALIASES[word] ?? word;
  const load = LANGUAGES[name];
  if (!load) return code;
  if (!hljs.getLanguage(name)) hljs.registerLanguage(name, (await load()).default);
  // The token tree, so that no HTML is ever parsed.
  const result = hljs.highlight(code, { language: name }) as unknown as {
    _emitter?: { rootNode?: Scope };
  };
  const root = result._emitter?.rootNode;
  return root ? root.children.map(element) : code;
}

function element(node: Scope | string, key: number): ReactNode {
  if (typeof node === "string") return node;
  const name = node.scope?.split(".").map((part, at) => (at === 0 ? `hl-${part}` : part));
  return createElement("span", { key, className: name?.join(" ") }, node.children.map(element));
}
