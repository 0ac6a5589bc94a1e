"""CPU seconds of a Gaussian process's fit next to processes that keep all cores busy, by ``CAUSALBALD_THREADS``.

$ python benchmarks/threads.py --labels 1000 --busy 2

Each fit runs in a separate process. ``digest`` covers all beliefs: equal digests mean beliefs equal to the last bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time

from causalbald import datasets
from causalbald.models import GaussianProcess

VARIABLE = "CAUSALBALD_THREADS"
SPIN = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


def fit(labels: int) -> str:
    """Fit once, and return CPU seconds, wall seconds and the digest."""
    pool = datasets.load("synthetic", 0, pool=2 * labels).pool
    cpu, wall = time.process_time(), time.perf_counter()
    model = GaussianProcess().fit(pool.y[:labels], pool.t[:labels], X=pool.x[:labels], pool=pool.x)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    belief = model.posterior(pool.x, joint=False)
    digest = hashlib.sha256(belief.mean.tobytes() + belief.variance.tobytes()).hexdigest()[:12]
    return f"{cpu:.1f},{wall:.1f},{digest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--busy", type=int, default=2, help="processes that keep a core busy each")
    parser.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.fit:
        print(fit(a.labels))
        return
    print("threads,labels,busy,cpu_seconds,wall_seconds,digest")
    command = [sys.executable, __file__, "--fit", "--labels", str(a.labels)]
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(a.busy)]
    try:
        for threads in ("", "2"):
            environment = {k: v for k, v in os.environ.items() if k != VARIABLE and not k.endswith("_NUM_THREADS")}
            environment |= {VARIABLE: threads} if threads else {}
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            print(f"{threads or 'default'},{a.labels},{a.busy},{done.stdout.strip()}", flush=True)
    finally:
        for spinner in spinners:
            spinner.kill()


if __name__ == "__main__":
    main()
