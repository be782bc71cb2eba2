"""A GraphModule is an ordinary module to the rest of torch."""

import copy
import io
import math
import operator
import pickle
import sys
import types

import pytest
import torch
import torch.fx
import torch.fx.experimental.proxy_tensor
import torch.fx.traceback
import torch.multiprocessing
import torch.nn.functional as F
import torch.package

import fxlib


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 2)
        self.scale = torch.nn.Parameter(torch.tensor(0.5))
        self.register_buffer("shift", torch.tensor(0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn(self.conv(x))) * self.scale + self.shift
        return self.head(y.mean((2, 3)))


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block()


@pytest.fixture
def image() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(5, 3, 6, 6)


def test_trains_as_the_module_does(block, image):
    eager = copy.deepcopy(block)
    traced = fxlib.symbolic_trace(block)
    losses = []
    for module in (eager, traced):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        history = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.mse_loss(module(image), torch.ones(5, 2))
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        losses.append(history)
    assert losses[0] == losses[1]
    assert losses[1][-1] < losses[1][0]
    torch.testing.assert_close(eager.state_dict(), traced.state_dict(), rtol=0, atol=0)


def test_train_and_eval_switch_the_modules_inside(block, image):
    traced = fxlib.symbolic_trace(block)
    traced.train()
    traced(image)
    traced.eval()
    assert not traced.bn.training
    torch.testing.assert_close(traced(image), block.eval()(image), rtol=0, atol=0)


def test_scripts(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    scripted = torch.jit.script(traced)
    torch.testing.assert_close(scripted(image), block(image), rtol=0, atol=0)
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    torch.testing.assert_close(torch.jit.load(file)(image), block(image))


def test_jit_traces(block, image):
    traced = torch.jit.trace(fxlib.symbolic_trace(block.eval()), image)
    torch.testing.assert_close(traced(image), block(image), rtol=0, atol=0)


def test_exports(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    for strict in (False, True):
        program = torch.export.export(
            traced, (image,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},), strict=strict
        )
        torch.testing.assert_close(program.module()(image[:3]), block(image[:3]))
        assert sorted(program.state_dict) == sorted(block.state_dict())


def test_compiles(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    torch._dynamo.reset()
    compiled = torch.compile(traced, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(image), block(image))
    assert len(graphs) == 1


def test_compiles_with_gradients(block, image):
    torch._dynamo.reset()
    traced = fxlib.symbolic_trace(block)
    expected = torch.autograd.grad(block(image).sum(), block.conv.weight)[0]
    compiled = torch.compile(traced, backend="aot_eager")
    found = torch.autograd.grad(compiled(image).sum(), traced.conv.weight)[0]
    torch.testing.assert_close(found, expected)


def test_a_compiled_function_may_trace(image):
    def doubled(x):
        return torch.relu(x) * 2

    traced = fxlib.symbolic_trace(doubled)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(traced, backend="eager")(image), doubled(image))


@pytest.mark.parametrize("how", ["pickle", "torch.save", "deepcopy", "copy"])
def test_is_copied_and_stored(how, block, image):
    traced = fxlib.symbolic_trace(block.eval())
    traced.meta["note"] = {"a": 1}
    if how == "pickle":
        again = pickle.loads(pickle.dumps(traced))
    elif how == "torch.save":
        file = io.BytesIO()
        torch.save(traced, file)
        file.seek(0)
        again = torch.load(file, weights_only=False)
    else:
        again = getattr(copy, how)(traced)
    assert again.code == traced.code
    torch.testing.assert_close(again(image), block(image), rtol=0, atol=0)
    assert (again.conv is traced.conv) == (how == "copy")
    assert list(again.state_dict()) == list(traced.state_dict())
    again.graph.lint()


def test_goes_into_a_package(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    file = io.BytesIO()
    with torch.package.PackageExporter(file) as exporter:
        exporter.save_pickle("model", "traced.pkl", traced)
    file.seek(0)
    again = torch.package.PackageImporter(file).load_pickle("model", "traced.pkl")
    assert isinstance(again, fxlib.GraphModule) and again.code == traced.code
    torch.testing.assert_close(again(image), block(image), rtol=0, atol=0)
    again.graph.lint()


def test_state_dict_moves_between_traced_and_eager(block, image):
    traced = fxlib.symbolic_trace(copy.deepcopy(block))
    torch.manual_seed(5)
    other = Block()
    traced.load_state_dict(other.state_dict())
    torch.testing.assert_close(traced.eval()(image), other.eval()(image), rtol=0, atol=0)


def test_moves_device_and_type(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    assert traced.double()(image.double()).dtype is torch.float64
    on_meta = traced.to("meta")
    result = on_meta(image.double().to("meta"))
    assert result.device.type == "meta" and result.shape == (5, 2)


def test_traces_a_model_on_meta(image):
    with torch.device("meta"):
        traced = fxlib.symbolic_trace(Block().eval())
    assert traced(image.to("meta")).shape == (5, 2)


def test_sits_inside_another_module_and_is_traced_again(block, image):
    traced = fxlib.symbolic_trace(block.eval())

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = traced

        def forward(self, x):
            return torch.sigmoid(self.inner(x))

    outer = fxlib.symbolic_trace(Outer())
    assert {node.target for node in outer.graph.nodes} >= {"inner.conv", "inner.scale", torch.sigmoid}
    torch.testing.assert_close(outer(image), torch.sigmoid(block(image)), rtol=0, atol=0)
    twice = fxlib.symbolic_trace(outer)
    assert twice.code == outer.code
    sequence = torch.nn.Sequential(traced, torch.nn.Softmax(1))
    torch.testing.assert_close(sequence(image), block(image).softmax(1), rtol=0, atol=0)


def test_torch_fx_traces_it(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    again = torch.fx.symbolic_trace(traced)
    assert again.code == traced.code
    torch.testing.assert_close(again(image), block(image), rtol=0, atol=0)


def test_traces_what_torch_fx_traced(block, image):
    foreign = torch.fx.symbolic_trace(block.eval())
    assert fxlib.symbolic_trace(foreign).code == foreign.code


def test_make_fx_and_functional_call(block, image):
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = fxlib.symbolic_trace(block.eval())
    torch.testing.assert_close(make_fx(traced)(image)(image), block(image))
    weights = {name: torch.zeros_like(value) for name, value in block.state_dict().items()}
    assert torch.func.functional_call(traced, weights, (image,)).abs().max() == 0
    mapped = torch.vmap(fxlib.symbolic_trace(lambda x: torch.relu(x).sum()))(image)
    assert mapped.shape == (5,)


def test_hooks_run(block, image):
    traced = fxlib.symbolic_trace(block.eval())
    seen = []
    traced.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    traced.conv.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    traced(image)
    assert seen == [torch.Size([5, 3, 6, 6]), torch.Size([5, 2])]


def test_wraps_registered_with_torch_fx_by_another_library(image):
    source = """
import torch, torch.fx
@torch.fx.wrap
def pick(x, flag=True):
    return x.abs() if x.sum() > 0 else x.neg()
def length(x):
    return len(x)
torch.fx.wrap("length")
torch.fx.wrap("len")
def run(x):
    return pick(x) * length(x) + len(x)
"""
    library = types.ModuleType("a_third_party_library")
    sys.modules[library.__name__] = library
    try:
        exec(compile(source, "a_third_party_library.py", "exec"), library.__dict__)
        traced = fxlib.symbolic_trace(library.run)
        assert [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"] == [
            "pick", "length", "mul", "len", "add",
        ]  # fmt: skip
        for x in (image, -image.abs()):
            torch.testing.assert_close(traced(x), library.run(x), rtol=0, atol=0)
        assert torch.fx.symbolic_trace(library.run).code == traced.code
    finally:
        del sys.modules[library.__name__]


@pytest.mark.parametrize("ask", ["is_fx_symbolic_tracing", "is_fx_tracing"])
def test_torch_fx_says_that_it_is_tracing(ask):
    answers = []

    class Asks(torch.nn.Module):
        def forward(self, x):
            answers.append((getattr(torch.fx._symbolic_trace, ask)(), getattr(fxlib._symbolic_trace, ask)()))
            return x + 1

    fxlib.symbolic_trace(Asks())
    torch.fx.symbolic_trace(Asks())
    Asks()(torch.ones(1))
    assert answers == [(True, True), (True, True), (False, False)]


def module_stacks(graph):
    return [[path for path, _ in n.meta.get("nn_module_stack", {}).values()] for n in graph.nodes if "call" in n.op]


def test_tools_that_look_at_scopes_get_the_module_stack(block, image):
    """Which modules an operation was called in: on the nodes, where torch records on top of them, in an export."""
    model = torch.nn.Sequential(block.eval(), torch.nn.Linear(2, 2))
    ours, theirs = fxlib.symbolic_trace(model), torch.fx.symbolic_trace(model)
    assert [dict(n.meta.get("nn_module_stack", {})) for n in ours.graph.nodes] == [
        dict(n.meta.get("nn_module_stack", {})) for n in theirs.graph.nodes
    ]
    assert module_stacks(ours.graph)[0] == ["0", "0.conv"]
    for kept in (copy.deepcopy(ours), fxlib.interop.to_torch_fx(ours)):
        assert module_stacks(kept.graph) == module_stacks(ours.graph)

    recorded = []
    for library, traced in ((fxlib, ours), (torch.fx, theirs)):
        run = library.Interpreter(traced).run
        with torch.fx.traceback.preserve_node_meta():
            recorded.append(module_stacks(torch.fx.experimental.proxy_tensor.make_fx(run)(image).graph))
    assert recorded[0] == recorded[1] and ["0", "0.conv"] in recorded[0]

    program = torch.export.export(fxlib.interop.to_torch_fx(ours), (image,), strict=False)
    assert ["0", "0.conv"] in module_stacks(program.graph)
    # torch.export puts modules together again from the stacks.
    unflattened = torch.export.unflatten(torch.export.export(ours, (image,), strict=False))
    torch.testing.assert_close(unflattened(image), model(image))
    assert dict(unflattened.named_children()).keys() == dict(ours.named_children()).keys()


def test_modules_of_the_standard_library_are_recorded():
    def forward(x):
        return operator.add(x, 1) * math.sqrt(4) + math.floor(2.5)

    assert fxlib.symbolic_trace(forward)(torch.ones(1)).item() == 6.0


def _train_on_two(rank: int, file: str, queue) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    torch.manual_seed(0)
    module = torch.nn.parallel.DistributedDataParallel(fxlib.symbolic_trace(Block()))
    torch.manual_seed(rank)
    images, wanted = torch.randn(4, 3, 6, 6), torch.randn(4, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        F.mse_loss(module(images), wanted).backward()
        optimizer.step()
    queue.put((rank, [parameter.detach().tolist() for parameter in module.parameters()]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_distributed_data_parallel(tmp_path):
    context = torch.multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # one import of torch for both
    queue = context.Queue()
    workers = [context.Process(target=_train_on_two, args=(rank, str(tmp_path / "store"), queue)) for rank in range(2)]
    for worker in workers:
        worker.start()
    results = dict(queue.get(timeout=120) for _ in workers)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    # Different data on each, the same parameters afterwards: gradients were averaged.
    assert results[0] == results[1]
    torch.manual_seed(0)
    assert results[0] != [parameter.tolist() for parameter in Block().parameters()]
