"""Compare the coverage of two runs of the tests, by folder: ``python -m tools.covered AFTER.json BEFORE.json``.

coverage.py writes the files (CONTRIBUTING.md has the commands). Prints the share of lines and branches that each run
reached, and the lines that only the second run reached. The exit status is 1 if a folder's share is lower in the first.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple


class Reached(NamedTuple):
    """Numbers of lines and branches."""

    lines: int = 0
    all_lines: int = 0
    branches: int = 0
    all_branches: int = 0

    def plus(self, summary: dict[str, Any]) -> Reached:
        """Add a file's numbers."""
        return Reached(
            self.lines + summary["covered_lines"],
            self.all_lines + summary["num_statements"],
            self.branches + summary["covered_branches"],
            self.all_branches + summary["num_branches"],
        )

    def shares(self) -> tuple[float, float]:
        """Return the percentages of lines and of branches."""
        return 100 * self.lines / max(self.all_lines, 1), 100 * self.branches / max(self.all_branches, 1)


def folders(files: dict[str, Any]) -> dict[str, Reached]:
    """Return the sums of each folder."""
    sums: defaultdict[str, Reached] = defaultdict(Reached)
    for path, found in files.items():
        folder = str(PurePosixPath(path).parent)
        sums[folder] = sums[folder].plus(found["summary"])
    return dict(sorted(sums.items()))


def main(after: Path, before: Path) -> int:
    """Print the table, and the lines that were reached before and are not after."""
    runs = [json.loads(path.read_text())["files"] for path in (after, before)]
    sums = [folders(files) for files in runs]
    lower = 0
    print("| folder | lines, % | before | branches, % | before |\n|---|--:|--:|--:|--:|")
    for folder in sums[1]:
        (lines, branches), (lines_before, branches_before) = (each.get(folder, Reached()).shares() for each in sums)
        lower += lines < lines_before or branches < branches_before
        print(f"| {folder} | {lines:.2f} | {lines_before:.2f} | {branches:.2f} | {branches_before:.2f} |")
    for path, found in sorted(runs[1].items()):
        now = runs[0].get(path, {"executed_lines": [], "executed_branches": []})
        lost = sorted(set(found["executed_lines"]) - set(now["executed_lines"]))
        arcs = {tuple(arc) for arc in found["executed_branches"]} - {tuple(arc) for arc in now["executed_branches"]}
        if lost or arcs:
            print(f"{path}: lines {lost or 'none'}, branches {sorted(arcs) or 'none'}")
    return int(lower > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
