"""Measurements that take longer than a chapter allows: each module is a command, and writes one of `book/results`."""
