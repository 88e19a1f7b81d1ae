// The core of attention in four ops: fuse_dot_product_attention fuses them into one.
func.func @main(
  feed %q: tensor<2x4x6x8xf32>,
  feed %k: tensor<2x4x6x8xf32>,
  feed %v: tensor<2x4x6x8xf32>
) -> (fetch "out": tensor<2x4x6x8xf32>) {
  %scaled = pd.scale(%q) {scale = 0.35355339}
  %products = pd.matmul(%scaled, %k) {transpose_y = true}
  %weights = pd.softmax(%products)
  %out = pd.matmul(%weights, %v)
  func.return %out : tensor<2x4x6x8xf32>
}
