from collections import Counter

text = open("words.txt").read()
counts = Counter(text.lower().split())
for word, count in counts.most_common(10):
    print(f"{word} {count}")
