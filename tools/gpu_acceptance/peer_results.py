"""What the timings of peer_worker come to: plain numbers, the standard library alone."""

import statistics


def parse_spec(text):
    """Fields of a canonical spec: width, head size, eps, dtype of x; whether the residual and the gate are there."""
    fields = dict(field.split("=", 1) for field in text.split(","))
    return {"width": int(fields["width"]), "head_size": int(fields["head_size"]), "eps": float(fields["eps"]), "dtype": fields["x"],
            "fused": "residual" in fields}


def quantile(values, fraction):
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = int(place)
    return ordered[below] + (place - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])


def summarise(times_us, moved_bytes):
    """`times_us`: of the rounds, by contender, the same number each. Times, bandwidth, and how much faster ours is."""
    rows = {}
    for name, times in times_us.items():
        median = statistics.median(times)
        rows[name] = {"median_us": median, "p20_us": quantile(times, 0.2), "p80_us": quantile(times, 0.8), "samples": len(times),
                      "gb_per_s": moved_bytes / median / 1e3}
    ratios = {name: statistics.median(theirs / ours for theirs, ours in zip(times, times_us["headnorm"]))
              for name, times in times_us.items() if name != "headnorm"}
    return rows, ratios
