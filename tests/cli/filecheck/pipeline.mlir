// RUN: graphopt-opt %s -p fuse-elewise-add-act,dce | filecheck %s --check-prefix FUSED
// RUN: graphopt-opt %s -p cse | filecheck %s --check-prefix CSE
// RUN: graphopt-opt %s --build-strategy fuse_elewise_add_act_ops | filecheck %s --check-prefix FUSED

func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}, %y: tensor<?x4xf32> {pd.feed = "y"}) -> (tensor<?x4xf32> {pd.fetch = "z"}) {
  %a = pd.add(%x, %y) : tensor<?x4xf32>
  %b = pd.add(%x, %y) : tensor<?x4xf32>
  %z = pd.relu(%a) : tensor<?x4xf32>
  func.return %z : tensor<?x4xf32>
}

// FUSED:       %z = pd.fused_elemwise_add_activation(%x, %y) {functor_list = ["relu", "elementwise_add"]}
// FUSED-NEXT:  func.return

// CSE:         %a = pd.add(%x, %y)
// CSE-NOT:     pd.add
