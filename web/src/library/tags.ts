// Tags as typed: several in one field, separated by commas.

const MOST_TAGS = 50;

/** The tags in a text, in order and without duplicates. */
export function readTags(text: string): string[] {
  const tags = text.split(",").map((tag) => tag.trim()).filter(Boolean);
  return [...new Set(tags)].slice(0, MOST_TAGS);
}

export function tagsText(tags: string[]): string {
  return tags.join(", ");
}
