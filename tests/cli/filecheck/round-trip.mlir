// RUN: graphopt-opt %s | graphopt-opt - | filecheck %s
// RUN: graphopt-opt %s --print-op-generic | graphopt-opt - | filecheck %s
// RUN: graphopt-opt %s --print-types | graphopt-opt - | filecheck %s
// RUN: graphopt-opt %s --print-types | filecheck %s --check-prefix TYPES

// Feeds, state and fetches are argument and result attributes, which are printed as roles; types
// are printed where they do not follow from the op, or all.

func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}, %w: tensor<4x8xf32> {pd.state = "fc_0.w_0"}) -> (tensor<2x8xf32> {pd.fetch = "y"}) {
  %h = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  %s = pd.scale(%h) {bias = 0.1, scale = 1.0e-05} : tensor<?x8xf32>
  %y = pd.cast(%s) {dtype = f32} : (tensor<?x8xf32>) -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// CHECK:      func.func @main(
// CHECK-NEXT:   feed %x: tensor<?x4xf32>,
// CHECK-NEXT:   state "fc_0.w_0" %w: tensor<4x8xf32>
// CHECK-NEXT: ) -> (fetch "y": tensor<2x8xf32>) {
// CHECK-NEXT:   %h = pd.matmul(%x, %w)
// CHECK-NEXT:   %s = pd.scale(%h) {bias = 0.1, scale = 1.0e-05}
// CHECK-NEXT:   %y = pd.cast(%s) {dtype = f32} -> tensor<2x8xf32>
// CHECK-NEXT:   func.return %y : tensor<2x8xf32>

// TYPES:      %h = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
// TYPES-NEXT: %s = pd.scale(%h) {bias = 0.1, scale = 1.0e-05} : tensor<?x8xf32>
// TYPES-NEXT: %y = pd.cast(%s) {dtype = f32} : (tensor<?x8xf32>) -> tensor<2x8xf32>
