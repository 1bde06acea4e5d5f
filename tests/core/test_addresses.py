"""Order in which the addresses of a name are tried, and the wait for a silent address."""

from __future__ import annotations

import math

from aiokafka_lead._options.addresses import PATIENCE_S, Addresses, Search

Names = Search[str, None]


def search(memory: Addresses[str], *found: str, shared_s: float = 0) -> Names:
    new: Names = Search(memory, shared_s)
    new.found = dict.fromkeys(found)
    return new


def reach(trial: Names, address: str) -> None:
    """Accept a connection while earlier attempts are still connecting."""
    for begun in trial.candidates():
        trial.begin(begun)
        if begun == address:
            break
    trial.reached(address)


def refuse(trial: Names) -> list[str]:
    candidates = list(trial.candidates())
    for address in candidates:
        trial.begin(address)
        trial.refused(address, "refused")
    trial.failed("refused", silent=False)
    return candidates


def fail(trial: Names, address: str, *, silent: bool = False) -> bool:
    reach(trial, address)
    return trial.failed("silent" if silent else "reset", silent=silent)


def test_an_address_that_failed_gives_way_to_the_next_at_once() -> None:
    memory: Addresses[str] = Addresses()
    first = search(memory, "a", "b", "c")
    assert list(first.candidates()) == ["a", "b", "c"]
    assert fail(first, "a")
    assert first.left()
    assert list(first.candidates()) == ["b", "c"]
    reach(first, "b")
    first.succeeded()
    assert first.errors == {}
    # It comes last until the failure is forgotten.
    again = search(memory, "a", "b", "c")
    assert list(again.candidates()) == ["b", "c"]
    assert refuse(again) == ["b", "c"]
    assert again.left()
    assert list(again.candidates()) == ["a"]
    reach(again, "a")
    again.succeeded()
    # A success clears the failure.
    assert list(search(memory, "a", "b", "c").candidates()) == ["a"]


def test_what_accepts_and_fails_is_tried_once_for_each_backoff() -> None:
    memory: Addresses[str] = Addresses()
    first = search(memory, "a", "b")
    assert fail(first, "a")
    assert first.left()
    assert fail(first, "b")
    assert not first.left()
    assert first.errors == {"a": "reset", "b": "reset"}
    for address in ("a", "b", "a"):
        trial = search(memory, "a", "b")
        assert list(trial.candidates()) == [address]
        assert not fail(trial, address)
        assert not trial.left()


def test_all_that_refuse_are_tried_each_time() -> None:
    memory: Addresses[str] = Addresses()
    trial = search(memory, "a", "b")
    assert refuse(trial) == ["a", "b"]
    assert not trial.left()
    trial = search(memory, "a", "b")
    assert [refuse(trial), refuse(trial)] == [["a"], ["b"]]
    assert not trial.left()


def test_a_silent_address_waits_no_longer_than_its_share_while_others_are_left() -> None:
    memory: Addresses[str] = Addresses()
    trial = search(memory, "a", "b")
    trial.candidates()
    assert trial.patience_s == PATIENCE_S  # shared by all concurrent attempts
    reach(trial, "a")
    assert trial.patience_s == PATIENCE_S
    trial.failed("silent", silent=True)
    reach(trial, "b")
    assert trial.patience_s == PATIENCE_S  # the other one may have recovered by then
    alone = search(memory, "c")
    alone.candidates()
    assert alone.patience_s == math.inf
    many = search(Addresses(), *map(str, range(16)), shared_s=10)
    reach(many, "0")
    assert many.patience_s == 10 / 16
    many = search(Addresses(), *map(str, range(1000)), shared_s=10)
    reach(many, "0")
    assert many.patience_s == PATIENCE_S


def test_a_slow_address_gets_the_time_that_it_needs() -> None:
    memory: Addresses[str] = Addresses()
    trial = search(memory, "slow", "down")
    fail(trial, "slow", silent=True)
    assert refuse(trial) == ["down"]
    assert trial.left()
    reach(trial, "slow")
    assert trial.patience_s == 2 * PATIENCE_S
    trial.failed("silent", silent=True)
    assert trial.left()
    assert refuse(trial) == ["down"]  # may have recovered by now
    reach(trial, "slow")
    assert trial.patience_s == 4 * PATIENCE_S
    for _ in range(2000):
        memory.failed("slow", "silent", silent=True)
    assert trial.patience_s > 500
    trial.succeeded()
    assert search(memory, "slow", "down").patience_s == PATIENCE_S
    assert search(memory, "slow", "down", shared_s=10).patience_s == 5


def test_silence_beside_what_resets_does_not_spin() -> None:
    memory: Addresses[str] = Addresses()
    memory.failed("silent", "silent", silent=True)
    memory.failed("resets", "reset")
    trial = search(memory, "silent", "resets")
    fail(trial, "silent", silent=True)
    assert trial.left()
    fail(trial, "resets")
    assert list(trial.candidates()) == ["silent"]
    fail(trial, "silent", silent=True)
    assert list(trial.candidates()) == ["resets"]


def test_one_that_has_not_answered_a_connect_is_not_blamed_while_another_accepts() -> None:
    memory: Addresses[str] = Addresses()
    trial = search(memory, "far", "near")
    assert fail(trial, "near")
    assert trial.errors == {"near": "reset"}
    assert list(trial.candidates()) == ["far"]


def test_a_success_elsewhere_lets_what_failed_be_tried_again() -> None:
    """Several connections are made at a time, to one name."""
    memory: Addresses[str] = Addresses()
    one, other = search(memory, "a", "b"), search(memory, "a", "b")
    fail(one, "a")
    refuse(one)
    assert not one.left()
    reach(other, "b")
    other.succeeded()
    assert one.left()
    assert list(one.candidates()) == ["b"]
    reach(one, "b")
    one.succeeded()


def test_a_name_may_change_and_what_is_gone_is_forgotten_in_time() -> None:
    memory: Addresses[str] = Addresses()
    for number in range(1000):
        trial = search(memory, f"old {number}")
        fail(trial, f"old {number}")
        assert trial.errors == {f"old {number}": "reset"}
    assert len(memory.failures) < 100
    assert list(search(memory, "old 999", "new").candidates()) == ["new"]
    nothing = search(memory)
    assert nothing.candidates() == {}
    assert not nothing.left()


def test_an_address_that_is_left_comes_last_though_it_was_the_latest_to_serve() -> None:
    memory: Addresses[str] = Addresses()
    memory.leave("nothing has served yet")
    first = search(memory, "a", "b")
    reach(first, "a")
    first.succeeded()
    memory.leave("of no use")
    again = search(memory, "a", "b")
    assert list(again.candidates()) == ["b"]


def test_an_address_of_no_use_is_left_for_the_others_once() -> None:
    """If all other addresses refuse connections, one caller must wait for this address."""
    memory: Addresses[str] = Addresses()
    trial = search(memory, "useless", "down")
    trial.candidates()
    reach(trial, "useless")
    trial.succeeded()
    assert memory.leave("of no use")
    again = search(memory, "useless", "down")
    assert refuse(again) == ["down"]
    reach(again, "useless")
    again.succeeded()
    assert not memory.leave("of no use")
    memory.stayed()
    assert memory.leave("of no use")


def test_an_address_that_answers_nothing_is_waited_for_twice_as_long_each_time() -> None:
    memory: Addresses[str] = Addresses()
    trial = search(memory, "frozen", "slow")
    for address, factor in [("frozen", 1), ("slow", 1), ("frozen", 2), ("slow", 2)]:
        assert next(iter(trial.candidates())) == address
        reach(trial, address)
        trial.succeeded()
        assert memory.patience_s == PATIENCE_S * factor
        memory.leave("no answer")
        trial = search(memory, "frozen", "slow")


def test_the_only_address_of_a_name_is_not_left_however_long_it_takes() -> None:
    memory: Addresses[str] = Addresses()
    trial = search(memory, "slow")
    trial.candidates()
    reach(trial, "slow")
    trial.succeeded()
    assert memory.patience_s == math.inf
