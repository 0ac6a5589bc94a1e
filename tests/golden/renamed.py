"""What the code calls by another name now than when the golden files were made."""

from __future__ import annotations

# Fields of JSON answers and columns of tables: the name in the golden files, and today's; None if it is gone.
FIELDS: dict[str, str | None] = {}

# Fields that answers have today and the golden files have not.
ADDED: set[str] = {"support_band"}

# Fields that hold prose: its wording may change, its numbers may not. All other texts are compared letter by letter.
PROSE = {
    *("why", "reasons", "verdict", "detail", "report", "error", "questions", "note", "prefers", "written"),
}

# Wordings of prose: a regular expression for that of the golden files, and what is written instead today.
WORDS: list[tuple[str, str]] = []

# While prose is being rewritten: True lets all of it pass that still has the same numbers in the same order.
REWORDED = True

# Lists whose order may change, and fields that describe their items to people: wording and numbers are free.
UNORDERED = {"acquisitions"}
DESCRIPTIONS = {"prefers", "summary"}
