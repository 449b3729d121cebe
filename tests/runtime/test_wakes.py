from asyncjobs.model.peers import Lot
from asyncjobs.runtime.wakes import Wakes
from tests.support.services import Woken


def test_pending_jobs_wake_who_is_here_and_notify_the_others() -> None:
    notified: list[str] = []
    wakes, first, second = Wakes(notified.append), Woken(), Woken()
    wakes.add(first)
    wakes.add(second)
    wakes.pending("mail")
    wakes.pending("mail", front=True)
    assert first.queues == second.queues == [("mail", False), ("mail", True)]
    assert notified == ["q:mail", "f:mail"]


def test_what_was_heard_from_others_is_not_notified_again() -> None:
    notified: list[str] = []
    wakes, woken = Wakes(notified.append), Woken()
    wakes.add(woken)
    for payload in ("q:mail", "f:mail", "d", "k", "s"):
        wakes.heard(payload)
    assert (woken.queues, woken.due, woken.keys) == ([("mail", False), ("mail", True)], [0.0], 1)
    assert woken.schedules == 1
    wakes.schedules(in_process_only=True)
    assert notified == []


def test_what_expires_soon_is_told_to_a_tenth_of_a_second() -> None:
    notified: list[str] = []
    wakes, there = Wakes(notified.append), Wakes(lambda _: None)
    woken, others = Woken(), Woken()
    wakes.add(woken)
    there.add(others)
    for seconds in (1.0, 1.91, 0.0, 9.99, 10.0, 3600.0):
        wakes.expires_in(seconds)
    wakes.expires_in(2.0, in_process_only=True)
    assert woken.due == [1.0, 1.91, 0.0, 9.99, 10.0, 3600.0, 2.0]
    assert notified == ["d:1", "d:2", "d:0", "d:10"]
    for payload in (*notified, "d", "d:x", "d:1e3", "d:-1", "d:nan", "d:0.55", "d:٣"):
        there.heard(payload)
    assert others.due == [1.0, 2.0, 0.0, 10.0, *[0.0] * 7]


def test_what_is_not_understood_wakes_nobody() -> None:
    wakes, woken = Wakes(lambda _: None), Woken()
    wakes.add(woken)
    for payload in ("", "z", "z:mail", "Q:mail", "t:1234"):
        wakes.heard(payload)
    assert (woken.queues, woken.due, woken.keys, woken.all) == ([], [], 0, 0)


def test_who_was_removed_is_not_woken() -> None:
    wakes, woken = Wakes(lambda _: None), Woken()
    remove = wakes.add(woken)
    remove()
    wakes.pending("mail")
    wakes.due_in(1.0)
    wakes.missed()
    assert (woken.queues, woken.due, woken.all) == ([], [], 0)


def test_missed_notifications_wake_everybody() -> None:
    wakes, first, second = Wakes(lambda _: None), Woken(), Woken()
    wakes.add(first)
    wakes.add(second)
    wakes.missed()
    assert (first.all, second.all) == (1, 1)


def test_who_is_removed_by_another_while_all_are_woken_is_no_error() -> None:
    wakes, woken = Wakes(lambda _: None), Woken()

    class Leaving(Woken):
        def wake_queue(self, queue: str, *, front: bool) -> None:
            super().wake_queue(queue, front=front)
            remove()

    leaving = Leaving()
    remove = wakes.add(leaving)
    wakes.add(woken)
    wakes.pending("mail")
    assert leaving.queues == woken.queues == [("mail", False)]


def test_jobs_of_a_queue_are_told_of_with_their_number_where_it_is_known() -> None:
    notified: list[str] = []
    wakes = Wakes(notified.append)
    wakes.pending("mail", count=3)
    wakes.pending("mail", count=1, front=True)
    assert notified == ["q3:mail", "f1:mail"]


def test_what_became_pending_is_told_of_by_queue_with_its_number_unless_it_concerns_all() -> None:
    notified: list[str] = []
    wakes, woken = Wakes(notified.append), Woken()
    wakes.add(woken)
    wakes.became_pending([])
    assert (notified, woken.queues) == ([], [])
    wakes.became_pending(["mail", "a", "mail", "b", "mail"], urgent={"a"}, for_all=["b", "c"])
    assert notified == ["q3:mail", "f1:a", "q:b", "q:c"]
    assert woken.queues == [("mail", False), ("a", True), ("b", False), ("c", False)]


def test_lots_are_heard_by_those_who_are_here_with_whose_they_are() -> None:
    wakes, woken = Wakes(lambda _: None), Woken()
    wakes.add(woken)
    for payload in ("q3.17:mail", "f1.4294967295:a:b"):
        wakes.heard(payload)
    wakes.heard_own("q3.17:mail")
    assert woken.lots == [
        ("mail", Lot(3, 17), False, False), ("a:b", Lot(1, 4294967295), True, False), ("mail", Lot(3, 17), False, True)
    ]  # fmt: skip
    for payload in ("q0.17:mail", "q3:mail", "q3.:mail", "q٣.17:mail", "qq:mail", "q99999999999.1:mail"):
        wakes.heard(payload)
    for payload in ("q:mail", "f:mail", "d", "q"):
        wakes.heard_own(payload)
    assert (len(woken.lots), woken.queues, woken.due) == (3, [], [])


def test_one_that_was_enqueued_is_told_to_others_unless_a_runner_here_answers_for_it() -> None:
    notified: list[str] = []
    wakes, first, second = Wakes(notified.append), Woken(), Woken()
    wakes.add(first)
    wakes.add(second)
    wakes.enqueued("mail", "send", 1, front=False)
    assert notified == ["q1:mail"]
    second.is_free = True
    wakes.enqueued("mail", "send", 1, front=False)
    assert notified == ["q1:mail"]
    wakes.enqueued("mail", "send", 1, front=True)
    assert notified == ["q1:mail", "f1:mail"], "who passes on what is urgent has no hint for it"
    assert first.queues == second.queues == [("mail", False), ("mail", False), ("mail", True)]
