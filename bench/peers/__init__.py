"""Contenders that use other libraries, from environments of their own (`make bench-peers`), each as its documentation advises."""
