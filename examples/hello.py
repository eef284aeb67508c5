"""Runs inside a sandbox: prints as it goes, and leaves a file behind."""

import os
import platform
import time

print(f"hello from {platform.node()}, kernel {platform.release()}, as uid {os.getuid()}")
squares = []
for n in range(1, 6):
    squares.append(n * n)
    print(f"step {n} of 5: {n}² = {n * n}")
    time.sleep(0.2)
print("done, the sum is", sum(squares))
