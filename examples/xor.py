#!/usr/bin/env python3
"""XOR, the smallest thing that a linear model cannot do; draws the decision surface.

    python xor.py                  with tensotron
    python xor.py --lib torch      the same program on PyTorch
"""

from common import Picture, must, options, plane, progress

torch, args = options(__doc__, steps=500)
nn = torch.nn

inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
targets = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)

losses = []
for _, show in progress(args.steps):
    optimizer.zero_grad()
    loss = criterion(net(inputs), targets)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    show(loss=losses[-1])

with torch.no_grad():
    outputs = torch.sigmoid(net(inputs))
    points, line = plane(torch, -0.5, 1.5, 101)
    surface = torch.sigmoid(net(points)).reshape(101, 101)
for x, p in zip(inputs.tolist(), outputs.tolist()):
    print(f"{x[0]:.0f} xor {x[1]:.0f}: {p[0]:.3f}")

with Picture(args.plot, 2) as (left, right):
    left.contourf(line, line, surface.tolist(), levels=20, cmap="RdBu")
    left.scatter(*inputs.T.tolist(), c=targets.flatten().tolist(), cmap="RdBu", edgecolors="black", s=90)
    left.set_title("the net's answer")
    right.semilogy(losses)
    right.set_xlabel("step")
    right.set_ylabel("loss")
must(((outputs > 0.5) == (targets > 0.5)).all() and losses[-1] < 0.1, f"loss {losses[-1]:.3f}")
