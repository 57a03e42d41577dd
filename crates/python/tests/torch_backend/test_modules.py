"""Modules of PyTorch's, compiled: their values, gradients and compiles against PyTorch's own."""

import copy

import pytest

torch = pytest.importorskip("torch")

import kiln.torch  # noqa: E402
from modules import MODULES, SIZES  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    kiln.torch.reset()
    torch.manual_seed(7)


def compiled(module):
    return torch.compile(module, backend=kiln.torch.backend, dynamic=True, options={"cache": False})


def close(ours, theirs, tolerance=2e-4):
    if isinstance(theirs, (tuple, list)):
        for one, other in zip(ours, theirs, strict=True):
            close(one, other, tolerance)
        return
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def expect_compiled(n_graphs):
    counted = kiln.torch.counters()
    assert counted["eager_graphs"] == 0 and counted["eager_calls"] == 0, kiln.torch.explain()
    assert counted["compiled_graphs"] <= n_graphs, kiln.torch.explain()


@pytest.mark.parametrize("name", MODULES)
def test_forward(name):
    make, inputs, _ = MODULES[name]
    module = make().eval()
    ours = compiled(module)
    with torch.no_grad():
        for size in SIZES:
            given = inputs(*size)
            close(ours(*given), module(*given))
    # Sizes never cause another compile.
    expect_compiled(1)


def loss_of(result):
    parts = result if isinstance(result, (tuple, list)) else [result]
    return sum(part.square().mean() for part in parts if part.dtype.is_floating_point)


@pytest.mark.parametrize("name", [name for name, (_, _, is_trained) in MODULES.items() if is_trained])
def test_training(name):
    make, inputs, _ = MODULES[name]
    eager = make().train()
    module = copy.deepcopy(eager)
    ours = compiled(module)
    optimisers = [torch.optim.SGD(one.parameters(), lr=0.05) for one in (eager, module)]
    for size in SIZES[:3]:
        given = inputs(*size)
        losses = []
        for function, optimiser in zip((eager, ours), optimisers):
            optimiser.zero_grad()
            loss = loss_of(function(*given))
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        close(losses[1], losses[0])
    for (key, ours_value), theirs in zip(module.state_dict().items(), eager.state_dict().values()):
        close(ours_value, theirs, 1e-3), key
    expect_compiled(2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["gated unit", "resnet", "autoencoder"])
def test_other_dtypes(name, dtype):
    make, inputs, _ = MODULES[name]
    module = make().eval().to(dtype)
    ours = compiled(module)
    tolerance = 1e-9 if dtype == torch.float64 else 5e-2
    with torch.no_grad():
        for size in SIZES[:3]:
            given = [tensor.to(dtype) for tensor in inputs(*size)]
            close(ours(*given), module(*given), tolerance)
    expect_compiled(1)


def test_random_numbers_are_pytorchs():
    def noisy(x):
        return x + torch.rand(x.shape[0], 4) + torch.randn_like(x)

    ours = compiled(noisy)
    for rows in (3, 5):
        x = torch.zeros(rows, 4)
        torch.manual_seed(1)
        expected = noisy(x)
        torch.manual_seed(1)
        close(ours(x), expected)
    expect_compiled(1)


def test_dropout_zeroes_a_share_and_keeps_the_mean():
    module = torch.nn.Dropout(0.25)
    ours = compiled(module)
    x = torch.ones(100, 100, requires_grad=True)
    y = ours(x)
    y.sum().backward()
    share = (y == 0).float().mean()
    assert 0.2 < share < 0.3
    close(x.grad, y.detach())


def test_parameters_are_shared_without_a_copy():
    module = torch.nn.Linear(4, 4, bias=False)
    ours = compiled(module)
    x = torch.randn(3, 4)
    with torch.no_grad():
        ours(x)
        module.weight.zero_()
        assert not ours(x).any()
    expect_compiled(1)


def test_a_graph_that_kiln_cannot_compile_is_run_by_pytorch_and_explained():
    def with_a_decomposition(x):
        return torch.linalg.svdvals(x)

    ours = compiled(with_a_decomposition)
    x = torch.randn(4, 3)
    close(ours(x), with_a_decomposition(x))
    counted = kiln.torch.counters()
    assert counted["eager_graphs"] >= 1 and counted["eager_calls"] >= 1 and counted["compiled_graphs"] == 0
    assert "svd" in kiln.torch.explain()


def test_sizes_are_returned():
    def sized(x):
        return x.sum(), x.shape[0] * 2 + x.shape[1]

    ours = compiled(sized)
    for shape in [(3, 4), (5, 6)]:
        x = torch.randn(shape)
        total, size = ours(x)
        close(total, x.sum())
        assert size == shape[0] * 2 + shape[1]


def test_integers_are_arguments():
    def shifted(x, n):
        return torch.roll(x, n, 0) * n + torch.arange(n).sum()

    ours = compiled(shifted)
    x = torch.randn(7, 3)
    for n in (4, 6, 9):
        close(ours(x, n), shifted(x, n))
    expect_compiled(1)
    ours = compiled(lambda x, n: x * n)
    for n in (4, 6, -3):
        close(ours(x, n), x * n)


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="options"):
        torch.compile(torch.nn.ReLU(), backend=kiln.torch.backend, options={"speed": "much"})(torch.ones(2))


def test_the_name_is_registered_where_the_package_is_installed():
    from importlib.metadata import entry_points

    found = [point for point in entry_points(group="torch_dynamo_backends") if point.name == "kiln"]
    if not found:
        pytest.skip("the package is used in place, without its metadata")
    assert found[0].load() is kiln.torch.backend
    close(torch.compile(torch.nn.ReLU(), backend="kiln", dynamic=True)(torch.ones(3)), torch.ones(3))
