"""A small terminal emulator: what a user sees after a program has drawn and redrawn."""

import re

_TOKENS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)", re.DOTALL)


class Screen:
    """Rows of text with a cursor; a narrower width wraps the rows, as most terminals do."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[str] = [""]
        self.row = self.column = 0
        self.is_cursor_shown = True

    def feed(self, output: str) -> None:
        for arguments, command, carriage_return, line_feed, text in _TOKENS.findall(output):
            if command:
                self._obey(arguments, command)
            elif carriage_return:
                self.column = 0
            elif line_feed:
                self._go_down()
            else:
                self._write(text)

    def resize(self, width: int) -> None:
        """Take another width: longer rows become several, and the cursor stays at its text."""
        wrapped: list[str] = []
        new_row = 0
        for number, row in enumerate(self.rows):
            if number == self.row:
                new_row = len(wrapped) + self.column // width
            wrapped += [row[i : i + width] for i in range(0, len(row), width)] or [""]
        self.width, self.rows, self.row = width, wrapped, new_row
        self.column %= width

    @property
    def text(self) -> list[str]:
        return [row.rstrip() for row in self.rows if row.strip()]

    def _obey(self, arguments: str, command: str) -> None:
        if command == "A":
            self.row = max(0, self.row - int(arguments or 1))
        elif command == "K":
            assert arguments == "2"
            self.rows[self.row] = ""
        elif command in "hl":
            assert arguments == "?25"
            self.is_cursor_shown = command == "h"
        else:
            assert command == "m", f"unknown command {arguments}{command}"

    def _go_down(self) -> None:
        self.row += 1
        self.rows += [""] * (self.row + 1 - len(self.rows))

    def _write(self, text: str) -> None:
        for character in text:
            if self.column == self.width:
                self.column = 0
                self._go_down()
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + character + row[self.column + 1 :]
            self.column += 1
