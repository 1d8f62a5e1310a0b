"""ddpc's classes and guards against PyTorch's autograd, on random models.

usage: autograd.py PATH-TO-DDPC [MODELS [SEED]]

Each model is made twice at once: as text for ddpc, and as closures that execute the same thing in torch. An If is a
Python if, a Loop a Python loop. All values of the model's flags and some trip counts are tried; after each backward
pass, whether `p.grad is None` must be what ddpc says:

    always       never None
    never        always None
    conditional  None where the guard is false; present where it is true, if the guard is exact

A model whose only choices are flags must also get exactly the class that its executions show. Exit 77: no torch here.
"""
import itertools, json, pathlib, random, re, subprocess, sys, tempfile

try:
    import torch
except ImportError:
    print("skipped: no torch")
    sys.exit(77)
import torch.nn.functional as F

PARAMS, FLAGS = 5, 3
HEAD = '<ir_version: 8, opset_import: ["" : 18, "ddpc" : 1]>\n'
CONSTANTS = """  shape = Constant <value = int64[2] {2, 3}> ()
  shape4 = Constant <value = int64[4] {1, 1, 2, 3}> ()
  shapeg = Constant <value = int64[4] {1, 1, 3, 2}> ()
  zero1 = Constant <value = int64[1] {0}> ()
  one1 = Constant <value = int64[1] {1}> ()
  three1 = Constant <value = int64[1] {3}> ()
  rows = Constant <value = int64[2] {1, 0}> ()
  labels = Constant <value = int64[2] {2, 0}> ()
  rowindex = Constant <value = int64[1,1] {1}> ()
  six = Constant <value = int64 {6}> ()
  zero = Constant <value = float {0.0}> ()
  tenth = Constant <value = float {0.1}> ()
  half = Constant <value = float {0.5}> ()
  none = Constant <value = int64 {0}> ()
  two = Constant <value = int64 {2}> ()
  no = Constant <value = bool {0}> ()
  yes = Constant <value = bool {1}> ()
"""
LABELS, ROWS = torch.tensor([2, 0]), torch.tensor([1, 0])


def norm(a, b):
    s = b.sum(0)
    mean, var = torch.zeros(3), torch.ones(3)
    return F.batch_norm(a, mean, var, s, s, True), mean.expand(2, 3)


def scatter(a, b):
    return torch.cat((a[:1], b[:1]))


def halves(a):
    return a[:1].expand(2, 3), a[1:].expand(2, 3)


# Text and meaning. a, b, c are float[2,3], o and p the results, o_1 ... what is between.
OPERATORS = [
    ("{o} = Relu ({a})", torch.relu),
    ("{o} = Sigmoid ({a})", torch.sigmoid),
    ("{o} = Tanh ({a})", torch.tanh),
    ("{o} = Neg ({a})", torch.neg),
    ("{o} = Abs ({a})", torch.abs),
    ("{o} = Erf ({a})", torch.erf),
    ("{o} = Elu ({a})", F.elu),
    ("{o} = Softplus ({a})", F.softplus),
    ("{o} = LeakyRelu ({a})", F.leaky_relu),
    ("{o} = Identity ({a})", lambda a: a),
    ("{o} = Softmax ({a})", lambda a: a.softmax(-1)),
    ("{o} = LogSoftmax ({a})", lambda a: a.log_softmax(-1)),
    ("{o} = CumSum ({a}, zero1)", lambda a: a.cumsum(0)),
    ("{o}_1 = Transpose ({a})\n{o} = Transpose ({o}_1)", lambda a: a.t().t()),
    ("{o}_1 = Reshape ({a}, shape4)\n{o} = Reshape ({o}_1, shape)", lambda a: a.reshape(1, 1, 2, 3).reshape(2, 3)),
    ("{o} = Gather ({a}, rows)", lambda a: a[ROWS]),
    ("{o}_1 = ReduceMax ({a}, zero1)\n{o} = Expand ({o}_1, shape)", lambda a: a.amax(0, True).expand(2, 3)),
    ("{o} = Add ({a}, {b})", torch.add),
    ("{o} = Sub ({a}, {b})", torch.sub),
    ("{o} = Mul ({a}, {b})", torch.mul),
    ("{o} = Div ({a}, {b})", torch.div),
    ("{o} = Pow ({a}, {b})", torch.pow),
    ("{o} = Mod <fmod = 1> ({a}, {b})", torch.fmod),
    ("{o} = Max ({a}, {b})", torch.max),
    ("{o} = Min ({a}, {b})", torch.min),
    ("{o} = PRelu ({a}, {b})", lambda a, b: torch.where(a > 0, a, a * b)),
    ("{o} = Sum ({a}, {b}, {c})", lambda a, b, c: a + b + c),
    ("{o} = Clip ({a}, zero, half)", lambda a: a.clamp(0.0, 0.5)),
    ("{o}_1 = ReduceMean <keepdims = 0> ({b})\n{o} = Clip ({a}, {o}_1)", lambda a, b: torch.maximum(a, b.mean())),
    ("{o}_1 = Transpose ({b})\n{o}_2 = MatMul ({a}, {o}_1)\n{o} = Gemm ({o}_2, {a}, {c})", lambda a, b, c: a @ b.t() @ a + c),
    ("{o}_1 = Concat <axis = 0> ({a}, {b})\n{o} = Gather ({o}_1, rows)", lambda a, b: torch.cat((a, b))[ROWS]),
    ("{o} = Einsum <equation = \"ij,ij->ij\"> ({a}, {b})", lambda a, b: torch.einsum("ij,ij->ij", a, b)),
    ("{o}_1 = Reshape ({a}, shape4)\n{o}_2 = Reshape ({b}, shape4)\n{o}_3 = Conv ({o}_1, {o}_2)\n{o}_4 = Add ({o}_1, {o}_3)\n"
     "{o} = Reshape ({o}_4, shape)",
     lambda a, b: (a.reshape(1, 1, 2, 3) + F.conv2d(a.reshape(1, 1, 2, 3), b.reshape(1, 1, 2, 3))).reshape(2, 3)),
    ("{o}_1 = Reshape ({a}, shape4)\n{o}_2 = Reshape ({b}, shapeg)\n{o}_3 = GridSample ({o}_1, {o}_2)\n{o}_4 = Squeeze ({o}_3)\n"
     "{o} = Expand ({o}_4, shape)",
     lambda a, b: F.grid_sample(a.reshape(1, 1, 2, 3), b.reshape(1, 1, 3, 2), align_corners=False).squeeze().expand(2, 3)),
    ("{o}_1 = ReduceSum <keepdims = 0> ({b}, zero1)\n{o} = LayerNormalization ({a}, {o}_1, {o}_1)",
     lambda a, b: F.layer_norm(a, (3,), b.sum(0), b.sum(0))),
    ("{o}_1 = SoftmaxCrossEntropyLoss ({a}, labels)\n{o} = Add ({o}_1, {b})", lambda a, b: F.cross_entropy(a, LABELS) + b),
    ("{o}_1 = Slice ({a}, zero1, one1, one1)\n{o} = Expand ({o}_1, shape)", lambda a: a[:, :1].expand(2, 3)),
    ("{o}_1 = Slice ({b}, zero1, one1, zero1)\n{o} = ScatterND ({a}, rowindex, {o}_1)", scatter),
    ("{o}_1 = Cast <to = 11> ({a})\n{o} = Cast <to = 1> ({o}_1)", lambda a: a.double().float()),
    ("{o}_1 = Cast <to = 16> ({a})\n{o} = CastLike ({o}_1, {b})", lambda a, b: a.bfloat16().float()),
    ("{o} = Dropout ({a}, half, yes)", lambda a: F.dropout(a, 0.5, True)),
    ("{o}_1 = SplitToSequence <axis = 0> ({a})\n{o}_2 = SequenceAt ({o}_1, none)\n{o} = Expand ({o}_2, shape)",
     lambda a: a.split(1)[0].expand(2, 3)),
    ("{o}_1 = SequenceConstruct ({a}, {b})\n{o}_2 = SequenceInsert ({o}_1, {c}, none)\n{o}_3 = ConcatFromSequence <axis = 0> ({o}_2)\n"
     "{o} = Gather ({o}_3, rows)", lambda a, b, c: torch.cat((c, a, b))[ROWS]),
    None,
    # of a list, the elements that are taken
    ("{o}_1 = SequenceConstruct ({a}, {b})\n{o}_2 = SequenceInsert ({o}_1, {c})\n{o} = SequenceAt ({o}_2, two)", lambda a, b, c: c),
    ("{o}_1 = SequenceConstruct ({a}, {b}, {c})\n{o}_2 = SequenceErase ({o}_1, none)\n{o} = SequenceAt ({o}_2, none)", lambda a, b, c: b),
    # zero gradients are gradients
    ("{o} = Floor ({a})", torch.floor),
    ("{o} = Ceil ({a})", torch.ceil),
    ("{o} = Round ({a})", torch.round),
    ("{o} = Sign ({a})", torch.sign),
    ("{o} = Mul ({a}, zero)", lambda a: a * 0.0),
    ("{o} = Sub ({a}, {a})", lambda a: a - a),
    ("{o}_1 = Sigmoid ({a})\n{o} = Bernoulli ({o}_1)", lambda a: torch.bernoulli(a.nan_to_num().sigmoid())),
    ("{o}_1 = Greater ({c}, zero)\n{o} = Where ({o}_1, {a}, {b})", lambda a, b, c: torch.where(c > 0, a, b)),
    ("{o} = Where (yes, {a}, {b})", lambda a, b: torch.where(torch.tensor(True), a, b)),
    # straight through
    ("{o}_1 = QuantizeLinear ({a}, tenth)\n{o}_2 = Transpose ({o}_1)\n{o}_3 = DequantizeLinear ({o}_2, tenth)\n{o} = Transpose ({o}_3)",
     lambda a: torch.fake_quantize_per_tensor_affine(a, 0.1, 0, 0, 255)),
    # no gradient
    ("{o} = ddpc.StopGradient ({a})", torch.detach),
    ("{o}_1 = ArgMax <axis = 0> ({a})\n{o}_2 = Cast <to = 1> ({o}_1)\n{o} = Expand ({o}_2, shape)",
     lambda a: a.argmax(0, True).float().expand(2, 3)),
    ("{o}_1 = Greater ({a}, {b})\n{o} = Cast <to = 1> ({o}_1)", lambda a, b: (a > b).float()),
    ("{o}_1 = IsNaN ({a})\n{o} = Cast <to = 1> ({o}_1)", lambda a: a.isnan().float()),
    ("{o}_1 = Cast <to = 7> ({a})\n{o} = Cast <to = 1> ({o}_1)", lambda a: a.long().float()),
    ("{o}_1 = Cast <to = 9> ({a})\n{o} = CastLike ({o}_1, {b})", lambda a, b: a.bool().float()),
    ("{o}_1 = Shape ({a})\n{o} = ConstantOfShape ({o}_1)", torch.zeros_like),
    ("{o} = RandomNormalLike ({a})", torch.randn_like),
    ("{o}_1 = QuantizeLinear ({a}, tenth)\n{o} = Cast <to = 1> ({o}_1)", lambda a: (a.detach() / 0.1).round()),
    ("{o}_1 = ArgMin <axis = 1, keepdims = 0> ({a})\n{o} = Gather ({b}, {o}_1)", lambda a, b: b[a.argmin(1) % 2]),
    # one result with a gradient, one without, or two apart
    ("{o}_1, {p}_1 = Split <num_outputs = 2> ({a})\n{o} = Expand ({o}_1, shape)\n{p} = Expand ({p}_1, shape)", halves),
    ("{o}, {p}_1 = TopK ({a}, three1)\n{p} = Cast <to = 1> ({p}_1)", lambda a: (a.topk(3)[0], a.topk(3)[1].float())),
    ("{o}_1 = ReduceSum <keepdims = 0> ({b}, zero1)\n{o}, {p}_1, {o}_2 = BatchNormalization <training_mode = 1> ({a}, {o}_1, {o}_1, m0, m1)\n"
     "{p} = Expand ({p}_1, shape)", norm),
]
FLOWING = OPERATORS[:OPERATORS.index(None)]
OPERATORS.remove(None)


class Maker:
    """One model: its text, and what executes it. Names are unique, so one dictionary holds all values."""

    def __init__(self, dice):
        self.dice, self.names, self.plain = dice, 0, True
        self.uses_count = False
        self.counts = dice.random() < 0.4
        self.by_value = dice.random() < 0.3

    def new(self):
        self.names += 1
        return f"v{self.names}"

    def pick(self, values):
        return values[max(self.dice.randrange(len(values)), self.dice.randrange(len(values)))]

    def operator(self, scope):
        text, meaning = self.dice.choice(OPERATORS if self.dice.random() < 0.4 else FLOWING)
        ins = {k: f"p{self.dice.randrange(PARAMS)}" if self.dice.random() < 0.2 else self.pick(scope["float"])
               for k in "abc" if "{%s}" % k in text}
        outs = {k: self.new() for k in "op" if "{%s}" % k in text}

        def run(env):
            result = meaning(*(env[v] for v in ins.values()))
            result = result if isinstance(result, tuple) else (result,)
            env.update(zip(outs.values(), result))

        scope["float"] += outs.values()
        return text.format(**ins, **outs).split("\n"), run

    def flag(self, scope):
        a, b, o = self.pick(scope["bool"]), self.pick(scope["bool"]), self.new()
        forms = [(f"{o} = Not ({a})", lambda x, y: not x), (f"{o} = And ({a}, {b})", lambda x, y: x and y),
                 (f"{o} = Or ({a}, {b})", lambda x, y: x or y), (f"{o} = Xor ({a}, {b})", lambda x, y: x != y),
                 (f"{o} = Equal ({a}, no)", lambda x, y: not x),
                 (f"{o}_1 = Cast <to = 7> ({a})\n{o} = Cast <to = 9> ({o}_1)", lambda x, y: x)]
        text, meaning = self.dice.choice(forms)
        scope["bool"].append(o)
        return text.split("\n"), lambda env: env.update({o: meaning(env[a], env[b])})

    def comparison(self, scope):
        v, o = self.pick(scope["float"]), self.new()
        self.plain = False
        scope["bool"].append(o)
        return ([f"{o}_1 = ReduceMean <keepdims = 0> ({v})", f"{o} = Greater ({o}_1, half)"],
                lambda env: env.update({o: bool(env[v].mean() > 0.5)}))

    def branch(self, scope, depth):
        condition, outs = self.pick(scope["bool"]), [self.new() for _ in range(self.dice.choice((1, 1, 2)))]
        lines, runs = [f"{', '.join(outs)} = If ({condition}) <"], []
        for attribute in "then_branch", "else_branch":
            inner, run, results = self.graph(scope, depth + 1, len(outs), self.dice.randrange(1, 4))
            formals = ", ".join("float[2,3] " + r for r in results)
            lines += [f"{attribute} = {self.new()} () => ({formals}) {{", *inner, "}" + (", " if attribute[0] == "t" else ">")]
            runs.append((run, results))
        scope["float"] += outs

        def execute(env):
            run, results = runs[not env[condition]]
            run(env)
            env.update({o: env[r] for o, r in zip(outs, results)})

        return lines, execute

    def loop(self, scope, depth):
        states = self.dice.randrange(1, 4)
        outs, trace, formals = [self.new() for _ in range(states)], self.new(), [self.new() for _ in range(states)]
        starts = [self.pick(scope["float"]) for _ in outs]
        scans, number = self.dice.random() < 0.5, self.dice.randrange(4)
        dynamic, stops = self.counts and self.dice.random() < 0.5, self.by_value and self.dice.random() < 0.5
        start = self.pick(scope["bool"]) if self.dice.random() < 0.3 else "yes"
        short = not stops and self.dice.random() < 0.2
        self.uses_count |= dynamic
        self.plain &= not dynamic and not stops
        g, count = self.new(), "n" if dynamic else self.new()
        # A flag of the trip's number: its first, all even ones, or all from the second on.
        first, even, later = self.new(), self.new(), self.new()
        inner, run, results = self.graph(dict(scope, float=scope["float"] + formals, bool=scope["bool"] + [first, even, later]),
                                         depth + 1, states + 1, self.dice.randrange(1, 4), swap=formals)
        last = results.pop()
        lines = [] if dynamic else [f"{count} = Constant <value = int64 {{{number}}}> ()"]
        lines += [f"{', '.join(outs + [trace + '_1'] * scans)} = Loop ({count}, {start}, {', '.join(starts)}) <body = {g} ("
                  f"int64 {g}_i, bool {g}_c, {', '.join('float[2,3] ' + f for f in formals)}) => (bool {g}_d, "
                  f"{', '.join('float[2,3] ' + r for r in results + [last] * scans)}) {{",
                  f"{first} = Equal ({g}_i, none)", f"{even}_1 = Mod ({g}_i, two)", f"{even} = Equal ({even}_1, none)",
                  f"{later} = Greater ({g}_i, none)", *inner]
        if short:
            lines += [f"{g}_e = Not ({later})", f"{g}_d = And ({g}_c, {g}_e)", "}>"]
        elif stops:
            lines += [f"{g}_m = ReduceMean <keepdims = 0> ({results[0]})", f"{g}_d = Less ({g}_m, half)", "}>"]
        else:
            lines += [f"{g}_d = Identity ({g}_c)", "}>"]
        if scans:
            lines += [f"{trace} = ReduceSum <keepdims = 0> ({trace}_1, zero1)"]
        scope["float"] += outs + [trace] * scans

        def execute(env):
            values, collected, going = [env[s] for s in starts], torch.zeros(2, 3), env[start]
            for trip in range(env["n"] if dynamic else number):
                if not going:
                    break
                env.update({first: trip == 0, even: trip % 2 == 0, later: trip > 0})
                env.update(zip(formals, values))
                run(env)
                values = [env[r] for r in results]
                collected = collected + env[last]
                going = trip == 0 if short else not stops or bool(values[0].mean() < 0.5)
            env.update(zip(outs, values))
            env[trace] = collected

        return lines, execute

    def graph(self, outer, depth, outputs, size, swap=()):
        scope = {k: list(v) for k, v in outer.items()}
        lines, runs, outside = [], [], len(scope["float"])
        for _ in range(size):
            roll = self.dice.random()
            if roll < 0.14 and depth < 3:
                made = self.branch(scope, depth)
            elif roll < 0.24 and depth < 2:
                made = self.loop(scope, depth)
            elif roll < 0.34:
                made = self.flag(scope)
            elif roll < 0.38 and self.by_value:
                made = self.comparison(scope)
            else:
                made = self.operator(scope)
            lines += made[0]
            runs.append(made[1])
        results, copies = [], []
        for _ in range(outputs):
            # A loop's body likes to hand its states around.
            v = self.dice.choice(swap) if swap and self.dice.random() < 0.4 else self.pick(scope["float"][-size - 2:])
            o = self.new()
            lines.append(f"{o} = Identity ({v})")
            copies.append((o, v))
            results.append(o)

        def run(env):
            for r in runs:
                r(env)
            env.update({o: env[v] for o, v in copies})

        return lines, run, results

    def model(self):
        params = [f"p{i}" for i in range(PARAMS)]
        flags = [f"c{i}" for i in range(FLAGS)]
        scope = {"float": ["x"] + params, "bool": flags}
        lines, run, results = self.graph(scope, 0, 3, self.dice.randrange(5, 20))
        text = (HEAD + f"m (float[2,3] x, {', '.join('bool ' + c for c in flags)}, int64 n, float[3] m0, float[3] m1) => (float loss)\n"
                f"<{', '.join('float[2,3] ' + p for p in params)}> {{\n" + CONSTANTS + "\n".join("  " + l for l in lines) +
                f"\n  sum = Sum ({', '.join(results)})\n  loss = ReduceMean <keepdims = 0> (sum)\n}}\n")
        return text, run, results, params, flags


def execute(run, results, params, flags, values, n):
    env = dict(zip(flags, values), n=n, yes=True, x=torch.rand(2, 3))
    leaves = [torch.rand(2, 3).add_(0.1).requires_grad_() for _ in params]
    env.update(zip(params, leaves))
    run(env)
    total = sum(env[r] for r in results).mean()
    if total.requires_grad:
        total.backward()
    return [p.grad is not None for p in leaves], {k: v for k, v in env.items() if isinstance(v, bool)}


def holds(guard, booleans, n):
    """The guard's value, or None if it has branches that only parts of the execution know."""
    text = guard["text"].replace("&&", " and ").replace("||", " or ").replace("!", " not ").replace("true", "True")
    for branch in guard["branches"]:
        if branch not in booleans and branch != "(n>=1)":
            return None
    return eval(text, {"n": n}, booleans)


def differences(report, seen, plain):
    for i, p in enumerate(report):
        present = [grads[i] for grads, _, _ in seen]
        shown = "always" if all(present) else "conditional" if any(present) else "never"
        if plain and p["class"] != shown or p["class"] == "always" and shown != "always" or p["class"] == "never" and shown != "never":
            yield f"{p['name']} is {p['class']}, autograd shows {shown}"
        for (grads, booleans, n) in seen if p["class"] == "conditional" else ():
            value = holds(p["guard"], booleans, n)
            if value is False and grads[i] or value is True and p["guard"]["exact"] and not grads[i]:
                yield f"{p['name']}: guard {p['guard']['text']} is {value} with {booleans} n={n}, a gradient is {grads[i]}"
                break


def main():
    ddpc, models, seed = sys.argv[1], int((sys.argv + ["", "300"])[2] or 300), int((sys.argv[3:] + ["1"])[0])
    torch.set_num_threads(1)
    failed, classes = 0, {"always": 0, "never": 0, "conditional": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.ir"
        for number in range(models):
            dice = random.Random(f"{seed}.{number}")
            torch.manual_seed(seed)
            maker = Maker(dice)
            text, run, results, params, flags = maker.model()
            path.write_text(text)
            out = subprocess.run([ddpc, "check", path, "--format=json"], capture_output=True, text=True, timeout=60)
            try:
                report = json.loads(out.stdout)["steps"][0]["parameters"]
                assert [p["name"] for p in report] == params and all(p["reason"] for p in report) and not out.stderr
            except (ValueError, KeyError, AssertionError):
                wrong = [out.stderr or out.stdout]
            else:
                seen = []
                for values in itertools.product((False, True), repeat=FLAGS):
                    for n in (0, 1, 3) if maker.uses_count else (0,):
                        seen.append((*execute(run, results, params, flags, values, n), n))
                wrong = list(differences(report, seen, maker.plain))
                for p in report:
                    classes[p["class"]] += 1
            if wrong:
                failed += 1
                if failed <= 3:
                    print(f"{text}\nmodel {number} of seed {seed}:\n" + "\n".join(wrong), file=sys.stderr)
    print(f"{models - failed} of {models} models as autograd does; parameters: {classes}")
    return failed > 0 or not all(classes.values())


if __name__ == "__main__":
    sys.exit(main())
