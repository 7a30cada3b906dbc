"""Places in C sources that can be changed: find_places(path, text) -> [Place], in the order of the text.

A place is one change of one token or statement: `from` is replaced by `to` at `offset`. The search is lexical: comments, strings, character
constants and preprocessor lines are stepped over, and the house style (.clang-format: binary operators stand between spaces, unary ones
before their operand) tells `a * b` from `double *b`. What is changed so that it does not compile, or compiles to the same code, is no
loss: mutate.py sees that and draws the next place.
"""
import bisect
import collections
import re

Place = collections.namedtuple("Place", "path line column kind offset old new")

TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*|\s+)
      |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      |(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?[fFuUlL]*)
      |(?P<word>[A-Za-z_][A-Za-z_0-9]*)
      |(?P<sign><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE)
Token = collections.namedtuple("Token", "kind text at")

COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&",
              "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|=", "++": "--", "--": "++"}
NO_STATEMENT = {"if", "for", "while", "do", "switch", "case", "default", "else", "return", "goto", "typedef", "static", "const", "extern"}
# What only gives memory, files or locks back: its loss shows under sanitizers and in fault.injection, not in the fast tests. And assertions.
LEFT_IN = re.compile(r"(?:assert|free|\w+_free|f?close|\w+_close|munmap|closedir|\w+_destroy|\w+_unlock|dlclose)\b")


def tokens_of(text):
    return [Token(m.lastgroup, m.group(), m.start()) for m in TOKEN.finditer(text) if m.lastgroup != "skip"]


def other_number(text):
    """Another constant: 1 for 0, else one more."""
    digits, suffix = re.fullmatch(r"(0[xX][0-9a-fA-F]+|[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)", text).groups()
    if digits[:2] in ("0x", "0X"):
        return f"{int(digits, 16) + 1:#x}{suffix}"
    if re.search(r"[.eE]", digits):
        return f"{float(digits) + 1.0!r}{suffix}"
    return f"{int(digits) + 1}{suffix}" if digits == "0" or not digits.startswith("0") else None


def operator_places(tokens, text):
    depth = 0  # of braces: outside functions only constants are changed
    for i, token in enumerate(tokens[1:-1], 1):
        if token.kind != "sign":
            continue
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        if not depth:
            continue
        end = token.at + len(token.text)
        binary = text[token.at - 1].isspace() and text[end].isspace()
        if token.text in COMPARISON and binary:
            yield "comparison", token.at, token.text, COMPARISON[token.text]
        elif token.text in LOGIC:
            yield "logic", token.at, token.text, LOGIC[token.text]
        elif token.text == "!" and not text[end].isspace():
            yield "logic", token.at, "!", ""
        elif token.text in ARITHMETIC and (binary or token.text in ("++", "--")):
            yield "arithmetic", token.at, token.text, ARITHMETIC[token.text]


def constant_places(tokens):
    for i, token in enumerate(tokens):
        if token.kind != "number":
            continue
        declared = i > 2 and tokens[i - 1].text == "[" and tokens[i - 2].kind == "word" and tokens[i - 3].kind == "word"
        new = other_number(token.text)
        if new and not declared:  # the length of an array is room, not a result
            yield "constant", token.at, token.text, new


def statement_places(tokens, text):
    """Expression statements, break, continue, and the return that an if guards."""
    guards, inside, opened, depth = set(), set(), [], 0  # guards: the indices of ")" that end the condition of an if
    for i, token in enumerate(tokens):
        if token.text == "(":
            opened.append(i > 0 and tokens[i - 1].text == "if")
        elif token.text == ")" and opened:
            if opened.pop():
                guards.add(i)
        if opened:
            inside.add(i)
    for i, token in enumerate(tokens[1:], 1):
        depth += {"{": 1, "}": -1}.get(token.text, 0) if token.kind == "sign" else 0
        before = tokens[i - 1].text
        guarded = i - 1 in guards or before == "{" and i - 2 in guards
        if not depth or i in inside or not (before in (";", "{", "}", "else") or guarded):
            continue
        if token.kind == "word" and token.text == "return":
            if not guarded:
                continue
        elif token.kind == "word":
            follows = tokens[i + 1]
            if token.text in NO_STATEMENT or LEFT_IN.match(token.text) or follows.kind == "word" or follows.text == "*":
                continue
        elif token.text not in ("*", "++", "--"):
            continue
        end, level = i, 0
        while end < len(tokens) and not (tokens[end].text == ";" and level == 0):
            level += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(tokens[end].text, 0)
            if level < 0:
                break
            end += 1
        if end < len(tokens) and tokens[end].text == ";" and end > i:
            old = text[token.at:tokens[end].at]
            yield "statement", token.at, old, "\n" * old.count("\n")  # the lines below keep their numbers


def find_places(path, text):
    tokens = tokens_of(text)
    starts = [0] + [m.end() for m in re.finditer("\n", text)]
    assertions = [(m.start(), text.index(";", m.end())) for m in re.finditer(r"\bassert\(", text)]
    found = [*operator_places(tokens, text), *constant_places(tokens), *statement_places(tokens, text)]
    places = []
    for kind, at, old, new in sorted(found, key=lambda f: (f[1], f[0])):
        if any(a < at < b for a, b in assertions):
            continue
        line = bisect.bisect_right(starts, at)
        places.append(Place(path, line, at - starts[line - 1] + 1, kind, at, old, new))
    return places
