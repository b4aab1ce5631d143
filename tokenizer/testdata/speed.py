"""Measure package tokenizers on one thread.

    python speed.py

Reads commands, one a line, from the standard input: the path of a tokenizer.json, the path of a text,
and the number of rounds. Writes the nanoseconds that opening takes, and those of a round.
"""
import sys
import time

from tokenizers import Tokenizer

opened = {}
for line in sys.stdin:
    path, text, rounds = line.rstrip("\n").split("\t")
    if path not in opened:
        start = time.perf_counter_ns()
        tok = Tokenizer.from_file(path)
        opened[path] = tok, time.perf_counter_ns() - start
        tok.no_truncation()
        tok.no_padding()
    tok, open_ns = opened[path]
    s = open(text, encoding="utf-8").read()
    tok.encode(s)
    start = time.perf_counter_ns()
    for _ in range(int(rounds)):
        tok.encode(s)
    print(open_ns, (time.perf_counter_ns() - start) // int(rounds), flush=True)
