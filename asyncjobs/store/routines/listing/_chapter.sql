-- What runners claim ahead of their free slots, as operators see it.

-- What is read of a row's times. A column may hold what Python's datetime and timedelta cannot, by a stranger's hand: infinity, or the
-- year 294276. One such row must not break the claim of the rows beside it, nor a list. Inlined, so neither may carry a SET. A CHECK
-- that refuses such rows was tried: it cost 11 us more in each statement that writes to a row of `jobs`, these 0.1 us a row.
