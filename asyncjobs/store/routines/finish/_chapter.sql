-- finish: the acks of attempts that ended, the next heads of their keys, and new claims, in one round trip and one commit.

-- The lean calls: what `finish` does, in as few statements as can be, for what a busy runner asks for nearly always. On rows of a few
-- jobs the statements cost more than what they do: each opens the tables with all their indexes and checks, and each function
-- that is called sets and resets its settings.
