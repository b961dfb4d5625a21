"""One congestion window for every device, from what some of them measured. make_traces.py made traces.csv up."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from voxpop import Decisions, Float, Pilot, Space, Study, calibrate

traces = pd.read_csv("traces.csv")
# A device likes goodput, with diminishing returns, and dislikes delay: 50 ms more is as bad as half the goodput.
traces["reward"] = np.log2(traces.goodput) - traces.delay / 50
rewards = traces.pivot(index="device", columns="window", values="reward").sample(frac=1, random_state=4)
windows = [{"window": int(window)} for window in rewards.columns]
space = Space(window=Float(2, 134, log=True))
decisions = Decisions([space.scale(window) for window in windows], windows)

# 20 devices try every window before the study, five sessions each; the others can be asked once.
pilot, others = rewards[:20], rewards[20:]
model = calibrate(Pilot.of_matrix(decisions, pilot, counts=5), space)
study = Study(model.problem(decisions, horizon=20_000), population=len(others))

while question := study.ask():
    asked, others = others[: question.people], others[question.people :]
    tried = [decision["window"] for decision in question.decisions]
    print(f"wave {question.wave}: {question.people} devices try the windows {', '.join(map(str, tried))}")
    study.tell(question.wave, asked[tried].to_numpy())

chosen, truth = study.best.decision["window"], rewards.mean()
print(f"set the window to {chosen} packets: {study.ended}")
print(f"nothing is better by more than {study.best.regret:.2f} (95 % confidence)")
print(f"expected loss: {study.best.expected_loss:.3f} per session")
print(f"all 240 devices together would choose {truth.idxmax()}; {chosen} loses {truth.max() - truth[chosen]:.3f} to it")

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(rewards.columns, rewards[::6].T, color="tab:gray", alpha=0.25, linewidth=0.8)
ax.plot([], [], color="tab:gray", label="single devices")
ax.plot(truth, color="tab:orange", linewidth=2.5, label="mean of all 240")
estimate = study.state.centre
ax.plot(rewards.columns, estimate, "--", color="tab:blue", linewidth=2, label="the study's estimate")
ax.plot(chosen, truth[chosen], "*", color="tab:green", markersize=16, label="chosen")
ax.set(xscale="log", xlabel="congestion window (packets)", ylabel="log2(goodput) - delay / 50 ms", ylim=(-5, 4))
ax.set_xticks(rewards.columns[::2], rewards.columns[::2].astype(str))
ax.minorticks_off()
figure.legend(loc="outside lower center", ncols=4, frameon=False)
figure.savefig("network.png", dpi=120)
