// RUN: graphopt-opt %s | graphopt-opt - | filecheck %s
// RUN: graphopt-opt %s --print-op-generic | graphopt-opt - | filecheck %s

// Feeds, state and fetches are argument and result attributes; properties print without types.

func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}, %w: tensor<4x8xf32> {pd.state = "fc_0.w_0"}) -> (tensor<?x8xf32> {pd.fetch = "y"}) {
  %h = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %s = pd.scale(%h) {bias = 0.1, scale = 1.0e-05} : tensor<?x8xf32>
  %y = pd.cast(%s) {dtype = f32} : tensor<?x8xf32>
  func.return %y : tensor<?x8xf32>
}

// CHECK:      func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}, %w: tensor<4x8xf32> {pd.state = "fc_0.w_0"}) -> (tensor<?x8xf32> {pd.fetch = "y"}) {
// CHECK-NEXT:   %h = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:   %s = pd.scale(%h) {bias = 0.1, scale = 1.0e-05} : tensor<?x8xf32>
// CHECK-NEXT:   %y = pd.cast(%s) {dtype = f32} : tensor<?x8xf32>
// CHECK-NEXT:   func.return %y : tensor<?x8xf32>
