package ops

// rotateHead rotates one head's vector by the angles whose cosines and sines are
// given, one per pair of elements: pairs are (i, i+half), or (2i, 2i+1) when
// interleaved. Elements after the pairs stay
// (https://arxiv.org/abs/2104.09864).
func rotateHead[T realFloat](dst, src, cos, sin []T, interleaved bool) {
	half := len(cos)
	sin = sin[:half]
	if interleaved {
		for i, c := range cos {
			s, x, y := sin[i], src[2*i], src[2*i+1]
			dst[2*i] = c*x - s*y
			dst[2*i+1] = s*x + c*y
		}
	} else {
		x, y := src[:half], src[half:2*half]
		dx, dy := dst[:half], dst[half:2*half]
		for i, c := range cos {
			s, u, v := sin[i], x[i], y[i]
			dx[i] = c*u - s*v
			dy[i] = s*u + c*v
		}
	}
	copy(dst[2*half:], src[2*half:])
}
