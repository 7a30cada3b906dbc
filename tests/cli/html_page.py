"""A page that `train report` or `train bench` wrote, for the checks of this folder: its data, and that it stands by itself."""
import json
import re
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """problems: of a page whose elements are not closed, or that refers to elsewhere."""
    void = {"meta", "link", "br", "hr", "img", "col", "input"}

    def __init__(self, path):
        super().__init__()
        self.open, self.problems, self.scripts, self.policy = [], [], [], ""
        text = Path(path).read_text(encoding="utf-8")
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"elements left open: {self.open}")
        if "default-src 'none'" not in self.policy:
            self.problems.append(f"policy: {self.policy!r}")
        if len(self.scripts) != 2:
            self.problems.append(f"{len(self.scripts)} scripts, expected the data and the program")
        for address in re.findall(r"(?:https?:)?//[A-Za-z0-9.-]+\.[a-z]+[^\s\"'`]*", self.scripts[-1]):
            if address != "http://www.w3.org/2000/svg":  # a name, not a place
                self.problems.append(f"an address: {address}")
        for word in re.findall(r"\b(?:fetch|eval|import|XMLHttpRequest|innerHTML|insertAdjacentHTML)\b(?=\(|\s*=|;)", self.scripts[-1]):
            self.problems.append(f"the program has {word}")
        self.data = json.loads(self.scripts[0])

    def handle_starttag(self, tag, attributes):
        if tag not in self.void:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        attributes = dict(attributes)
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes.get("content", "")
        for key in ("src", "href"):
            if not (attributes.get(key) or "#").startswith("#"):
                self.problems.append(f"{tag} {key}={attributes[key]}")

    def handle_data(self, text):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += text

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> is not the end of the innermost open element")
