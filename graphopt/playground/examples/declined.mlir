// fuse_bn_act_ops fuses a batch norm with its relu. Here it declines: the result of the norm is fetched.
func.func @main(
  feed %image: tensor<2x3x8x8xf32>,
  state %mean: tensor<3xf32>,
  state %variance: tensor<3xf32>
) -> (fetch "normal": tensor<2x3x8x8xf32>, fetch "active": tensor<2x3x8x8xf32>) {
  %normal, %m, %v, %s, %i = pd.batch_norm(%image, %mean, %variance) {is_test = true}
  %active = pd.relu(%normal)
  func.return %normal, %active : tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>
}
