// Colours of programming languages, as code hosts show them.

const COLORS: Record<string, string> = {
  c: "#555555", "c#": "#178600", "c++": "#f34b7d", css: "#563d7c", dart: "#00b4ab", elixir: "#6e4a7e", go: "#00add8",
  haskell: "#5e5086", html: "#e34c26", java: "#b07219", javascript: "#d7ba1f", "jupyter notebook": "#da5b0b",
  kotlin: "#a97bff", lua: "#000080", php: "#4f5d95", python: "#3572a5", r: "#198ce7", ruby: "#701516", rust: "#c28d6f",
  scala: "#c22d40", shell: "#5fa832", swift: "#f05138", typescript: "#3178c6", vue: "#41b883", zig: "#ec915c",
};

export function languageColor(name: string): string {
  return COLORS[name.toLowerCase()] ?? "#8b8b8b";
}
