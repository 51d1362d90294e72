"""Where code begins and ends in a text of Markdown that is still being written."""


class CodeTracker:
    """Knows whether the text so far ends inside a code fence or inline code of Markdown.

    Inline code ends at the end of its line even if it isn't closed, so that a lone backtick can't hide what follows.
    """

    def __init__(self) -> None:
        self._fence = ""
        self._inline = 0
        self._run_char = ""
        self._run = 0
        self._run_at_line_start = False
        self.line_blank = True
        """Whether the current line holds only white space so far."""

    @property
    def inside(self) -> bool:
        """Whether the next character is code. Ask after `settle`."""
        return bool(self._fence) or self._inline > 0

    def settle(self) -> None:
        """Ends a run of backticks: the next character isn't one."""
        if not self._run:
            return
        run, char, self._run = self._run, self._run_char, 0
        if self._fence:
            if self._run_at_line_start and char == self._fence[0] and run >= len(self._fence):
                self._fence = ""
        elif self._inline:
            if run == self._inline:
                self._inline = 0
        elif self._run_at_line_start and run >= 3:
            self._fence = char * run
        elif char == "`":
            self._inline = run

    def push(self, text: str) -> None:
        """Takes text that has passed."""
        if "`" not in text and "~" not in text:
            self._push_plain(text)
            return
        for char in text:
            if char in "`~" and (not self._run or char == self._run_char):
                if not self._run:
                    self._run_char, self._run_at_line_start = char, self.line_blank
                self._run += 1
                self.line_blank = False
            else:
                self._push_plain(char)

    def _push_plain(self, text: str) -> None:
        if not text:
            return
        self.settle()
        line = text.rfind("\n")
        if line >= 0:
            self._inline = 0
            self.line_blank = not text[line + 1 :].strip()
        elif self.line_blank:
            self.line_blank = not text.strip()
