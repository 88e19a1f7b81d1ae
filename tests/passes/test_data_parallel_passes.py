"""The passes that make a program data-parallel: loss scale, sums, per-replica state."""

from __future__ import annotations

from graphopt.ir.dialect.signature import signature_of
from graphopt.passes.table.explain import as_text
from graphopt.passes.table.flags import GradientScaleStrategy
from graphopt.passes.table.manager import optimize
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.testing import parse

NET = """
func.func @main(
  %x: tensor<?x3x4x4xf32> {pd.feed = "x"}, %w: tensor<3xf32> {pd.state = "w"},
  %mean: tensor<3xf32> {pd.state = "mean"}, %variance: tensor<3xf32> {pd.state = "variance"},
  %lr: tensor<1xf32> {pd.state = "lr"}
) -> (
  tensor<f32> {pd.fetch = "loss"}, tensor<3xf32> {pd.state = "w"},
  tensor<3xf32> {pd.state = "mean"}, tensor<3xf32> {pd.state = "variance"}
) {
  %n, %m1, %v1, %sm, %sv = pd.batch_norm(%x, %mean, %variance, scale = %w)
    : (tensor<?x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<?x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %loss = pd.mean(%n) : (tensor<?x3x4x4xf32>) -> tensor<f32>
  %one = pd.full_like(%loss) {value = 1.0} : tensor<f32>
  %g = pd.grad(of = [%loss], wrt = [%w], cotangents = [%one]) {parameters = [0]}
    : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %w1 = pd.sgd(%w, %g, %lr) : (tensor<3xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
  func.return %loss, %w1, %m1, %v1
    : tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
"""


def parallel(**flags: object) -> str:
    """Return the text of NET, made data-parallel on four replicas under these flags."""
    strategy = BuildStrategy()
    for name, value in flags.items():
        setattr(strategy, name, value)
    module = parse(NET)
    optimize(module, strategy.pass_context(replicas=4, data_parallel=True, loss_grad="loss@GRAD"))
    module.verify()
    return str(module)


def test_gradients_of_parameters_are_averaged() -> None:
    """The seed is 1 / replicas, and the sum is between the derivative and the update."""
    text = parallel()
    assert "pd.full_like(%loss) {value = 0.25}" in text
    assert "%g_1 = pd.all_reduce(%g)" in text
    assert "pd.sgd(%w, %g_1, %lr)" in text


def test_trainers_count() -> None:
    """Gradients are averaged over the devices of all trainers."""
    assert "value = 0.125" in parallel(num_trainers=2)


def test_one() -> None:
    """With One the seed stays 1."""
    assert "value = 1.0" in parallel(gradient_scale_strategy=GradientScaleStrategy.One)


def test_customized() -> None:
    """With Customized the seed is fed."""
    text = parallel(gradient_scale_strategy=GradientScaleStrategy.Customized)
    assert '%one: tensor<f32> {pd.feed = "loss@GRAD"}' in text
    assert "pd.full_like" not in text


def test_batch_norm_statistics_are_per_replica() -> None:
    """Each replica has its own moving statistics; the weight is shared."""
    ports = signature_of(parse(parallel())).results
    assert {port.name for port in ports if port.per_replica} == {"mean", "variance"}


def test_synchronised_statistics_are_not() -> None:
    """sync_batch_norm gives all replicas the same statistics."""
    text = parallel(sync_batch_norm=True)
    assert "sync = true" in text
    assert not signature_of(parse(text)).per_replica


def test_parameters_without_a_sum_would_differ() -> None:
    """_NoReduce leaves the gradients local, so each replica has its own weight."""
    text = parallel(reduce_strategy=BuildStrategy.ReduceStrategy._NoReduce)
    assert "pd.all_reduce" not in text
    assert "w" in signature_of(parse(text)).per_replica


def test_alone_nothing_is_inserted() -> None:
    """On one device, no collective is inserted."""
    module = parse(NET)
    report = optimize(module, BuildStrategy().pass_context())
    assert "pd.all_reduce" not in str(module)
    assert "per_replica" not in str(module)
    phases = [ran.pass_name for ran in report.ran if ran.flag != "any strategy"]
    assert phases == ["fuse-bn-add-act"]


def test_a_seed_is_not_shared() -> None:
    """A constant of the program that equals the seed of a gradient is not scaled with it."""
    module = parse(
        NET.replace("%one = ", "%two = pd.full_like(%loss) {value = 1.0} : tensor<f32>\n  %one = ")
        .replace('tensor<f32> {pd.fetch = "loss"}', 'tensor<f32> {pd.fetch = "two"}')
        .replace("func.return %loss", "func.return %two")
    )
    optimize(module, BuildStrategy().pass_context(replicas=4, data_parallel=True))
    module.verify()
    text = str(module)
    assert text.count("pd.full_like(%loss) {value = 1.0}") == 1
    assert text.count("pd.full_like(%loss) {value = 0.25}") == 1
    assert "func.return %two" in text


def test_explain_counts_what_was_inserted() -> None:
    """The report counts the collectives that each flag inserted."""
    module = parse(NET)
    report = optimize(module, BuildStrategy().pass_context(replicas=2, data_parallel=True))
    assert "reduce_strategy (all-reduce-gradients" in as_text(report)
    assert "+1 pd.all_reduce" in as_text(report, "all")


def test_a_constant_of_two_users() -> None:
    """Scaling the seed leaves other uses of its constant unchanged, and happens once."""
    text = NET.replace("func.return %loss,", "func.return %one,").replace(
        "  %w1 =",
        """  %h = pd.grad(of = [%loss], wrt = [%w], cotangents = [%one]) {parameters = [0]}
    : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %w1 =""",
    )
    module = parse(text)
    optimize(module, BuildStrategy().pass_context(replicas=4, data_parallel=True))
    assert str(module).count("value = 0.25") == 1
    assert "func.return %one," in str(module) and "value = 1.0" in str(module)
