"""Writes the generated files, or compares them with ``--check``.

python -m aiokafka_lead._wire.codegen                            protocol.txt -> messages/*.py, api_key.py

python -m aiokafka_lead._wire.codegen --jar kafka-clients.jar    the jar -> protocol.txt -> modules

python -m aiokafka_lead._wire.codegen --check [--jar JAR]        print stale files; exit status 1 if there are any
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .modules import PROTOCOL_FILE, module_name, parse, read_jar, render, render_module, render_table

WIRE = Path(__file__).parent.parent
_MESSAGES_INIT = '"""One module per API, each imported at its first use."""\n'


def generated_files(protocol: str) -> dict[Path, str]:
    """Return every file that follows from the text of ``protocol.txt``, with its content."""
    release, apis = parse(protocol)
    files = {WIRE / "messages" / f"{module_name(api)}.py": render_module(api) for api in apis}
    files[WIRE / "messages" / "__init__.py"] = _MESSAGES_INIT
    files[WIRE / "api_key.py"] = render_table(release, apis)
    return files


def stale_files() -> list[Path]:
    """Return the generated files that differ from ``protocol.txt``, are missing, or should not exist."""
    files = generated_files(PROTOCOL_FILE.read_text())
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    return sorted(wrong + [path for path in (WIRE / "messages").glob("*.py") if path not in files])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m aiokafka_lead._wire.codegen", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a generated file is stale")
    parser.add_argument("--jar", type=Path, help="kafka-clients' jar: read the facts again")
    arguments = parser.parse_args()
    facts = None if arguments.jar is None else render(*read_jar(arguments.jar))
    if arguments.check:
        stale = stale_files()
        if facts is not None and facts != PROTOCOL_FILE.read_text():
            stale.append(PROTOCOL_FILE)
        for path in stale:
            print(f"stale: {path.relative_to(WIRE)}")
        return 1 if stale else 0
    if facts is not None:
        PROTOCOL_FILE.write_text(facts)
    files = generated_files(PROTOCOL_FILE.read_text())
    stale = stale_files()
    for path in stale:
        if path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    print(f"{len(files)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
