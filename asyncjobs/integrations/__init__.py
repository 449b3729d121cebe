"""One file per library that asyncjobs meets; each is imported only when it is used."""
