// Tags as people write them: several in one field, between commas.

const MOST_TAGS = 50;

/** The tags of a text, each once and in its order. */
export function readTags(text: string): string[] {
  const tags = text.split(",").map((tag) => tag.trim()).filter(Boolean);
  return [...new Set(tags)].slice(0, MOST_TAGS);
}

export function tagsText(tags: string[]): string {
  return tags.join(", ");
}
