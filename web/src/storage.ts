// Small choices that outlive a visit. A browser may refuse storage; then they last as long as the page.

export function remembered(name: string): string | null {
  try {
    return localStorage.getItem(`citewire.${name}`);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(`citewire.${name}`, value);
  } catch {
    // refused: the choice is forgotten with the page
  }
}
