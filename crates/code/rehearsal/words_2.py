from collections import Counter
import os
import re

SAMPLE = "the quick brown fox jumps over the lazy dog and the dog sleeps"

if os.path.exists("words.txt"):
    with open("words.txt", encoding="utf-8", errors="replace") as file:
        text = file.read()
else:
    print("words.txt not found; using a sample sentence:")
    text = SAMPLE
for word, count in Counter(re.findall(r"\w+", text.lower())).most_common(10):
    print(f"{word} {count}")
