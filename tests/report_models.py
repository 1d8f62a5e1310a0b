"""Models for the tests of `ddpc report`: names that a page could take for markup, bytes that are not UTF-8, and many."""
NAMES = ["plain.weight", "<b>bold</b>.w", "a&amp;b.w", '"quoted".w', "</td></tr></table>.w", "</script><script>evil=1</script>",
         "<img src=x onerror=evil=1>", "{{name}}.w", "{{{css}}}", "naïve.日本.w", "]]>.w", "-->.w", "x" * 2000]


def nasty():
    quoted = ['"' + n.replace("\\", "\\\\").replace('"', '\\"') + '"' for n in NAMES]
    lines = ['<ir_version: 8, opset_import: ["" : 17]>', '"<i>g</i>" (float[3,3] x) => (float "<u>loss</u>")',
             "<" + ", ".join(f"float[3,3] {q}" for q in quoted) + ', float[3] "<unread>">', "{"]
    lines += [f"h{i} = MatMul ({f'h{i - 1}' if i else 'x'}, {q})" for i, q in enumerate(quoted)]
    lines += [f'"<u>loss</u>" = ReduceMean <keepdims = 0> (h{len(NAMES) - 1})', "}", ""]
    return "\n".join(lines).encode().replace("naïve".encode(), b"na\xefve\xff\x01")


def many(n=10000):
    return ('<ir_version: 8, opset_import: ["" : 17]>\ng (float[3,3] x) => (float loss)\n<'
            + ", ".join(f'float[3,3] "m.{i // 1000}.{i // 50}.p{i}.w"' for i in range(n)) + ">\n{\n"
            + "".join(f'h{i} = MatMul ({f"h{i - 1}" if i else "x"}, "m.{i // 1000}.{i // 50}.p{i}.w")\n'
                      for i in range(n) if i != 4711)
            .replace("(h4711,", "(h4710,") + f"loss = ReduceMean <keepdims = 0> (h{n - 1})\n}}\n").encode()
