// RUN: graphopt-opt %s --emit dot | filecheck %s --check-prefix DOT
// RUN: graphopt-opt %s --emit stablehlo | filecheck %s --check-prefix HLO
// RUN: graphopt-opt %s --emit 'stablehlo{dim=5}' | filecheck %s --check-prefix HLO5

func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}) -> (tensor<?x4xf32> {pd.fetch = "y"}) {
  %y = pd.tanh(%x) : tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// DOT:      digraph G {
// DOT:      in0 [shape=oval, label="x"];
// DOT:      op0 [label="pd.tanh\n%{{.*}}"];
// DOT:      in0 -> op0

// HLO:      stablehlo.tanh %{{.*}} : tensor<?x4xf32>

// HLO5:     stablehlo.tanh %{{.*}} : tensor<5x4xf32>
