"""An evaluation in detail beside the logits of the same pictures: check_evaluation.py EVALUATION.json LOGITS.tsv turns|classes [FOLDER]

LOGITS.tsv is what `train predict --logits FOLDER/CLASS...` prints: a line a picture, whose class is its folder. The set has the classes'
pictures in turns, or one class after another. Every figure is computed again, in plain Python, and by scikit-learn where it is
installed. FOLDER: the mistakes' pictures are compared with its files (PGM). Then errors are planted, each of which must be found.
Prints one line for every difference, and the last line says what was compared."""
import base64
import copy
import json
import math
import struct
import sys
import zlib
from pathlib import Path

BINS, TOP, MISTAKES = 15, 5, 24


def read_rows(path, names, order):
    """(path in the folder, label, logits) of each picture, in the order of the set."""
    by_class = {name: [] for name in names}
    for line in Path(path).read_text().splitlines():
        file, *logits = line.split("\t")
        folder, name = file.split("/")[-2:]
        by_class[folder].append((f"{folder}/{name}", names.index(folder), [float(x) for x in logits]))
    rows = [(k if order == "turns" else 0, label, row) for label, rows in enumerate(by_class.values()) for k, row in enumerate(sorted(rows))]
    return [row for _, _, row in sorted(rows, key=lambda r: r[:2])]


def softmax(logits):
    top = max(logits)
    powers = [math.exp(x - top) for x in logits]
    return [p / sum(powers) for p in powers]


def expected(names, rows):
    """What EVALUATION.json must have."""
    k = len(names)
    labels = [label for _, label, _ in rows]
    shares = [softmax(logits) for _, _, logits in rows]
    predictions = [max(range(k), key=lambda c: (logits[c], -c)) for _, _, logits in rows]
    n = len(rows)
    bins = [[] for _ in range(BINS)]
    for share, label, prediction in zip(shares, labels, predictions):
        bins[max(math.ceil(max(share) * BINS) - 1, 0)].append((max(share), label == prediction))
    mean = lambda values: sum(values) / len(values) if values else None
    bins = [{"confidence": mean([p for p, _ in b]), "accuracy": mean([c for _, c in b]), "count": len(b)} for b in bins]
    confusion = [[0] * k for _ in names]
    for label, prediction in zip(labels, predictions):
        confusion[label][prediction] += 1
    wrong = [(-max(share), i) for i, share in enumerate(shares) if labels[i] != predictions[i]]
    out = {
        "samples": n,
        "loss": -sum(math.log(share[label]) for share, label in zip(shares, labels)) / n,
        "top1": sum(map(int.__eq__, labels, predictions)) / n,
        "calibration_error": sum(b["count"] / n * abs(b["accuracy"] - b["confidence"]) for b in bins if b["count"]),
        "bins": bins,
        "confusion": confusion,
        "per_class": [{"name": names[c], "samples": labels.count(c),
                       "recall": mean([p == c for label, p in zip(labels, predictions) if label == c]),
                       "precision": mean([label == c for label, p in zip(labels, predictions) if p == c])}
                      for c in range(k)],
        "mistakes": [{"index": i, "path": rows[i][0], "label": labels[i], "prediction": predictions[i], "probability": -p}
                     for p, i in sorted(wrong)[:MISTAKES]],
    }
    if k > TOP:
        out["top5"] = mean([sorted(range(k), key=lambda c: (-logits[c], c)).index(label) < TOP for _, label, logits in rows])
    return out


def by_scikit_learn(names, rows, want):
    """The same figures, by scikit-learn; None: it is not there."""
    try:
        from sklearn import metrics
    except ImportError as reason:
        return None, str(reason)
    labels, shares = [label for _, label, _ in rows], [softmax(logits) for _, _, logits in rows]
    predictions, every = [s.index(max(s)) for s in shares], list(range(len(names)))
    out = {
        "confusion": metrics.confusion_matrix(labels, predictions, labels=every).tolist(),
        "top1": metrics.accuracy_score(labels, predictions),
        "loss": metrics.log_loss(labels, shares, labels=every),
        "per_class": [],
    }
    if "top5" in want:
        out["top5"] = metrics.top_k_accuracy_score(labels, shares, k=TOP, labels=every)
    recall, precision = (f(labels, predictions, labels=every, average=None, zero_division=0)
                         for f in (metrics.recall_score, metrics.precision_score))
    for c, name in enumerate(names):  # which has 0 for 0/0
        out["per_class"].append({"recall": float(recall[c]) if want["per_class"][c]["recall"] is not None else None,
                                 "precision": float(precision[c]) if want["per_class"][c]["precision"] is not None else None})
    import sklearn
    return out, "scikit-learn " + sklearn.__version__


def differences(seen, want, where=""):
    if isinstance(want, dict):
        for key in want:
            if not isinstance(seen, dict) or key not in seen:
                yield f"{where}{key}: is missing"
            else:
                yield from differences(seen[key], want[key], f"{where}{key} ")
    elif isinstance(want, list):
        if not isinstance(seen, list) or len(seen) != len(want):
            yield f"{where}has other entries: {seen}, expected {want}"
        else:
            for i, value in enumerate(want):
                yield from differences(seen[i], value, f"{where}[{i}] ")
    elif isinstance(want, float) and isinstance(seen, (int, float)):
        if not math.isclose(seen, want, rel_tol=2e-6, abs_tol=1e-7):
            yield f"{where}: is {seen}, expected {want}"
    elif seen != want:
        yield f"{where}: is {seen}, expected {want}"


def decode_png(data):
    """(width, height, channels, rows of bytes)"""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, packed, head = 8, b"", None
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at:at + 4]), data[at + 4:at + 8]
        body = data[at + 8:at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0], "damaged"
        head = struct.unpack(">IIBB", body[:10]) if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, _, colour = head
    channels = {0: 1, 2: 3}[colour]
    raw, stride, rows = zlib.decompress(packed), width * channels, []
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        above = rows[-1] if rows else bytes(stride)
        for x in range(stride):
            left, up = line[x - channels] if x >= channels else 0, above[x]
            corner = above[x - channels] if x >= channels else 0
            guess = left + up - corner
            paeth = min((abs(guess - v), i, v) for i, v in enumerate((left, up, corner)))[2]
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth)[kind]) % 256
        rows.append(bytes(line))
    return width, height, channels, rows


def compare_pictures(seen, folder):
    for mistake in seen["mistakes"]:
        width, height, channels, rows = decode_png(base64.b64decode(mistake["picture"], validate=True))
        magic, size, _, pixels = (Path(folder) / mistake["path"]).read_bytes().split(b"\n", 3)
        assert magic == b"P5"
        if (width, height) != tuple(map(int, size.split())) or b"".join(rows) != bytes(v for v in pixels for _ in range(channels)):
            yield f"picture of {mistake['path']}: {width} x {height}, with other pixels than the file"


def plant(seen, has_pictures):
    """Evaluations with one error each, by what it is."""
    def planted(change):
        wrong = copy.deepcopy(seen)
        change(wrong)
        return wrong
    first = lambda e: next(i for i, b in enumerate(e["bins"]) if b["count"])

    def exchange(e, key, a, b):
        e[key][a], e[key][b] = e[key][b], e[key][a]
    errors = {
        "rows for columns": lambda e: e.update(confusion=[list(c) for c in zip(*e["confusion"])]),
        "one picture in another cell": lambda e: (e["confusion"][0].__setitem__(0, e["confusion"][0][0] - 1),
                                                 e["confusion"][0].__setitem__(1, e["confusion"][0][1] + 1)),
        "recall for precision": lambda e: [c.update(recall=c["precision"], precision=c["recall"]) for c in e["per_class"]],
        "a sample more": lambda e: e.update(samples=e["samples"] + 1),
        "top5 is top1": lambda e: e.update(top5=e["top1"]),
        "calibration without weights": lambda e: e.update(calibration_error=sum(
            abs(b["accuracy"] - b["confidence"]) for b in e["bins"] if b["count"]) / BINS),
        "the neighbouring bin": lambda e: exchange(e, "bins", first(e), first(e) - 1),
        "the order of mistakes": lambda e: exchange(e, "mistakes", 0, 1),
        "the next picture": lambda e: e["mistakes"][0].update(index=e["mistakes"][0]["index"] + 1),
        "label for prediction": lambda e: e["mistakes"][0].update(label=e["mistakes"][0]["prediction"]),
        "a mistake too few": lambda e: e["mistakes"].pop(),
        "the sum of losses": lambda e: e.update(loss=e["loss"] * e["samples"]),
    }
    if has_pictures:
        errors["another picture"] = lambda e: e["mistakes"][0].update(picture=e["mistakes"][-1]["picture"])
    return {what: planted(change) for what, change in errors.items()}


def main():
    evaluation, logits, order, *folder = sys.argv[1:]
    seen = json.loads(Path(evaluation).read_text())
    names = seen["classes"]
    rows = read_rows(logits, names, order)
    want = expected(names, rows)
    theirs, which = by_scikit_learn(names, rows, want)

    def find(e):
        found = list(differences(e, want)) + (list(differences(e, theirs)) if theirs else [])
        return found + (list(compare_pictures(e, folder[0])) if folder else [])
    for line in find(seen):
        print(line)
    for what, wrong in plant(seen, bool(folder)).items():
        if not find(wrong):
            print(f"planted: {what}: is not found")
    print(f"compared: {len(rows)} pictures, {len(want['mistakes'])} mistakes,", which if theirs else f"skipped: scikit-learn ({which})")


main()
