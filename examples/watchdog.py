#!/usr/bin/env python3
"""Checks a folder every few seconds and prints the paths of changed files."""
import pathlib
import sys
import time


def snapshot(folder):
    return {path: path.stat().st_mtime for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    before = snapshot(folder)
    while True:
        time.sleep(2)
        now = snapshot(folder)
        for path in sorted(before.keys() | now.keys()):
            if before.get(path) != now.get(path):
                print(path)
        before = now


if __name__ == "__main__":
    main()
