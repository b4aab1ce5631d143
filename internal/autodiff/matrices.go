package autodiff

import "github.com/onward-ml/onward/onnx"

// matrices gives numbers two last dimensions of 1: one for each matrix.
func (b *builder) matrices(v string) string {
	if b.opset < 13 {
		return b.node("Unsqueeze", []*onnx.Attribute{{Name: "axes", Type: onnx.AttrInts, Ints: []int64{-2, -1}}}, v)
	}
	return b.op("Unsqueeze", v, b.ints(-2, -1))
}

// matrixGradients are the rules of determinants: Det is differentiated by the
// cofactors, and these as det(X)·X⁻ᵀ, where X is not singular.
func matrixGradients() map[string]ruleFunc {
	return map[string]ruleFunc{
		"Det": unary(func(b *builder, x, y, g string) string {
			return b.op("Mul", b.matrices(g), b.op("onward.Cofactors", x))
		}),
		// d(X⁻ᵀ) = −X⁻ᵀ·dXᵀ·X⁻ᵀ
		"InverseTransposed": unary(func(b *builder, x, y, g string) string {
			return b.op("Neg", b.op("MatMul", b.op("MatMul", y, b.op("onward.SwapLast", g)), y))
		}),
	}
}
