package vec

import "github.com/onward-ml/onward/internal/cpu"

// RotateF32 rotates points by angles given by their cosines and sines:
//
//	dst[i], dsty[i] = cos[i]*x[i]-sin[i]*y[i], sin[i]*x[i]+cos[i]*y[i]
//
// dst may be x, and dsty may be y.
func RotateF32(l cpu.Level, dst, dsty, x, y, cos, sin []float32) {
	rotateF32(l, dst, dsty, x, y, cos, sin)
}

func rotateF32Generic(dst, dsty, x, y, cos, sin []float32) {
	dsty, x, y, cos, sin = dsty[:len(dst)], x[:len(dst)], y[:len(dst)], cos[:len(dst)], sin[:len(dst)]
	for i, c := range cos {
		s, u, v := sin[i], x[i], y[i]
		dst[i] = float32(c*u) - float32(s*v)
		dsty[i] = float32(s*u) + float32(c*v)
	}
}
