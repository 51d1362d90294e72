// Small choices that outlast a visit. If the browser refuses storage, they last as long as the page.

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
    // storage refused: the choice is lost with the page
  }
}
