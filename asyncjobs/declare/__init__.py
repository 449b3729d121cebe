"""What is declared, and what becomes of a call before it is sent. No I/O."""
