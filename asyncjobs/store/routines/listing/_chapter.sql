-- Lists: jobs, keys and dead letters as operators see them, page by page, with what runners claim ahead of their free slots.

-- What is read of a row's times. A column may hold what Python's datetime and timedelta cannot, by a stranger's hand: infinity, or the
-- year 294276. One such row must not break the claim of the rows beside it, nor a list. Inlined, so neither may carry a SET. A CHECK
-- that refuses such rows was tried: it cost 11 us more in each statement that writes to a row of `jobs`, these 0.1 us a row.

-- A page of a list (`find_jobs`, `find_dead_letters`): those that fit, the highest ids first, below `_before`. At most `_look` are looked at
-- in a call: `looked` says how many were, `next` is where the next call goes on, null when there is nothing more (`next_page`). Where an
-- index says what is meant only that is looked at. One that is not in the order of the ids has to be read up to its end (`found_below`):
-- one in which there are more than `_look` is left, and the ids are walked. Bitmaps are collected as a whole, whatever the limit, so they
-- are off.
