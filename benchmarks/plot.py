"""Draws how many times as long torch takes, row by row."""

from harness import ratio

COLOURS = {"tensotron": "tab:blue", "captured": "tab:orange"}


def points(rows):
    """(label, {ours: torch over ours}) of the rows that compare times; operators of the table by size and quartile."""
    sizes = {}
    for row in rows:
        if row["part"] == "ops" and ratio(row):
            kind = "gradients" if row["gradient"] else "operators"
            sizes.setdefault(f"{kind} of {row['size']} elements", []).append(ratio(row))
        elif row.get("unit") in ("us", "ms"):
            found = {ours: ratio(row, ours) for ours in COLOURS}
            if any(found.values()):
                yield row["name"], {ours: r for ours, r in found.items() if r}
    for label, ratios in sizes.items():
        ratios.sort()
        for share, name in ((0.1, "tenth"), (0.5, "median"), (0.9, "nine tenths")):
            yield f"{label}: {name}", {"tensotron": ratios[int(share * (len(ratios) - 1))]}


def plot(rows, path):
    """Writes a picture; ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = list(points(rows))[::-1]
    if not found:
        return False
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.24 * len(found)))
    for ours, colour in COLOURS.items():
        at = [(r[ours], y) for y, (_, r) in enumerate(found) if ours in r]
        if at:
            axes.scatter(*zip(*at), color=colour, label=ours, zorder=3)
    axes.axvline(1, color="gray", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(found)), [label for label, _ in found])
    axes.set_xlabel("PyTorch takes so many times as long")
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True
