// Addresses that come from documents and models.

const SAFE = new Set(["http:", "https:", "mailto:"]);

/** An address that a link may have, or null. */
export function safeUrl(text: string): string | null {
  try {
    const url = new URL(text);
    return SAFE.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
