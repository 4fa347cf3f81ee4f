"""The report as Markdown, from the JSON of a run (results.Run.document): every number in it is one of the JSON's."""


import re


def _table(head, rows):
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    numeric = [all(re.fullmatch(r"[-\d., ()\[\]]*", row[i]) for row in cells) for i in range(len(head))]
    rule = [" ---: " if right and rows else " --- " for right in numeric]
    return ["| " + " | ".join(head) + " |", "|" + "|".join(rule) + "|"] + ["| " + " | ".join(row) + " |" for row in cells]


def _machine(data):
    device = data.get("device") or {}
    rows = [[name, device.get(name, "")] for name in ("name", "target", "units", "memory_bytes", "cache_bytes", "driver")]
    lines = _table(["device", ""], rows + [["system", data.get("system", "")], ["processors", data.get("processors", "")]])
    if data.get("nvidia_smi"):
        lines += ["", "```", data["nvidia_smi"], "```"]
    return lines


def _verify(data):
    wrong = [row for row in data.get("shapes", []) if not row["right"]]
    text = f"{data.get('cases', 0)} launches, every element of every output against double precision."
    return [text] + ([""] + _table(["wrong", "variant"], [[", ".join(row["presets"]), row["variant"]] for row in wrong]) if wrong else [])


def _emulator(data):
    elements, unequal = data.get("elements", 0), data.get("unequal", 0)
    allowed = ", ".join(f"{ulp} of {dtype}" for dtype, ulp in data.get("allowed_ulp", {}).items())
    outputs = [output for row in data.get("rows", []) for output in row["outputs"].values()]
    largest = max((output["largest_ulp"] for output in outputs), default=0)
    return [f"Against {data.get('emulator')}: {elements} elements, {unequal} of them not the same bits, the furthest {largest} ulp "
            f"(allowed for y: {allowed}; u is to be the same bits)."]


def _sanitizer(data):
    rows = [[row["tool"], row["preset"], row["variant"], "nothing found" if row["right"] else "FOUND SOMETHING"]
            for row in data.get("rows", [])]
    return _table(["tool", "preset", "variant", "result"], rows) if rows else []


def _copy(data):
    return [f"{data['gb_per_s']:.0f} GB/s: {data['source']}."] if "gb_per_s" in data else []


def _tune(data):
    def row(result):
        time, copy = result["time_us"], result.get("copy_ratio")
        return [f"{result['preset']}, {result['variant']}", result["rows"], f"{time['median']:.2f}", f"{result['gb_per_s']:.0f}",
                f"{copy:.2f}" if copy else "", f"{result['candidates']['measured']} of {result['candidates']['legal']}", result["evidence"],
                f"`{result['schedule']}`"]

    rows = [row(result) for result in data.get("results", [])]
    return _table(["kernel", "rows", "us", "GB/s", "x copy", "measured", "evidence", "schedule"], rows) if rows else []


CONTENDERS = ("headnorm", "copy", "pytorch", "torch.compile", "triton")


def _peers(data):
    rows = data.get("rows", [])
    if not rows:
        return []
    versions = ", ".join(f"{name} {value}" for name, value in data["versions"].items() if name != "gpu")
    lines = [f"Microseconds of one launch (GB/s), and in brackets that time over headnorm's: above 1 headnorm is faster. {versions}.", ""]

    def cell(row, name):
        if name not in row["times"]:
            return "failed" if name in row["absent"] else ""
        time = row["times"][name]
        ratio = "" if name == "headnorm" else f" [{row['ratios'][name]:.2f}]"
        return f"{time['median_us']:.2f} ({time['gb_per_s']:.0f}){ratio}"

    body = [[f"{row['preset']}, {row['variant']}{'' if row['tuned'] else ' (not tuned)'}", row["rows"], *(cell(row, name) for name in CONTENDERS)]
            for row in rows]
    lines += _table(["kernel", "rows", *CONTENDERS], body)
    absent = {f"- {name}: {reason}" for row in rows for name, reason in row["absent"].items()}
    return lines + ([""] + sorted(absent) if absent else [])


SECTIONS = {"machine": ("Machine", _machine), "verify": ("Against double precision", _verify), "emulator": ("Against the emulator", _emulator),
            "sanitizer": ("compute-sanitizer", _sanitizer), "copy": ("Copy ceiling", _copy), "tune": ("Tuning", _tune),
            "peers": ("Peers, side by side", _peers)}


def markdown(document):
    lines = [f"# GPU acceptance: {document['verdict']}", "",
             f"{document['tool']} on {document['device']}, {document['started']}, {document['seconds']:.0f} s"
             f"{', interrupted' if document['interrupted'] else ''}. Options: {document['options']}.", ""]
    lines += _table(["phase", "state", "seconds", "what"],
                    [[phase["name"], phase["state"], f"{phase['seconds']:.1f}", phase["summary"]] for phase in document["phases"]])
    for phase in document["phases"]:
        title, section = SECTIONS[phase["name"]]
        body = section(phase["data"])
        failures = [f"- {text}" for text in phase["failures"]]
        if body or failures:
            lines += ["", f"## {title}", "", *body] + (["", "Failures:", "", *failures] if failures else [])
    return "\n".join(lines) + "\n"
