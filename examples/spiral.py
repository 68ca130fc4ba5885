#!/usr/bin/env python3
"""Three spiral arms, told apart by a small net; draws the regions.

    python spiral.py               with tensotron
    python spiral.py --lib torch   the same program on PyTorch
"""

import math

from common import Picture, must, options, plane, progress

torch, args = options(__doc__, steps=1500)
nn = torch.nn
ARMS, POINTS = 3, 150

radius = torch.linspace(0.05, 1, POINTS).repeat(ARMS)
labels = torch.arange(ARMS)[:, None].expand(ARMS, POINTS).flatten()
angle = 2 * math.pi * labels / ARMS + 4.5 * radius + 0.12 * torch.randn(ARMS * POINTS)
inputs = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)

net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, ARMS))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=90, shuffle=True)


def batches():
    while True:
        yield from loader


losses = []
for (_, show), (x, y) in zip(progress(args.steps), batches()):
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    show(loss=losses[-1])

with torch.no_grad():
    accuracy = (net(inputs).argmax(1) == labels).float().mean().item()
    points, line = plane(torch, -1.15, 1.15, 200)
    regions = net(points).argmax(1).reshape(200, 200)
print(f"accuracy {accuracy:.3f}")

with Picture(args.plot, 2) as (left, right):
    left.contourf(line, line, regions.tolist(), levels=[-0.5, 0.5, 1.5, 2.5], cmap="Set2", alpha=0.6)
    left.scatter(*inputs.T.tolist(), c=labels.tolist(), cmap="Dark2", s=8)
    left.set_title(f"accuracy {accuracy:.3f}")
    right.semilogy(losses)
    right.set_xlabel("step")
    right.set_ylabel("loss")
must(accuracy > 0.95, f"accuracy {accuracy:.3f}")
