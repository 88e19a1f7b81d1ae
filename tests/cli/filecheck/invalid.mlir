// RUN: graphopt-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

func.func @main(%x: tensor<2x4xf32> {pd.feed = "x"}, %w: tensor<3x8xf32> {pd.state = "w"}) -> (tensor<2x8xf32> {pd.fetch = "y"}) {
  %y = pd.matmul(%x, %w) : (tensor<2x4xf32>, tensor<3x8xf32>) -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}
// CHECK: matmul contracts dimensions of different size: 4 in x [2, 4] against 3 in y [3, 8]

// -----

func.func @main(%x: tensor<2x4xf32> {pd.feed = "x"}) -> (tensor<2x4xf64> {pd.fetch = "y"}) {
  %y = pd.relu(%x) : (tensor<2x4xf32>) -> tensor<2x4xf64>
  func.return %y : tensor<2x4xf64>
}
// CHECK: 'pd.relu' declares the result type tensor<2x4xf64> but its type rule gives tensor<2x4xf32>

// -----

func.func @main(%x: tensor<2x4xf32> {pd.feed = "x"}) -> (tensor<2x4xf32> {pd.fetch = "y"}) {
  %y = pd.softmax(%x) {axes = 1} : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// CHECK: 'pd.softmax' has no attribute 'axes'
