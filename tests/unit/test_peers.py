"""The order in which a lot calls peers: one that all of them see."""

from collections import Counter
from random import Random

from asyncjobs.model.peers import LOTS, Peers


def order(ids: list[int], draw: int) -> dict[int, int | None]:
    """The place of each of them, as each sees it itself."""
    return {id: Peers(ids, id).place(draw, len(ids)) for id in ids}


def test_each_lot_puts_all_peers_in_one_order() -> None:
    random = Random(1)
    ids = [random.getrandbits(62) for _ in range(12)]
    for draw in (0, LOTS - 1, *(random.randrange(LOTS) for _ in range(50))):
        assert sorted(place for place in order(ids, draw).values() if place is not None) == list(range(12))


def test_whoever_is_alone_or_not_among_them_is_always_the_first() -> None:
    assert [Peers(ids, 7).place(123, 1) for ids in ([], [7], [1, 2, 3])] == [0, 0, 0]


def test_places_behind_the_most_are_not_told() -> None:
    ids = [*range(1, 11)]
    places = [Peers(ids, id).place(9**9, 3) for id in ids]
    assert sorted(place for place in places if place is not None) == [0, 1, 2]
    assert places.count(None) == 7


def test_shares_of_peers_are_alike() -> None:
    random = Random(2)
    ids = [random.getrandbits(62) for _ in range(10)]
    peers = {id: Peers(ids, id) for id in ids}
    first = Counter(id for _ in range(5000) for draw in [random.randrange(LOTS)] for id in ids if peers[id].place(draw, 1) == 0)
    assert sum(first.values()) == 5000
    assert min(first.values()) > 5000 / 10 / 3
    assert max(first.values()) < 5000 / 10 * 2.5


def test_a_peer_that_comes_changes_only_what_it_is_called_for_itself() -> None:
    random = Random(3)
    ids = [random.getrandbits(62) for _ in range(10)]
    newcomer = random.getrandbits(62)
    for _ in range(300):
        draw = random.randrange(LOTS)
        before, after = order(ids, draw), order([*ids, newcomer], draw)
        [first] = [id for id, place in after.items() if place == 0]
        assert first == newcomer or before[first] == 0
