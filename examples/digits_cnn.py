#!/usr/bin/env python3
"""A convolutional net reads handwriting that the program makes: digits drawn with a shaky pen, 28 x 28 as in MNIST.

    python digits_cnn.py               with tensotron
    python digits_cnn.py --lib torch   the same program on PyTorch
"""

import numpy as np
from common import Picture, must, options, progress

torch, args = options(__doc__, steps=300)
nn = torch.nn
F = nn.functional

# The corners that the pen goes through, in a box 4 wide and 6 high; y points down.
STROKES = [
    [[(1, 0), (3, 0), (4, 2), (4, 4), (3, 6), (1, 6), (0, 4), (0, 2), (1, 0)]],
    [[(1, 1), (2, 0), (2, 6)]],
    [[(0, 1), (1, 0), (3, 0), (4, 1), (4, 2), (0, 6), (4, 6)]],
    [[(0, 0), (4, 0), (2, 2.5), (4, 4), (3, 6), (1, 6), (0, 5)]],
    [[(3, 0), (0, 4), (4, 4)], [(3, 2), (3, 6)]],
    [[(4, 0), (0, 0), (0, 3), (3, 2.5), (4, 4), (3, 6), (0, 6)]],
    [[(3, 0), (1, 2), (0, 4), (1, 6), (3, 6), (4, 4.5), (3, 3), (0.5, 3.5)]],
    [[(0, 0), (4, 0), (1.5, 6)]],
    [[(2, 3), (0.5, 1.5), (2, 0), (3.5, 1.5), (2, 3), (0, 4.5), (2, 6), (4, 4.5), (2, 3)]],
    [[(4, 2), (2, 3), (0, 1.5), (2, 0), (4, 1), (4, 2), (3, 6)]],
]


def draw(digit, random):
    """One image: the digit turned, slanted, scaled, moved, with shaky corners and a pen of some width."""
    turn, slant = random.normal(0, 0.15), random.normal(0, 0.15)
    scale = random.uniform(2.4, 3.4, 2)
    matrix = np.array([[np.cos(turn), slant - np.sin(turn)], [np.sin(turn), np.cos(turn)]]) * scale
    centre = 13.5 + random.uniform(-2, 2, 2)
    pixels = np.stack(np.meshgrid(np.arange(28), np.arange(28)), -1).reshape(-1, 1, 2)
    segments = []
    for stroke in STROKES[digit]:
        corners = (np.array(stroke) - (2, 3) + random.normal(0, 0.15, (len(stroke), 2))) @ matrix.T + centre
        segments += zip(corners[:-1], corners[1:])
    begin, end = np.array(segments).transpose(1, 0, 2)
    along = end - begin
    share = np.clip(((pixels - begin) * along).sum(-1) / ((along**2).sum(-1) + 1e-9), 0, 1)
    distance = np.sqrt(((pixels - begin - share[..., None] * along) ** 2).sum(-1)).min(1)
    ink = np.clip(random.uniform(1.2, 2) - distance, 0, 1)
    return np.clip(ink + random.normal(0, 0.1, ink.shape), 0, 1).reshape(1, 28, 28)


def make(count, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    images = np.stack([draw(digit, random) for digit in labels]).astype(np.float32)
    return torch.utils.data.TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.head(self.dropout(x.flatten(1)))


train, test = make(2000, 1), make(400, 2)
loader = torch.utils.data.DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)


def batches():
    while True:
        yield from loader


losses = []
for (_, show), (x, y) in zip(progress(args.steps), batches()):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
    show(loss=losses[-1])

net.eval()
images, labels = test.tensors
with torch.no_grad():
    answers = net(images).argmax(1)
accuracy = (answers == labels).float().mean().item()
print(f"accuracy on {len(labels)} new images: {accuracy:.3f}")

with Picture(args.plot, 2) as (left, right):
    sheet = images[:40, 0].reshape(5, 8, 28, 28).permute(0, 2, 1, 3).reshape(140, 224)
    left.imshow(sheet.numpy(), cmap="gray_r")
    for i, (answer, label) in enumerate(zip(answers[:40].tolist(), labels[:40].tolist())):
        left.text(28 * (i % 8) + 1, 28 * (i // 8) + 6, answer, color="green" if answer == label else "red")
    left.set_axis_off()
    left.set_title(f"new images and the answers; accuracy {accuracy:.3f}")
    right.semilogy(losses)
    right.set_xlabel("step")
    right.set_ylabel("loss")
must(accuracy > 0.9, f"accuracy {accuracy:.3f}")
