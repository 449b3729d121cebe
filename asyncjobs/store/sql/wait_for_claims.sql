-- Wait for the claims that are under way.
SELECT asyncjobs.wait_for_claims();
