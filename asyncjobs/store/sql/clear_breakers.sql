-- Close all circuit breakers, for tests.
SELECT asyncjobs.clear_breakers();
