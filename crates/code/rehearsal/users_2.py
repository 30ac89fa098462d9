import json
import os
import sys

SAMPLE = [{"username": "ada"}, {"username": "grace"}, {"username": "linus"}]
KEYS = ("username", "user_name", "login", "name")

if os.path.exists("users.json"):
    with open("users.json") as file:
        users = json.load(file)
else:
    print("users.json not found; using sample data:")
    users = SAMPLE
if isinstance(users, dict):
    users = next((value for value in users.values() if isinstance(value, list)), [users])
for user in users:
    if not isinstance(user, dict):
        print(user)
        continue
    key = next((key for key in KEYS if key in user), None)
    if key is None:
        sys.exit(f"no username in a record with the keys {sorted(user)}")
    print(user[key])
