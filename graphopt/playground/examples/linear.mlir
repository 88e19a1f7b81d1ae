// Two linear layers: fuse_gemm_epilogue fuses product, bias and activation into one op.
func.func @main(
  feed %x: tensor<?x4xf32>,
  state %w1: tensor<4x8xf32>,
  state %b1: tensor<8xf32>,
  state %w2: tensor<8x3xf32>,
  state %b2: tensor<3xf32>
) -> (fetch "scores": tensor<?x3xf32>) {
  %product = pd.matmul(%x, %w1)
  %sum = pd.add(%product, %b1)
  %hidden = pd.relu(%sum)
  %product2 = pd.matmul(%hidden, %w2)
  %scores = pd.add(%product2, %b2)
  func.return %scores : tensor<?x3xf32>
}
