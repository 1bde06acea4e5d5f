"""Check the English of docstrings, comments and pages: ``python -m tools.prose [--rates] [PATH ...]``.

Prints each docstring with a forbidden first word, and each forbidden phrase, as ``file:line: text``. Words that are
acceptable if rare have a bound per 1,000 words, over all files of a kind. ``--rates`` prints the rates of each folder.

The bounds were set in November 2026 from six packages whose documentation reads well: websockets, trio, anyio, h11,
psycopg and asyncpg, 101,000 words of docstrings, 63,000 of comments, and 70,000 of pages of the first two. Their rates
are in :data:`BOUNDS`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# Generated, or a history.
SKIPPED = (".github/", "aiokafka_lead/_wire/messages/", "CHANGELOG.md")


class Bound(NamedTuple):
    """Largest number of occurrences of a word in 1,000 words; the comments give the models' mean and highest rates."""

    docstrings: float
    comments: float
    pages: float


BOUNDS = {
    "what": Bound(2.0, 3.0, 4.0),  # docstrings 0.3, at most 1.2; comments 1.0, at most 2.0; pages 1.4, at most 2.0
    "where": Bound(1.5, 3.0, 3.0),  # docstrings 1.0, at most 2.4; comments 1.3, at most 3.0; pages 1.5, at most 2.0
    "whether": Bound(1.5, 2.0, 2.0),  # docstrings 0.7
    "nothing": Bound(1.0, 3.0, 2.0),  # docstrings 0.1; pages 0.1, at most 0.2
    "others": Bound(1.0, 1.5, 1.5),  # docstrings 0.05; pages 0.1, at most 0.2
    "who": Bound(0.3, 0.5, 0.5),  # docstrings 0.05; pages 0.3, at most 0.4
}

# None of the models begins a docstring with one of these ("By" and "As" once each, in 2,000 docstrings).
BEGINNINGS = re.compile(r"(What|Whether|How|Where|Who|Whose|Which|By|As|Has|Had)\b")

# At most 2 in 100,000 words of the models' docstrings.
NEVER = re.compile(
    r"\b("
    r"anew|so long|as many(?![^.]* as )|(?:is|are|was|were|be) told|none of (?:them|these|those)|(?:is|are) over|"
    r"the one that|that of|those of|whoever|wherever|what of|all else|stands for itself|nobody|somebody|"
    r"once more|for ever|one after the other|(?:is|are|was|were) said|bears? with|no use|of use|"
    r"(?:is|are) to be|thereby|not any more|(?:is|are) of no"
    r")\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")  # noqa: RUF001
COMMENT = re.compile(r"""(?:[^#'"]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*(#.*)""")
CODE = re.compile(r"``.*?``|`[^`\n]*`|\"[^\"\n]*\"", re.DOTALL)


class Text(NamedTuple):
    """A docstring, a comment or a line of a page."""

    path: str
    line: int
    kind: str
    text: str

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield each line with its number, without code and quotations, in which any word is allowed."""
        plain = CODE.sub(lambda code: "\n" * code.group().count("\n"), self.text)
        return enumerate(plain.split("\n"), self.line)


def python_texts(path: str, source: str) -> Iterator[Text]:
    """Yield the docstrings, also of attributes, and the comments of a module."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno != node.end_lineno:
            inside.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(path, node.lineno, "docstrings", node.value.value)
    # Not with tokenize, which takes ten times as long for the whole repository.
    for number, line in enumerate(source.split("\n"), 1):
        if "#" in line and number not in inside and (comment := COMMENT.match(line)):
            yield Text(path, number, "comments", comment[1])


def page_texts(path: str, source: str) -> Iterator[Text]:
    """Yield the lines of a Markdown page, without blocks of code, comments and addresses of links."""
    fence = ""
    for number, line in enumerate(source.split("\n"), 1):
        mark = line.lstrip()[:3]
        if fence:
            if mark == fence:
                fence = ""
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            yield Text(path, number, "pages", re.sub(r"\]\([^)]*\)|<!--.*?-->|https?://\S+", "]", line))


def texts(path: str) -> Iterator[Text]:
    """Yield all texts of a file in the repository."""
    source = (ROOT / path).read_text(encoding="utf-8")
    return page_texts(path, source) if path.endswith(".md") else python_texts(path, source)


def tracked(asked: list[str]) -> Iterator[str]:
    """Yield the Python files and Markdown pages that git tracks, below ``asked`` if given."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *(asked or ["*.py", "*.md"])]
    for path in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        if path.endswith((".py", ".md")) and not path.startswith(SKIPPED) and (ROOT / path).exists():
            yield path


def wrong(text: Text) -> Iterator[str]:
    """Yield a complaint for each forbidden first word and phrase."""
    if text.kind == "docstrings" and (begin := BEGINNINGS.match(text.text.lstrip())):
        yield f"{text.path}:{text.line}: docstring begins with {begin.group()!r}: say what it does, or name the thing"
    for number, line in text.lines():
        for phrase in NEVER.finditer(line):
            yield f"{text.path}:{number}: {phrase.group()!r} in {line.strip()!r}"


class Rates:
    """Counts of words, and the places of each bounded word."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def add(self, text: Text) -> None:
        """Count the words of a text."""
        for number, line in text.lines():
            words = [word.lower() for word in WORD.findall(line)]
            self.words[text.kind] += len(words)
            for word in words:
                if word in BOUNDS:
                    self.found[text.kind, word].append(f"{text.path}:{number}: {word!r} in {line.strip()!r}")

    def rate(self, kind: str, word: str) -> float:
        """Return how often a word occurs per 1,000 words."""
        return 1000 * len(self.found[kind, word]) / max(self.words[kind], 1)

    def exceeded(self) -> Iterator[str]:
        """Yield the places of each word whose rate is above its bound."""
        for word, bounds in BOUNDS.items():
            for kind, bound in bounds._asdict().items():
                if (rate := self.rate(kind, word)) > bound:
                    yield from self.found[kind, word]
                    yield f"{kind}: {rate:.1f} {word!r} in 1,000 words, {bound} at most"


def print_rates(paths: list[str]) -> None:
    """Print the rates of each folder."""
    folders: defaultdict[str, Rates] = defaultdict(Rates)
    for path in paths:
        for text in texts(path):
            folders[path if path.endswith(".md") else str(Path(path).parent)].add(text)
    for folder, rates in sorted(folders.items()):
        for kind, words in rates.words.items():
            shown = "  ".join(f"{word} {rates.rate(kind, word):4.1f}" for word in BOUNDS)
            print(f"{folder:36} {kind:10} {words:6}  {shown}")


def main(arguments: list[str]) -> int:
    """Print the complaints, or the rates; return the exit status."""
    asked = [argument for argument in arguments if argument != "--rates"]
    paths = list(tracked(asked))
    if "--rates" in arguments:
        print_rates(paths)
        return 0
    rates = Rates()
    complaints: list[str] = []
    for path in paths:
        for text in texts(path):
            complaints += wrong(text)
            rates.add(text)
    complaints += rates.exceeded()
    print("\n".join(complaints) or "The English holds", file=sys.stderr if complaints else sys.stdout)
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
