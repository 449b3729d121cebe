"""The checker of lives: what it takes for two jobs of one dedup key that lived at the same time, and what not."""

from asyncjobs.testing.history import History
from asyncjobs.testing.lives import Lived, Noted, lives, together


def notes(*said: tuple[int, bool], key: str = "d", type: str = "email") -> list[Noted]:
    """Of (job, whether it lives), in this order."""
    return [Noted(number, type, key, job_id, is_live) for number, (job_id, is_live) in enumerate(said)]


def found(*said: tuple[int, bool]) -> list[int | None]:
    return [violation.job_id for violation in together(lives(notes(*said)))]


def test_one_after_the_other_is_right() -> None:
    assert found((1, True), (1, True), (1, False), (2, True), (2, False), (1, True), (1, False), (3, True)) == []


def test_one_that_comes_before_the_other_has_ended_is_wrong() -> None:
    assert found((1, True), (2, True), (2, False), (1, False)) == [2]


def test_one_that_lives_again_beside_another_is_wrong() -> None:
    assert found((1, True), (1, False), (2, True), (1, True)) == [1]


def test_each_that_comes_beside_the_longest_life_is_told() -> None:
    assert found((1, True), (2, True), (2, False), (3, True), (3, False)) == [2, 3]


def test_keys_of_other_names_and_types_have_lives_of_their_own() -> None:
    mine = notes((1, True)) + notes((2, True), key="e") + notes((3, True), type="report")
    assert [*together(lives(mine))] == []


def test_job_that_is_gone_is_not_held_against_others() -> None:
    gone = [note._replace(is_gone=True) for note in notes((1, True))]
    assert [*together(lives([*gone, Noted(5, "email", "d", 2, is_live=True)]))] == []


def test_history_has_lives_too() -> None:
    lived = [Lived("email", "d", 1, 0.0, 2.0), Lived("email", "d", 2, 1.0), Lived("email", "e", 3, 1.0)]
    [violation] = History(attempts=[], lives=lived).violations()
    assert str(violation) == "dedup: job 2 came to life beside job 1 of dedup key d of email"
