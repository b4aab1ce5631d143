package vec

import "github.com/onward-ml/onward/internal/cpu"

// RotateF32 rotates the points of rows of stride step by angles given by their cosines and sines.
// These have the stride angleStep, or are the same for all rows if it is 0:
//
//	dst[i], dst[i+half] = cos[i]*x[i]-sin[i]*x[i+half], sin[i]*x[i]+cos[i]*x[i+half]
//
// dst may be x.
func RotateF32(l cpu.Level, dst, x []float32, step, half int, cos, sin []float32, angleStep, rows int) {
	if rows <= 0 || half <= 0 {
		return
	}
	end, last := (rows-1)*step+2*half, (rows-1)*angleStep+half
	rotateF32(l, dst[:end], x[:end], step, half, cos[:last], sin[:last], angleStep, rows)
}

func rotateF32Generic(dst, x []float32, step, half int, cos, sin []float32, angleStep, rows int) {
	for r := range rows {
		x, y := x[r*step:][:half], x[r*step+half:][:half]
		dx, dy := dst[r*step:][:half], dst[r*step+half:][:half]
		cos, sin := cos[r*angleStep:][:half], sin[r*angleStep:][:half]
		for i, c := range cos {
			s, u, v := sin[i], x[i], y[i]
			dx[i] = float32(c*u) - float32(s*v)
			dy[i] = float32(s*u) + float32(c*v)
		}
	}
}
