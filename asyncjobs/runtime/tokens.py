"""The tokens of a runner's claims."""


class Tokens:
    """Claim tokens: a random base of this runner and a number for each claim, handed out once even if the call was lost."""

    def __init__(self, base: int) -> None:
        self.base = base
        self._next = 0

    def take(self, count: int) -> int:
        """Numbers for `count` rows: the one before the first."""
        first = self._next
        self._next = (self._next + count) % 2**32
        return first

    @property
    def last(self) -> int:
        """The last token that was drawn."""
        return (self.base << 32) | self._next

    def next(self) -> int:
        """A token."""
        return (self.base << 32) | (self.take(1) + 1) % 2**32
