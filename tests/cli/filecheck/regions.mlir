// RUN: graphopt-opt %s | graphopt-opt - | filecheck %s
// RUN: graphopt-opt %s --print-op-generic | graphopt-opt - | filecheck %s

// Regions use values from around them; their arguments are what changes from turn to turn.

func.func @main(%x: tensor<2x3xf32> {pd.feed = "x"}, %n: tensor<1xi64> {pd.feed = "n"}) -> (tensor<2x3xf32> {pd.fetch = "y"}) {
  %zero = pd.full() {dtype = i64, shape = [1], value = 0.0} : () -> tensor<1xi64>
  %go = pd.less_than(%zero, %n) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1>
  %i, %y = pd.while(%go, carried = [%zero, %x]) : (tensor<1xi1>, tensor<1xi64>, tensor<2x3xf32>) -> (tensor<1xi64>, tensor<2x3xf32>) {
  ^bb0(%j: tensor<1xi64>, %h: tensor<2x3xf32>):
    %k = pd.scale(%j) {bias = 1.0} : tensor<1xi64>
    %more = pd.less_than(%k, %n) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1>
    %r = pd.if(%more) : (tensor<1xi1>) -> tensor<2x3xf32> {
      pd.yield(values = [%x]) : (tensor<2x3xf32>) -> ()
    } else {
      %e = pd.exp(%h) : tensor<2x3xf32>
      pd.yield(values = [%e]) : (tensor<2x3xf32>) -> ()
    }
    pd.yield(values = [%more, %k, %r]) : (tensor<1xi1>, tensor<1xi64>, tensor<2x3xf32>) -> ()
  }
  func.return %y : tensor<2x3xf32>
}

// CHECK:      %i, %y = pd.while(%go, carried = [%zero, %x]) -> (tensor<1xi64>, tensor<2x3xf32>) {
// CHECK-NEXT: ^bb0(%j: tensor<1xi64>, %h: tensor<2x3xf32>):
// CHECK-NEXT:   %k = pd.scale(%j) {bias = 1.0}
// CHECK-NEXT:   %more = pd.less_than(%k, %n)
// CHECK-NEXT:   %r = pd.if(%more) -> tensor<2x3xf32> {
// CHECK-NEXT:     pd.yield(values = [%x])
// CHECK-NEXT:   } else {
// CHECK-NEXT:     %e = pd.exp(%h)
// CHECK-NEXT:     pd.yield(values = [%e])
// CHECK-NEXT:   }
// CHECK-NEXT:   pd.yield(values = [%more, %k, %r])
// CHECK-NEXT: }
