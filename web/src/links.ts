// URLs from documents and models.

const SAFE = new Set(["http:", "https:", "mailto:"]);

/** A URL that a link may have, or null. */
export function safeUrl(text: string): string | null {
  try {
    const url = new URL(text);
    return SAFE.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** A name without the characters that reverse others: `photo\u202egpj.exe` mustn't look like a picture. */
export function nameText(name: string): string {
  return name.replace(/[\u202a-\u202e\u2066-\u2069]/g, "");
}

/** A name inside a sentence: it has its own text direction and doesn't affect the text around it. */
export function isolated(name: string): string {
  return `\u2068${name}\u2069`;
}
