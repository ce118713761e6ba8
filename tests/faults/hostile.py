"""Texts that have done harm somewhere."""

HOSTILE = {
    "sql": "x'); DROP TABLE entries; --", "sql quote": "' OR '1'='1", "sql comment": "*/; --\\'",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>", "entity": "&lt;&amp;\"'",
    "xml end": "]]></data><!--", "template": "{{7*7}}${7*7}{% raw %}%s%n{0.__class__}",
    "colour": "\x1b[31mred\x1b[0m", "clear": "\x1b[2J\x1b[H", "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://x\x1b\\click\x1b]8;;\x1b\\", "c1": "\x9b31m\x90q\x9c",
    "markup": "[red]bold[/red][link=http://x]y[/link]", "formula": "=cmd|' /C calc'!A0",
    "plus": "+1+1", "minus": "-1", "at": "@SUM(1)", "tab": "\tx", "newline": "a\nb\r\nc",
    "fake line": "\n{\"kind\": \"granted\"}\n", "separators": "a\u2028b\u2029c\x85d\x0be",
    "nul": "a\x00b", "backspace": "safe\x08\x08evil", "return": "safe\revil",
    "bidi": "\u202egnp.exe\u202c\u2066x\u2069", "zero width": "a\u200b\u200d\ufeffb",
    "surrogate": "a\ud800b", "low surrogate": "\udfff", "astral": "\U0001f4a9\U000e0001",
    "combining": "a" + "\u0301" * 100, "path": "../../../../etc/passwd",
    "windows": "C:\\CON\\..\\x",
    "url": "file:///etc/passwd?mode=memory", "option": "--format=json", "space": "   ",
    "format": "%s%s%n", "quote": "\"},{\"units\":0,\"x\":\"", "backslash": "\\u0000\\",
    "nan": "NaN",
    "proto": "__proto__", "long": "A" * 10_000_000}
SHORT = {name: text for name, text in HOSTILE.items() if len(text) <= 200}
RAW = {chr(code) for code in [*range(32), *range(127, 160)]} - {"\n"} | set(
    "\u2028\u2029\u202e\u202c\u2066\u2069\u200b\u200d\ufeff")
"""What must never reach a terminal from a text. (Lines are ended by the program itself.)"""
