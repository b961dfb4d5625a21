"""Write traces.csv: what 240 devices measured with 15 sizes of the congestion window. The devices are made up.

A device has a link of its own: a bandwidth, a round-trip time and a buffer. A window that is too small leaves the link
idle; one that is too large fills the buffer, which adds delay, and then loses packets. Traffic of others varies from
session to session. Run `python make_traces.py` to write the same file again.
"""

import numpy as np
import pandas as pd

WINDOWS = [round(2 * 1.35**step) for step in range(15)]  # packets: 2 to 134
SESSIONS = 5  # per device and window
PACKET = 0.012  # megabits

rng = np.random.default_rng(7)
rows = []
for device in range(240):
    kind = rng.choice(["fibre", "cable", "mobile"], p=[0.3, 0.4, 0.3])
    bandwidth = rng.lognormal(np.log({"fibre": 12, "cable": 8, "mobile": 4}[kind]), 0.35)  # a flow's share, Mbit/s
    round_trip = rng.lognormal(np.log({"fibre": 0.02, "cable": 0.035, "mobile": 0.06}[kind]), 0.3)  # seconds
    buffer = rng.uniform(0.5, 3.0) * bandwidth * round_trip / PACKET  # packets
    for window in WINDOWS:
        share = bandwidth * rng.uniform(0.6, 1.0, SESSIONS)  # what the others leave
        on_the_way = share * round_trip / PACKET  # packets that fill the link without a queue
        queue = np.clip(window - on_the_way, 0, buffer)
        lost = np.clip(window - on_the_way - buffer, 0, None) / window
        delay = round_trip + queue * PACKET / share
        goodput = np.minimum(window * PACKET / delay, share) * (1 - lost) ** 2
        measured = {"goodput": goodput.mean(), "delay": 1000 * delay.mean()}
        rows.append({"device": f"{kind}-{device:03}", "window": window, "sessions": SESSIONS, **measured})
pd.DataFrame(rows).to_csv("traces.csv", index=False, float_format="%.3f")
