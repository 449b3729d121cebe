"""The library's own random numbers: for tokens, and to spread waits.

A program may seed Python's generator with what it likes, and several may do so alike: their runners would wait alike, too, and
draw the same tokens. And whoever draws from it under his feet, in a thread of ours, spoils what he wanted to repeat.
"""

import os
import random
from typing import Final

#: Begins anew in a fork. (A system call for each number was a fiftieth of an enqueue.)
CHANCE: Final = random.Random()
os.register_at_fork(after_in_child=CHANCE.seed)
