"""All text that an error reveals if it is printed, logged, or sent to a collector with the variables of its frames."""

from __future__ import annotations

from pathlib import Path

_TESTS = Path(__file__).parent


def everything(error: BaseException) -> str:
    """Return the error, its causes, and the variables of each function in the traceback, except tests."""
    seen: list[str] = []
    rest: list[BaseException | None] = [error]
    while rest:
        link = rest.pop()
        if link is None:
            continue
        rest += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            rest += link.exceptions
        seen += [repr(link), str(link)]
        step = link.__traceback__
        while step is not None:
            if _TESTS not in Path(step.tb_frame.f_code.co_filename).parents:
                seen += map(_repr, step.tb_frame.f_locals.values())
            step = step.tb_next
    return "\n".join(seen)


def _repr(value: object) -> str:
    try:
        return repr(value)
    except AttributeError:  # the object is not fully constructed
        return object.__repr__(value)
