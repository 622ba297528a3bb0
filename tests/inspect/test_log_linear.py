"""Layers read as generative models and back: against Bayes' rule, Newton's method and quadrature."""

import numpy as np
import pytest

import hiddenstate as hs

RANDOM = np.random.default_rng(0)


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


def newton(inputs, answers, shares, steps=12):
    """Weighted logistic regression with a bias, and the standard errors if all shares are one."""
    design = np.column_stack([inputs, np.ones(len(inputs))])
    found = np.zeros(design.shape[1])
    for _ in range(steps):
        probs = sigmoid(design @ found)
        hessian = (design * (shares * probs * (1 - probs))[:, None]).T @ design
        found = found + np.linalg.solve(hessian, design.T @ (shares * (answers - probs)))
    return found[:-1], found[-1], np.sqrt(np.diag(np.linalg.inv(hessian)))


def covariance_of(kind, size):
    root = RANDOM.normal(size=(size, size))
    return {"scalar": 0.7, "diagonal": RANDOM.uniform(0.5, 2, size), "full": root @ root.T + np.eye(size)}[kind]


def as_matrix(covariance, size):
    covariance = np.asarray(covariance)
    return covariance if covariance.ndim == 2 else covariance * np.eye(size)


def test_weights_on_symbols_are_likelihood_and_prior_logits():
    weight, bias = RANDOM.normal(size=(3, 5)), RANDOM.normal(size=3)
    model = hs.inspect.log_linear(weight, bias, inputs="one-hot")
    np.testing.assert_allclose(model.likelihood, softmax(weight), atol=1e-12)
    for symbol in range(5):
        joint = model.prior * model.likelihood[:, symbol]
        np.testing.assert_allclose(joint / joint.sum(), softmax(weight[:, symbol] + bias), atol=1e-12)
    np.testing.assert_allclose(model.posterior(np.arange(5)), softmax(weight.T + bias), atol=1e-12)


def test_symbols_there_and_back():
    prior, likelihood = RANDOM.dirichlet(np.ones(3)), RANDOM.dirichlet(np.ones(4), 3)
    model = hs.inspect.SymbolClasses(prior, likelihood)
    again = hs.inspect.log_linear(*model.layer(), inputs="one-hot")
    np.testing.assert_allclose(again.prior, prior, atol=1e-10)
    np.testing.assert_allclose(again.likelihood, likelihood, atol=1e-10)
    weight, bias = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=3)
    back = hs.inspect.log_linear(weight, bias, inputs="one-hot").layer()
    table, same = weight + bias[:, None], back.weight + back.bias[:, None]
    np.testing.assert_allclose(same - same.mean(0), table - table.mean(0), atol=1e-10)


def test_what_a_layer_does_not_show_is_how_often_symbols_come():
    """A number in each column changes the model and no posterior; the marginal settles it."""
    prior, likelihood = RANDOM.dirichlet(np.ones(3)), RANDOM.dirichlet(np.ones(4), 3)
    weight, bias = hs.inspect.SymbolClasses(prior, likelihood).layer()
    shifted = weight + RANDOM.normal(size=4)
    other = hs.inspect.log_linear(shifted, bias + 3.0, inputs="one-hot")
    assert abs(other.likelihood - likelihood).max() > 0.05
    np.testing.assert_allclose(other.posterior(np.arange(4)), softmax(weight.T + bias), atol=1e-12)
    settled = hs.inspect.log_linear(shifted, bias + 3.0, inputs="one-hot", marginal=prior @ likelihood)
    np.testing.assert_allclose(settled.prior, prior, atol=1e-10)
    np.testing.assert_allclose(settled.likelihood, likelihood, atol=1e-10)
    assert "P(x)" in settled.unidentified


def test_a_sigmoid_on_symbols():
    weight, bias = RANDOM.normal(size=4), 0.3
    model = hs.inspect.log_linear(weight, bias, inputs="one-hot")
    np.testing.assert_allclose(model.posterior(np.arange(4))[:, 1], sigmoid(weight + bias), atol=1e-12)
    back = model.log_odds()
    np.testing.assert_allclose(back.weight + back.bias, weight + bias, atol=1e-10)


def test_symbols_that_a_class_never_draws():
    model = hs.inspect.SymbolClasses([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]])
    assert model.layer().weight[0, 1] == -np.inf
    again = hs.inspect.log_linear(*model.layer(), inputs="one-hot")
    np.testing.assert_allclose(again.likelihood, model.likelihood, atol=1e-12)
    np.testing.assert_allclose(model.posterior([0, 1]), [[2 / 3, 1 / 3], [0, 1]], atol=1e-12)


@pytest.mark.parametrize("kind", ["scalar", "diagonal", "full"])
@pytest.mark.parametrize("classes", [2, 4])
def test_gaussians_there_and_back(kind, classes):
    prior, means = RANDOM.dirichlet(np.ones(classes)), RANDOM.normal(size=(classes, 3))
    covariance = covariance_of(kind, 3)
    model = hs.inspect.GaussianClasses(prior, means, covariance)
    layer = model.layer()
    again = hs.inspect.log_linear(*layer, inputs="gaussian", covariance=covariance, mean=means[0])
    np.testing.assert_allclose(again.prior, prior, atol=1e-10)
    np.testing.assert_allclose(again.means, means, atol=1e-10)

    points, precision = RANDOM.normal(size=(6, 3)), np.linalg.inv(as_matrix(covariance, 3))
    apart = points[:, None] - means
    bayes = softmax(np.log(prior) - np.einsum("nci,ij,ncj->nc", apart, precision, apart) / 2)
    np.testing.assert_allclose(model.posterior(points), bayes, atol=1e-12)
    np.testing.assert_allclose(softmax(points @ layer.weight.T + layer.bias), bayes, atol=1e-12)
    if classes == 2:
        np.testing.assert_allclose(sigmoid(points @ model.log_odds().weight + model.log_odds().bias), bayes[:, 1])


def test_any_layer_is_a_posterior_of_gaussians_wherever_they_lie():
    weight, bias, points = RANDOM.normal(size=(4, 2)), RANDOM.normal(size=4), RANDOM.normal(size=(7, 2))
    for mean, covariance in (([0.0, 0.0], 1.0), ([2.0, -1.0], covariance_of("full", 2))):
        model = hs.inspect.log_linear(weight, bias, inputs="gaussian", covariance=covariance, mean=mean)
        np.testing.assert_allclose(model.means[0], mean)
        np.testing.assert_allclose(model.posterior(points), softmax(points @ weight.T + bias), atol=1e-10)
        back = model.layer().centred()
        np.testing.assert_allclose(back.weight, weight - weight.mean(0), atol=1e-10)
        np.testing.assert_allclose(back.bias, bias - bias.mean(), atol=1e-10)
    assert "covariance" in model.unidentified


def test_signs_are_those_of_class_one():
    model = hs.inspect.GaussianClasses([0.75, 0.25], [-1.0, 2.0], 1.5)
    weight, bias = model.log_odds()
    np.testing.assert_allclose(weight, [(2.0 + 1.0) / 1.5], atol=1e-12)
    np.testing.assert_allclose(bias, np.log(0.25 / 0.75) + (1.0 - 4.0) / (2 * 1.5), atol=1e-12)
    assert model.posterior([3.0])[1] > model.posterior([-3.0])[1]
    again = hs.inspect.log_linear(weight, bias, inputs="gaussian", covariance=1.5, mean=-1.0)
    np.testing.assert_allclose(again.means[:, 0], [-1.0, 2.0], atol=1e-10)
    np.testing.assert_allclose(again.prior, [0.75, 0.25], atol=1e-10)


def test_logistic_regression_finds_the_implied_layer():
    """On draws of Gaussian naive Bayes within four standard errors, which are hundredths here."""
    means, variances, count = np.array([[-0.5, 0.8, 0.0], [0.6, 0.0, 0.3]]), np.array([1.0, 0.5, 2.0]), 20_000
    implied = hs.inspect.GaussianClasses([0.7, 0.3], means, variances).log_odds()
    random = np.random.default_rng(1)
    answers = (random.random(count) < 0.3).astype(int)
    draws = means[answers] + np.sqrt(variances) * random.normal(size=(count, 3))
    weight, bias, errors = newton(draws, answers, np.ones(count))
    assert errors.max() < 0.05
    assert (abs(np.append(weight - implied.weight, bias - implied.bias)) < 4 * errors).all()


def test_logistic_regression_on_unlimited_data_is_the_implied_layer():
    """Quadrature in place of draws: what maximum likelihood converges to."""
    grid = np.linspace(-14, 14, 4001)
    prior, means, deviation = np.array([0.6, 0.4]), np.array([-1.0, 0.7]), 1.3
    density = prior * np.exp(-((grid[:, None] - means) ** 2) / (2 * deviation**2))
    both = np.concatenate([grid, grid])[:, None]
    weight, bias, _ = newton(both, np.repeat([0, 1], len(grid)), density.T.ravel())
    implied = hs.inspect.GaussianClasses(prior, means, deviation**2).log_odds()
    np.testing.assert_allclose(weight, implied.weight, atol=1e-10)
    np.testing.assert_allclose(bias, implied.bias, atol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (([[1.0, 2.0]], [0.0, 1.0]), {"inputs": "one-hot"}, "weight has shape"),
        (([1.0, np.nan], 0.0), {"inputs": "one-hot"}, "weight holds a number that is not finite"),
        (([1.0], 0.0), {"inputs": "counts"}, "inputs is 'counts'; it must be"),
        (([1.0], 0.0), {"inputs": "gaussian", "mean": 0.0}, "covariance is missing"),
        (([1.0], 0.0), {"inputs": "gaussian", "covariance": 1.0}, "mean is missing"),
        (([1.0], 0.0), {"inputs": "gaussian", "covariance": -1.0, "mean": 0.0}, "positive definite"),
        (([1.0], 0.0), {"inputs": "gaussian", "covariance": [1.0, 1.0], "mean": 0.0}, r"covariance has shape \(2,\)"),
        (([1.0], 0.0), {"inputs": "gaussian", "covariance": 1.0, "mean": [0.0, 1.0]}, r"mean has shape \(2,\)"),
        (([1.0, 0.0], 0.0), {"inputs": "one-hot", "mean": 0.0}, "mean is given, but"),
        (([1.0, 0.0], 0.0), {"inputs": "one-hot", "marginal": [1.0]}, "marginal has 1 probabilities"),
        (([[-np.inf] * 2, [0.0, 0.0]], [0.0, 0.0]), {"inputs": "one-hot"}, "row 0 of weight is all -inf"),
    ],
)
def test_what_is_wrong_is_said(arguments, options, said):
    with pytest.raises(hs.HiddenStateError, match=said):
        hs.inspect.log_linear(*arguments, **options)


def test_what_is_wrong_with_classes_is_said():
    with pytest.raises(hs.HiddenStateError, match="prior is for 1 classes, but there are 2"):
        hs.inspect.GaussianClasses([1.0], [0.0, 1.0], 1.0)
    with pytest.raises(hs.HiddenStateError, match="there are 3 classes; log-odds"):
        hs.inspect.GaussianClasses([0.2, 0.3, 0.5], [0.0, 1.0, 2.0], 1.0).log_odds()
    with pytest.raises(hs.HiddenStateError, match="whole numbers from 0 to 1"):
        hs.inspect.SymbolClasses([0.5, 0.5], [[0.5, 0.5], [0.1, 0.9]]).posterior([2])
