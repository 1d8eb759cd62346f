"""Answers to homework 7 of the example seed: right ones, and the package's own."""

import textwrap


def table(rows: str) -> str:
    return textwrap.indent(textwrap.dedent(rows).strip(), "    ")


RIGHT = {
    "q2": {
        "numpy, each run eight times": """
    import numpy as np
    x = returns.numpy().copy()
    x[np.isnan(x)] = np.nanmin(x)
    n = x.shape[1]
    copies = np.sort(np.repeat(x, 8, axis=1), axis=1)[:, n : 7 * n]
    gap = x[:, None, :, None] - x[None, :, None, :]
    won = np.where(gap > 10.25, 1.0, np.where(gap < -10.25, 0.0, 0.5))
    return np.concatenate([copies.mean(1, keepdims=True), won.mean((2, 3))], axis=1)
""",
    },
    "q3": {
        "numpy": """
    import numpy as np
    runs = evaluations.numpy()[..., evaluations.shape[2] - window :].mean(axis=2)
    m, half = runs.mean(axis=1), 2.576 * runs.std(axis=1, ddof=1) / np.sqrt(runs.shape[1])
    return np.stack([m - half, m, m + half], axis=1)
""",
    },
    "q4": {
        "a list of lists": table("return [[0, s, 100 + s] for s in range(5)] + [[1, s, 99.5 - s] for s in range(5)]"),
        "a list of tuples, mixed up, three settings, six seeds": table("""
            return [(i, seed, -150.0 - 7 * i * seed) for seed in (3, 1, 4, 15, 9, 2) for i in (2, 0, 1)]
        """),
        "numpy": table("""
            import numpy as np
            final = np.array([[21.0, 9.4, 500.0, 500.0, 313.7], [9.4, 9.2, 9.6, 9.3, 12.8]])
            setting, seed = np.indices(final.shape)
            return np.stack([setting.ravel(), 100 + seed.ravel(), final.ravel()], axis=1)
        """),
        "a float32 tensor, settings counted from 1": table("""
            final = torch.tensor([-1200.5, -300.0, -160.25, -140.0, -151.5, -133.0, -135.0, -900.0, -128.0, -131.0])
            setting = torch.tensor([1.0] * 5 + [2.0] * 5)
            return torch.stack([setting, torch.arange(5.0).repeat(2), final], 1).float()
        """),
        "a list of tensors": table("""
            return [torch.tensor([i, s, 17.0 * s + i]) for i in range(2) for s in (11, 12, 13, 14, 15)]
        """),
        "one setting that always reaches the ceiling": table("""
            return [[i, s, 500.0 if i == 0 else 480.0 + s] for i in range(2) for s in range(10)]
        """),
        "whole numbers": table("return torch.tensor([[i, s, 200 - 30 * i + s] for i in range(4) for s in range(5)])"),
    },
}

PACKAGE = {
    "q2": """
    from minerva_lite.training.evaluation import summary
    told = [summary(row[~row.isnan()], row[~row.isnan()]) for row in returns]
    mean = torch.tensor([each["eval/mean"] for each in told])
    median = torch.tensor([each["eval/median"] for each in told])
    return torch.cat([median[:, None], (mean[:, None] > mean).double() + 0.5 * (mean[:, None] == mean)], 1)
""",
    "q3": """
    from minerva_lite.training.evaluation import summary
    rows = []
    for setting in evaluations:
        told = summary(setting[:, -1], setting[:, -1])
        half = 2.576 * told["eval/std"] / math.sqrt(len(setting))
        rows.append([told["eval/mean"] - half, told["eval/mean"], told["eval/mean"] + half])
    return torch.tensor(rows)
""",
}
