"""All SQL, and the connections it runs on."""
