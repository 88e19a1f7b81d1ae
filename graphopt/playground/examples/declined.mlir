// fuse_bn_act_ops takes a batch norm with its relu. Not here: the result of the norm is fetched, so it stays.
func.func @main(
  feed %image: tensor<2x3x8x8xf32>,
  state %mean: tensor<3xf32>,
  state %variance: tensor<3xf32>
) -> (fetch "normal": tensor<2x3x8x8xf32>, fetch "active": tensor<2x3x8x8xf32>) {
  %normal, %m, %v, %s, %i = pd.batch_norm(%image, %mean, %variance) {is_test = true}
  %active = pd.relu(%normal)
  func.return %normal, %active : tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>
}
