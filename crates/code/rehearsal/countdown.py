import time

for number in range(10, 0, -1):
    print(number, flush=True)
    time.sleep(0.2)
print("done")
